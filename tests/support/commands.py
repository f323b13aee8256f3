"""`biasgate` as a user starts it, and run directories to try commands on."""

import asyncio
import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from gateway.__main__ import main
from tests.support.benchmarks.scripted import pick, plan


async def command(*arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a real `biasgate` process."""
    process = await start(*arguments)
    out, err = await process.communicate()
    return process.returncode or 0, out.decode(), err.decode()


def run_here(*arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command in this process, for one that sets no signal handler."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(arguments)
    return code, out.getvalue(), err.getvalue()


def refused(*arguments: str) -> str:
    """The one line with which a command refuses what it is given."""
    code, _, err = run_here(*arguments)
    assert (code, err.count("\n")) == (2, 1), err
    return err


async def start(*arguments: str, stderr: int = subprocess.PIPE) -> asyncio.subprocess.Process:
    root = Path(__file__).parents[2]
    environ: Mapping[str, str] = os.environ | {"PYTHONPATH": str(root)}
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "gateway", *arguments, stdout=subprocess.PIPE, stderr=stderr, env=environ
    )


def stereoset(url: str, *more: str) -> tuple[str, ...]:
    server = ("--base-url", url, "--model", "simulated", "--data", "embedded")
    return ("audit", "run", "--suite", "stereoset", *server, *more)


def scored(path: Path, role: str = "stereotype") -> Path:
    """A run directory made by `audit score` from a scripted model's replies."""
    replies = path.with_suffix(".jsonl")
    lines = [{"item_id": item.item_id, "text": pick(role)(item)} for item in plan().items]
    replies.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    arguments = ["audit", "score", "--suite", "stereoset", "--data", "embedded"]
    assert main([*arguments, "--responses", str(replies), "--out", str(path)]) == 0
    return path
