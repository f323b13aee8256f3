"""The vLLM that all harnesses ask: taught to answer in words that can be read, and watched through its own counters."""

import contextlib
import os
import re
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tests.vllm.conftest import ROOT, TINY_MODELS, VLLM_ENVIRON, serving
from tools.bench.harnesses.exam import lessons

LOOK_SECONDS = 0.05
_COUNTED = re.compile(
    r'^http_requests_total\{[^}\n]*handler="/v1/(?:chat/)?completions(?:/batch)?"[^}\n]*\} (\S+)', re.MULTILINE
)
_UNDER_WAY = re.compile(r"^vllm:num_requests_(?:running|waiting)\{[^}\n]*\} (\S+)", re.MULTILINE)


class Watched(msgspec.Struct):
    """What the server saw of one harness."""

    requests: int = 0
    first: float | None = None
    """When it was last seen with nothing answered and nothing under way, by time.monotonic, and"""
    last: float = 0.0
    """when the last answer was seen."""

    @property
    def seconds(self) -> float:
        """From the first question to the last answer, to within LOOK_SECONDS."""
        return self.last - (self.first if self.first is not None else self.last)


@contextlib.contextmanager
def taught_vllm(env: Path, home: Path) -> Iterator[tuple[str, Path]]:
    """Base URL without /v1, and the directory of the model."""
    python, plain, taught = env / "bin/python", home / "plain", home / "model"
    environ = {**os.environ, **VLLM_ENVIRON}
    build: list[str | Path] = [
        python,
        TINY_MODELS / "build_model.py",
        plain,
        TINY_MODELS / "corpus.txt",
        ROOT / "LICENSE",
    ]
    subprocess.run(build, check=True, capture_output=True, env=environ)
    teach: list[str | Path] = [python, TINY_MODELS / "teach_model.py", "teach", plain, taught]
    subprocess.run(teach, check=True, capture_output=True, env=environ, input=lessons().encode())
    with serving(env, taught, home / "vllm.log", environ={"VLLM_SERVER_DEV_MODE": "1"}) as url:
        yield url, taught


def forget_prompts(url: str) -> None:
    """Empties the cache of prefixes, so that nobody finds another's prompts there."""
    with urllib.request.urlopen(urllib.request.Request(f"{url}/reset_prefix_cache", method="POST"), timeout=30):
        pass


@contextlib.contextmanager
def watched(url: str) -> Iterator[Watched]:
    """Counts the requests answered while the block runs, and when; complete once it is left."""
    found, ended = Watched(), threading.Event()
    before, _ = _counters(url)
    found.first = time.monotonic()

    def look() -> None:
        at = time.monotonic()
        answered, is_busy = _counters(url)
        n = answered - before
        if n == 0 and not is_busy:
            found.first = at
        if n > found.requests:
            found.requests, found.last = n, time.monotonic()

    def keep_looking() -> None:
        while not ended.wait(LOOK_SECONDS):
            look()

    thread = threading.Thread(target=keep_looking)
    thread.start()
    try:
        yield found
    finally:
        ended.set()
        thread.join()
        look()


def _counters(url: str) -> tuple[int, bool]:
    """Requests answered so far, and whether any sequence waits or runs."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=30) as answer:
        page = answer.read().decode()
    n_answered = sum(float(number) for number in _COUNTED.findall(page))
    return int(n_answered), any(float(number) for number in _UNDER_WAY.findall(page))
