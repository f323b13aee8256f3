"""`make fuzz`: every target for its share of FUZZ_SECONDS, guided by coverage where atheris is installed.

FUZZ_TARGETS names some of them only, FUZZ_SEED another seed of the mutations. Exit 1 with the input that broke one.
"""

import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tools.fuzz.mutation import mutants
from tools.fuzz.targets import TARGETS


class Tried(NamedTuple):
    """What became of one target."""

    inputs: int
    seconds: float
    how: str
    fault: str | None
    """What broke, with the input."""


def main() -> int:
    """Runs the targets one after the other and prints a table."""
    seconds = float(os.environ.get("FUZZ_SECONDS", "120"))
    names = os.environ.get("FUZZ_TARGETS", ",".join(TARGETS)).split(",")
    if unknown := [name for name in names if name not in TARGETS]:
        sys.stderr.write(f"FUZZ_TARGETS: no target {unknown[0]!r}; there are {', '.join(TARGETS)}\n")
        return 2
    attempt = guided if importlib.util.find_spec("atheris") else mutated
    broken = 0
    for name in names:
        tried = attempt(name, seconds / len(names))
        broken += tried.fault is not None
        sys.stdout.write(f"{name:<10} {tried.inputs:>10} inputs in {tried.seconds:5.0f} s, {tried.how}\n")
        if tried.fault is not None:
            sys.stdout.write(f"FAULT {name}: {tried.fault}\n")
        sys.stdout.flush()
    if broken:
        sys.stderr.write(f"fuzz: {broken} of {len(names)} targets broke; the inputs are above\n")
    return 1 if broken else 0


def mutated(name: str, seconds: float) -> Tried:
    """Seeded mutations in this process."""
    target, tried, started = TARGETS[name](), 0, time.monotonic()
    for data in mutants(target.seeds, target.tokens, int(os.environ.get("FUZZ_SEED", "0"))):
        try:
            target.check(data)
        except Exception as exc:
            return Tried(tried, time.monotonic() - started, "mutated", f"{type(exc).__name__}: {exc}; input {data!r}")
        tried += 1
        if time.monotonic() - started > seconds:
            break
    target.close()
    return Tried(tried, time.monotonic() - started, "mutated", None)


def guided(name: str, seconds: float) -> Tried:
    """Coverage-guided, in a process of its own: libFuzzer ends the process that it runs in."""
    with tempfile.TemporaryDirectory(prefix="biasgate-fuzz-") as directory:
        corpus = Path(directory) / "corpus"
        corpus.mkdir()
        argv = [sys.executable, "-m", "tools.fuzz.guided", name, str(max(1, round(seconds))), str(corpus)]
        started = time.monotonic()
        done = subprocess.run(argv, capture_output=True, text=True, errors="replace", timeout=seconds + 300)
        spent = time.monotonic() - started
        crash = next(iter(corpus.glob("crash-*")), None)
        data = crash.read_bytes() if crash else b""
    inputs = re.search(r"number_of_executed_units:\s*(\d+)", done.stderr)
    reached = re.findall(r"cov: (\d+)", done.stderr)
    how = f"guided by coverage ({reached[-1] if reached else '?'} edges)"
    fault = f"{done.stdout[-3000:]} {done.stderr[-2000:]}; input {data!r}" if done.returncode else None
    return Tried(int(inputs[1]) if inputs else 0, spent, how, fault)


if __name__ == "__main__":
    sys.exit(main())
