"""Measure biasgate in front of a vLLM on this machine's GPU, section by section, within a number of minutes.

    PYTHONPATH=/tmp/biasgate-gpu/site python3 -m tools.gpu.measure --out DIRECTORY [--minutes 9]
    .venv/bin/python -m tools.gpu.measure --out DIRECTORY --device cpu --minutes 22    # the rehearsal

Each section is a program of its own with a time limit. Its output is written at once to DIRECTORY/NAME.txt, its seconds
and exit status to DIRECTORY/sections.json, so that a section that fails or hangs costs no other section's figures.
"""

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from tools.bench.gateway.arena import tree
from tools.gpu.receive import HOME

FULL_WIDTH, FULL_LAYERS = "2048", "16"
"""Random weights of the shape of a model with one thousand million parameters."""
VLLM_TESTS = ("tests/vllm/test_exact.py", "tests/vllm/test_wire.py", "tests/vllm/test_ends.py")
"""They share one vLLM."""
LEAST_SECONDS = 20.0
"""A section that has less is left out."""
GRACE_SECONDS = 30.0
"""For a program that is interrupted."""


class Section(NamedTuple):
    """One program and the longest that it may take."""

    name: str
    seconds: float
    command: Sequence[str]


class Outcome(msgspec.Struct, frozen=True):
    """How one section ended."""

    name: str
    status: int | None
    """The exit status; None when its time ran out or there was none left."""
    seconds: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="directory of the results")
    parser.add_argument("--minutes", type=float, default=9.0, help="of all sections together (default %(default)s)")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="(default %(default)s)")
    parser.add_argument("--only", help="names of sections, with commas")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    sections = list_sections(options.device)
    if options.only:
        sections = [section for section in sections if section.name in options.only.split(",")]
    outcomes = run_sections(sections, options.out, 60 * options.minutes, environment_of(options.device))
    for outcome in outcomes:
        ended = "no time" if outcome.status is None else f"exit {outcome.status}"
        print(f"{outcome.name:12}{ended:>10}{outcome.seconds:8.0f} s")
    return 0 if all(outcome.status == 0 for outcome in outcomes) else 1


def list_sections(device: str) -> list[Section]:
    """Return the sections in the order of their worth: what no other machine can show comes first."""
    python, is_gpu = sys.executable, device == "cuda"
    live = [python, "-m", "tools.bench.live", "--direct", "--sampling", "0.05"]
    if is_gpu:
        live += ["--width", FULL_WIDTH, "--layers", FULL_LAYERS, "--rate", "30", "--max-tokens", "64"]
        live += ["--rounds", "4", "--seconds", "10", "--vllm=--max-num-seqs 64"]
    else:
        live += ["--quick", "--seconds", "12", "--width", "256", "--layers", "2"]
    embedding = [python, "-m", "tools.gpu.embedding", "--texts", "512" if is_gpu else "16"]
    tests = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "vllm"]
    return [
        Section("machine", 30, [python, "-m", "tools.gpu.describe"]),
        Section("embedding", 90, [*embedding, "--device", device]),
        Section("live", 420, live),
        Section("vllm", 240 if is_gpu else 900, [*tests, *VLLM_TESTS]),
        Section("eviction", 180, [*tests, "tests/vllm/test_backpressure.py"]),
    ]


def environment_of(device: str) -> dict[str, str]:
    """Return what the sections' programs need in their environment."""
    if device == "cpu":
        return {}
    site = str(HOME / "site")
    return {"PYTHONPATH": site, "BIASGATE_VLLM_ENV": str(HOME / "env"), "HF_HUB_OFFLINE": "1"}


def run_sections(sections: Sequence[Section], out: Path, seconds: float, environment: dict[str, str]) -> list[Outcome]:
    """Run the sections in turn until `seconds` are over; write after each how it ended."""
    deadline = time.monotonic() + seconds
    outcomes: list[Outcome] = []
    for section in sections:
        left = min(section.seconds, deadline - time.monotonic())
        outcomes.append(run_section(section, out, left, environment))
        (out / "sections.json").write_bytes(msgspec.json.format(msgspec.json.encode(outcomes)))
        for report in Path("bench-out").glob("live.json"):
            shutil.copy(report, out)
    return outcomes


def run_section(section: Section, out: Path, seconds: float, environment: dict[str, str]) -> Outcome:
    """Run one program; end it and its servers after `seconds`."""
    if seconds < LEAST_SECONDS:
        return Outcome(section.name, None, 0.0)
    started = time.monotonic()
    with (out / f"{section.name}.txt").open("wb") as log:
        process = subprocess.Popen(
            section.command,
            stdout=log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
            start_new_session=True,
        )
        try:
            status: int | None = process.wait(seconds)
        except subprocess.TimeoutExpired:
            status = None
            end_program(process)
    return Outcome(section.name, status, time.monotonic() - started)


def end_program(process: "subprocess.Popen[bytes]") -> None:
    """Interrupt a program, so that it ends its own servers; kill it with all its descendants when it does not."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        for pid in tree(process.pid):  # servers are in sessions of their own
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()


if __name__ == "__main__":
    sys.exit(main())
