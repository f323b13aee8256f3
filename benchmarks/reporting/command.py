"""The command that makes a run's numbers again, from what the run itself recorded."""

import shlex

from benchmarks.run.result import Result, shown_fields
from benchmarks.suites import registry
from benchmarks.suites.common.mitigation import NONE


def command_of(result: Result) -> str:
    """In the words of the shell. What moves no number (parallel requests, directories, keys) is not in it; of a
    mitigation, judge or embedder of the user's own its name is there, not its file.
    """
    where, is_asked = result.provenance, result.provenance.started is not None
    if where.imported is not None:
        said = ("--from", where.imported.harness, "LOG", "--suite", result.suite, "--model", result.model)
        way = ("--protocol", result.protocol, "--data", result.dataset.kind, "--out", "DIR")
        return shlex.join(["biasgate", "audit", "import", *said, *way])
    fields = shown_fields(result.extra_body)
    judges = [one.model for one in where.judge if one.model != result.model]
    options = {
        "--suite": result.suite,
        "--responses": None if is_asked else "responses.jsonl",
        "--model": result.model,
        "--base-url": f"http://{where.base_url_host}" if where.base_url_host else None,
        "--judge-model": judges[0] if judges and is_asked else None,
        "--protocol": result.protocol,
        "--mode": result.mode,
        "--data": result.dataset.kind,
        "--thinking": result.thinking if result.thinking != "default" else None,
        "--extra-body": fields or None,
        "--mitigation": result.mitigation if result.mitigation != NONE else None,
        "--embedder": where.embedder,
        "--seed": result.seed,
    }
    is_own = result.suite == registry.OWN.name
    if is_own:  # the command brings these itself
        options |= dict.fromkeys(("--suite", "--protocol", "--mode", "--data"))
    if is_asked:
        options |= {
            "--subset": result.subset,
            "--limit": result.limit,
            "--samples": result.samples if result.samples != 1 else None,
            "--few-shot": result.few_shot or None,
            "--temperature": None if result.temperature is None else f"{result.temperature:g}",
            "--precision": None if result.precision is None else f"{result.precision.demanded:g}",
        }
    words = [word for name, value in options.items() if value is not None for word in (name, str(value))]
    if is_own and not is_asked:
        return shlex.join(["biasgate", "audit", "score", "--suite", result.suite, "--prompts", "FILE.jsonl", *words])
    how = ["prompts", "FILE.jsonl"] if is_own else ["run" if is_asked else "score"]
    return shlex.join(["biasgate", "audit", *how, *words])
