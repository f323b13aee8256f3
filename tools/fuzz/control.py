"""Target: the control plane's audit requests, ids and windows (gateway/api/), in front of a real store.

Whatever is asked, the answer is no error of the server and says in one line what is wrong; what is accepted is within
the bounds, and there are never more runs in the queue than may wait.
"""

import asyncio
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import quote_from_bytes

import httpx

from gateway.config.audit_request import LARGEST, MOST_FEW_SHOT, MOST_IN_FLIGHT, MOST_SAMPLES
from gateway.store import runs
from tests.support.gateway.control_plane import STEREOSET, ControlPlane, control_plane, publish_suites
from tests.support.store.made import delete_run
from tools.fuzz.target import Broken

MOST_QUEUED = 8
BOUNDS = {
    "limit": (1, LARGEST),
    "seed": (0, LARGEST),
    "samples": (1, MOST_SAMPLES),
    "few_shot": (0, MOST_FEW_SHOT),
    "temperature": (0, 2),
    "concurrency": (1, MOST_IN_FLIGHT),
}
ROUTES = (
    ("POST", "/audits"),
    ("POST", "/schedules"),
    ("POST", "/annotations"),
    ("GET", "/live/estimates?window="),
    ("GET", "/audits?limit="),
    ("GET", "/audits/"),
    ("POST", "/audits/{}/cancel"),
    ("POST", "/audits/{}/resume"),
    ("GET", "/audits/{}/responses"),
    ("GET", "/live/exchanges?min_score="),
    ("DELETE", "/schedules/"),
)


class Control:
    """The first byte chooses the route; the rest is the body, or what stands in the path or the query."""

    seeds = (
        b'\0{"suites": ["stereoset"], "model": "qwen", "data": "embedded"}',
        b'\0{"suites": "all", "model": "qwen", "limit": 5, "seed": 7, "samples": 2, "temperature": 0.5}',
        b'\0{"suites": ["stereoset"], "model": "qwen", "data": "embedded", "samples": 1000000000}',
        b'\0{"suites": ["stereoset"], "model": "qwen", "data": "embedded", "concurrency": 1e999, "seed": -1}',
        b'\0{"suites": ["stereset"], "model": "qwen", "mitigation": "/etc/passwd", "subset": "a\\u0000b"}',
        b"\0" + b"[" * 4000,
        b'\1{"name": "n", "suites": ["stereoset"], "model": "qwen", "every_hours": 1}',
        b'\2{"exchange_id": "e", "metric": "m", "score": 1, "annotator": "a"}',
        b"\x0390s",
        b"\x03" + b"9" * 30 + b"d",
        b"\x041000",
        b"\x05" + b"0" * 32,
        b"\x06" + b"0" * 32,
        b"\x07../../audits",
        b"\x08%00",
        b"\x09NaN",
        b"\x0a" + b"0" * 32,
    )
    tokens = (
        b'"suites"', b'"model"', b'"data"', b'"limit"', b'"seed"', b'"samples"', b'"mitigation"', b'"few_shot"',
        b'"subset"', b'"temperature"', b'"judge_model"', b'"concurrency"', b'"mode"', b'"protocol"', b'"all"',
        b'"stereoset"', b'"qwen"', b'"embedded"', b'"exact"', b"null", b"true", b"-1", b"0", b"1e400", b"NaN",
        b"9007199254740992", b"1.5", b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\ud800", b"\\u0000", b"\xff",
        b"\xef\xbb\xbf", b"7d", b"%2f", b"&limit=", b"9" * 400, b"[" * 1500,
    )  # fmt: skip

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._directory = tempfile.TemporaryDirectory(prefix="biasgate-fuzz-")
        self._runner.run(self._begin())

    async def _begin(self) -> None:
        self._end = asyncio.Event()
        opened: asyncio.Future[ControlPlane] = asyncio.get_running_loop().create_future()
        self._serving = asyncio.create_task(self._serve(opened))
        self._plane = await opened

    async def _serve(self, opened: "asyncio.Future[ControlPlane]") -> None:
        """Opens and closes the app in one task, as its lifespan wants it."""
        async with control_plane(Path(self._directory.name), audits={"max_queued": MOST_QUEUED}) as plane:
            await publish_suites(plane, data="present", modes=["sample", "exact"], items=STEREOSET["items"])
            opened.set_result(plane)
            await self._end.wait()

    def check(self, data: bytes) -> None:
        self._runner.run(self._check(data))

    async def _check(self, data: bytes) -> None:
        method, route = ROUTES[data[0] % len(ROUTES) if data else 0]
        content, said = data[1:], quote_from_bytes(data[1:], safe="")
        is_body = method == "POST" and "{}" not in route
        try:
            answer = await self._plane.http.request(
                method,
                route if is_body else route.format(said) if "{}" in route else route + said,
                content=content if is_body else None,
                headers={"content-type": "application/json"} if is_body else {},
            )
        except httpx.InvalidURL:
            return  # longer than any client sends
        if answer.status_code >= 500:
            raise Broken(f"{method} {route} with {content!r}: {answer.status_code} {answer.text}")
        if answer.status_code >= 400:
            _check_refusal(answer)
        elif route == "/audits" and method == "POST":
            await self._check_accepted(answer.json())

    async def _check_accepted(self, accepted: dict[str, Any]) -> None:
        for run_id in accepted["ids"].values():
            run = await runs.get(self._plane.database, run_id)
            if run is None or run.status != "queued":
                raise Broken(f"accepted, but not queued: {accepted}")
            for name, (least, most) in BOUNDS.items():
                value = run.options[name]
                if value is not None and not least <= value <= most:
                    raise Broken(f"accepted with {name} {value}")
            if len(await runs.list_runs(self._plane.database, status="queued")) > MOST_QUEUED:
                raise Broken("more runs are queued than may wait")
            await runs.cancel(self._plane.database, run_id)
            await delete_run(self._plane.database, run_id)

    def close(self) -> None:
        self._runner.run(self._finish())
        self._runner.close()
        self._directory.cleanup()

    async def _finish(self) -> None:
        self._end.set()
        await self._serving


def _check_refusal(answer: httpx.Response) -> None:
    """One line that says what is wrong, as RFC 9457 has it."""
    detail = answer.json().get("detail")
    if not isinstance(detail, str) or not detail or "\n" in detail:
        raise Broken(f"no one line: {answer.status_code} {answer.text}")
    if "Traceback" in detail:
        raise Broken(f"a traceback: {answer.text}")
