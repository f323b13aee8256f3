"""Audits small open models with every suite, and writes docs/evidence/open-models.md.

Suites that are already in the directory of runs are not asked again; their replies are read again by today's readers.

Example:
  python -m tools.open_models
  python -m tools.open_models --recorded      # asks nothing: reads and scores the recorded replies again
  python -m tools.open_models --exact         # probabilities instead of replies, by vLLM on the CPU
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec

from benchmarks.run import directory
from benchmarks.run.result import Result
from tests.support.models import ROOT, fetch_models, serving, serving_vllm
from tests.support.processes import BIASGATE
from tools.open_models.page import Run, write_page

LIMITS = {
    "stereoset": 100,
    "crows_pairs": 100,
    "bbq": 100,
    "unqover": 100,
    "winobias": 100,
    "eec": 100,
    "real_toxicity_prompts": 96,
    "implicit_association": 24,
    "decision": 12,
    "cogs": 12,
    "ltf_test": 6,
}
"""Most items of each suite, in the order in which they are asked: short answers first."""
EXACT = ("stereoset", "crows_pairs", "bbq", "unqover", "winobias")
"""Suites of mode exact."""
PAGE = ROOT / "docs" / "evidence" / "open-models.md"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.open_models", description=__doc__)
    parser.add_argument("--runs", type=Path, default=ROOT / "bench-out" / "open-models", help="run directories")
    parser.add_argument("--suites", help="suites to ask (default: all)")
    parser.add_argument("--models", help="models to ask (default: all)")
    parser.add_argument("--replies", type=Path, help="also write prompt, options and reply as JSON lines there")
    parser.add_argument("--recorded", action="store_true", help="ask nothing")
    parser.add_argument("--exact", action="store_true", help="ask a vLLM for probabilities")
    arguments = parser.parse_args()
    runs = arguments.runs / "exact" if arguments.exact else arguments.runs
    suites = arguments.suites.split(",") if arguments.suites else list(EXACT if arguments.exact else LIMITS)
    if not arguments.recorded:
        models = fetch_models(for_vllm=arguments.exact)
        for name in arguments.models.split(",") if arguments.models else models:
            _ask(models[name], suites, runs / name, arguments.replies)
    places = [path.parent for path in runs.glob("*/*/result.json")]
    if arguments.exact:
        asked = [directory.read_result(place) for place in places]
        write_page(PAGE, [Run(one, one) for one in asked], " --exact")
    else:
        write_page(PAGE, [Run(directory.read_result(place), _score(place)) for place in places])
    return 0


def _ask(model: Path, suites: list[str], runs: Path, replies: Path | None) -> None:
    """Serve a model, and run the suites that have no result yet."""
    missing = [suite for suite in suites if not (runs / suite / "result.json").exists()]
    if not missing:
        return
    runs.mkdir(parents=True, exist_ok=True)
    is_exact = model.is_dir()
    serve, served_name = (serving_vllm, model.name) if is_exact else (serving, model.stem)
    with serve(model, runs / "server.log") as url:
        for suite in missing:
            started = ["--resume", str(runs / suite), "--base-url", url]
            fresh = ["--suite", suite, "--data", "embedded", "--limit", str(LIMITS[suite]), "--model", served_name]
            fresh += ["--embedder", "minilm"] if suite == "cogs" else []
            fresh += ["--mode", "exact"] if is_exact else []
            fresh += ["--base-url", url, "--concurrency", "2", "--out", str(runs / suite)]
            asked = subprocess.run([*BIASGATE, "audit", "run", *(started if (runs / suite).exists() else fresh)])
            if asked.returncode == 0 and replies is not None:
                replies.mkdir(parents=True, exist_ok=True)
                write_replies(runs / suite, replies / f"REPLIES-{served_name}-{suite}.jsonl")


def write_replies(run: Path, file: Path) -> None:
    """Write each reply of a run with its prompt and options, a line each."""
    result = directory.read_result(run)
    lines = [
        {
            "model": result.model,
            "suite": result.suite,
            "suite_version": result.suite_version,
            "item_id": seen.item.item_id,
            "sample": seen.reply.sample,
            "messages": [message.content for message in seen.item.messages],
            "options": [[choice.text, choice.role] for choice in seen.item.choices],
            "reply": seen.reply.text,
            "finish_reason": seen.reply.finish_reason,
            "judgement": (seen.reply.judge or {}).get("text"),
            "read_as": {"status": seen.reply.status, "value": seen.reply.parsed, "rule": seen.reply.rule},
        }
        for seen in directory.observations(run)
    ]
    file.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))


def _score(run: Path) -> Result:
    """Read and score the replies of a run again, by the suite as it is now."""
    options = directory.read_manifest(run).options
    scored = run / "scored"
    shutil.rmtree(scored, ignore_errors=True)
    argv = ["--suite", options.suite, "--responses", str(run / "responses.jsonl"), "--model", options.model]
    argv += ["--protocol", options.protocol, "--data", options.data, "--seed", str(options.seed), "--out", str(scored)]
    argv += ["--embedder", options.embedder] if options.embedder else []
    subprocess.run([*BIASGATE, "audit", "score", *argv], check=True, stdout=subprocess.DEVNULL)
    return directory.read_result(scored)


if __name__ == "__main__":
    sys.exit(main())
