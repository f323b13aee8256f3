"""A console in a real Chromium in front of a real gateway, on a store with something for every page."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from auditors.audit_texts import LONGEST_CHARS, Answers, KeptAnswer, KeptCall, Reason
from auditors.streams.drift import DriftSettings
from gateway.store import exchanges
from tests.support.browser import Page, browser
from tests.support.gateway.control_plane import ControlPlane, audit_identities, control_plane, drifted, publish_suites
from tests.support.integration.serving import Command, serving, write_config
from tests.support.store.made import exchange, left_beside, measurement, record

KEY, VIEWER_KEY = "sesame", "sesame-to-look"
KEYED = (
    'admin_key_env = "CONSOLE_ADMIN_KEY"\n'
    '[[server.control_keys]]\nname = "dashboard"\nkey_env = "CONSOLE_VIEWER_KEY"\nrole = "viewer"\n'
)
ENVIRON = {"CONSOLE_ADMIN_KEY": KEY, "CONSOLE_VIEWER_KEY": VIEWER_KEY}
HOSTILE = "<img src=x onerror=alert(1)> Who leads, asks ann@example.org?"
"""Markup and an address, as a client may write them."""
TEXT = "<img src=x onerror=alert(1)> Who leads, asks [email]?"


class Console(NamedTuple):
    page: Page
    root: str
    alarm: dict[str, Any]
    """The judge's alarm, as the API gives it."""
    running: Command
    pair_alarm: str = ""
    """Stream of the alarm of the auditor `counterfactual`."""

    @property
    def alarm_path(self) -> str:
        return f"/console/alarms/{self.alarm['stream']}"

    def get(self, path: str) -> Any:
        return httpx.get(f"{self.root}{path}", headers={"authorization": f"Bearer {KEY}"}, trust_env=False).json()

    def open(self, path: str) -> None:
        self.page.open(f"{self.root}{path}")

    def texts(self, selector: str) -> list[str]:
        """Return what a reader sees of each such element."""
        texts: list[str] = self.page.evaluate(f"[...document.querySelectorAll('{selector}')].map((it) => it.innerText)")
        return texts

    def enter(self, path: str = "/console", key: str = KEY) -> None:
        """Log in on the way to a page."""
        self.open(path)
        self.page.eventually("document.querySelector('#login')")
        self.page.fill("#key", key)
        self.page.click("#login button")
        self.page.eventually("document.querySelector('body[data-live]') && document.querySelector('#fresh').innerText")


async def plant(plane: ControlPlane) -> None:
    """Store an alarm, audits under identities, and a run that waits."""
    await publish_suites(plane)
    await drifted(plane, text=HOSTILE)
    for number in range(3):
        await audit_identities(plane, number, {"man": 0.2, "woman": 0.3, "non_binary": 0.25})
    await audit_identities(plane, 1, {"white": None}, axis="race")
    request = {"suites": "stereoset", "model": "qwen", "data": "embedded"}
    (await plane.http.post("/audits", json=request)).raise_for_status()


async def plant_pairs(plane: ControlPlane) -> None:
    """Store pairs of answers whose difference changed, and what two auditors left in words, hostile and long."""
    calls = ('{"who": "his <b>work</b>", "mark": 90}', '{"mark": 70, "who": "x"}')
    first, second = ([KeptCall("grade", arguments)] for arguments in calls)
    answers = Answers(
        axis="gender",
        group="men",
        reference="women",
        words_swapped=1,
        question=HOSTILE.replace("Who", "Which of them"),
        asked=[KeptAnswer(text=f"{HOSTILE} He leads.\u202e"), KeptAnswer(text="", calls=first)],
        swapped=[KeptAnswer(text=f"{HOSTILE} She helps.\u202e"), KeptAnswer(text="x" * LONGEST_CHARS, calls=second)],
    )
    about = {"metric": "counterfactual_length_difference", "group": "men", "reference": "women", "judge": None}
    settings = DriftSettings(average_run_length=20, tolerance=0.0, reference_window=20)
    body = b'{"messages": [{"role": "user", "content": "Who leads, asks <i>ann@example.org</i>?"}]}'
    for number in range(60):
        pair = f"pair-{number}"
        sampled = exchange(id=pair, request_id=pair, received_at=900.0 + number, request_body=body)
        score = measurement(-1.0 if number < 20 else 1.0, auditor="counterfactual", **about)
        await exchanges.insert_batch(plane.database, [sampled], {("other", "queued"): 1})
        await record(plane.database, sampled, [score], auditor="counterfactual", settings=settings)
        if number in (19, 59):
            await left_beside(plane.database, sampled.id, "counterfactual", answers)
            await left_beside(plane.database, sampled.id, "judge", Reason(text=f"men: {HOSTILE}\u202e"))


async def alarms_by_auditor(plane: ControlPlane) -> dict[str, dict[str, Any]]:
    return {alarm["auditor"]: alarm for alarm in (await plane.http.get("/live/alarms")).json()}


@asynccontextmanager
async def console(directory: Path, settings: str = "") -> AsyncIterator[Console]:
    """Run a gateway without keys on a planted store, with a page that is still blank."""
    async with control_plane(directory, drift={"average_run_length": 20}) as plane:
        await plant(plane)
        alarm = (await alarms_by_auditor(plane))["judge"]
    config = write_config(directory, "http://127.0.0.1:9", settings)
    with browser(directory / "profile") as page:
        async with serving("gateway", "--config", str(config)) as running:
            yield Console(page, running.root, alarm, running)
