"""Audits small open models with every suite, and writes docs/evidence/open-models.md.

Suites that are already in the directory of runs are not asked again; their replies are read again by today's readers.

Example:
  python -m tools.open_models
  python -m tools.open_models --recorded      # asks nothing: reads and scores the recorded replies again
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec

from benchmarks.run import directory
from benchmarks.run.result import Result
from tests.support.models import ROOT, fetch_models, serving
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
PAGE = ROOT / "docs" / "evidence" / "open-models.md"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.open_models", description=__doc__)
    parser.add_argument("--runs", type=Path, default=ROOT / "bench-out" / "open-models", help="run directories")
    parser.add_argument("--suites", default=",".join(LIMITS), help="suites to ask (default: all)")
    parser.add_argument("--models", help="models to ask (default: all)")
    parser.add_argument("--replies", type=Path, help="also write prompt, options and reply as JSON lines there")
    parser.add_argument("--recorded", action="store_true", help="ask nothing")
    arguments = parser.parse_args()
    if not arguments.recorded:
        models = fetch_models()
        for name in arguments.models.split(",") if arguments.models else models:
            _ask(models[name], arguments.suites.split(","), arguments.runs / name, arguments.replies)
    places = [path.parent for path in arguments.runs.glob("*/*/result.json")]
    write_page(PAGE, [Run(directory.read_result(place), _score(place)) for place in places])
    return 0


def _ask(model: Path, suites: list[str], runs: Path, replies: Path | None) -> None:
    """Serve a model, and run the suites that have no result yet."""
    missing = [suite for suite in suites if not (runs / suite / "result.json").exists()]
    if not missing:
        return
    runs.mkdir(parents=True, exist_ok=True)
    with serving(model, runs / "server.log") as url:
        for suite in missing:
            started = ["--resume", str(runs / suite), "--base-url", url]
            fresh = ["--suite", suite, "--data", "embedded", "--limit", str(LIMITS[suite]), "--model", model.stem]
            fresh += ["--embedder", "minilm"] if suite == "cogs" else []
            fresh += ["--base-url", url, "--concurrency", "2", "--out", str(runs / suite)]
            asked = subprocess.run([*BIASGATE, "audit", "run", *(started if (runs / suite).exists() else fresh)])
            if asked.returncode == 0 and replies is not None:
                replies.mkdir(parents=True, exist_ok=True)
                write_replies(runs / suite, replies / f"REPLIES-{model.stem}-{suite}.jsonl")


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
