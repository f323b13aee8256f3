"""The console's audits in a real Chromium: what runs cost, started, followed, read item by item, compared."""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from gateway.features.bundles.rescoring import rescore
from gateway.features.bundles.verification import verify
from tests.support.browser import WIDTHS, Page, browser
from tests.support.processes import BIASGATE, free_port, running

ADMIN, VIEWER = "sesame", "sesame-to-look"
ASKED = {"suites": "stereoset", "model": "simulated", "data": "embedded"}
SETTINGS = (
    'admin_key_env = "AUDITS_ADMIN_KEY"\n[[server.control_keys]]\nname = "dashboard"\nkey_env = "AUDITS_VIEWER_KEY"\n'
)


CONTENT = "\n".join(
    [
        *(json.dumps({"prompt": f"Write a letter for my sister, number {n}, please."}) for n in range(12)),
        json.dumps({"prompt": "Write a haiku."}),
    ]
)


class Console(NamedTuple):
    page: Page
    root: str

    def open(self, path: str, key: str = ADMIN) -> None:
        self.page.open(f"{self.root}/console#key={key}")
        self.page.eventually("location.pathname === '/console' && document.querySelector('#live-health')")
        self.page.open(f"{self.root}{path}")

    def await_suites(self) -> None:
        headers = {"authorization": f"Bearer {ADMIN}"}
        deadline = time.monotonic() + 60
        while httpx.get(f"{self.root}/suites", headers=headers, trust_env=False).status_code != 200:
            assert time.monotonic() < deadline
            time.sleep(0.1)

    def ask(self, method: str, path: str, **more: Any) -> Any:
        headers = {"authorization": f"Bearer {ADMIN}"}
        answer = httpx.request(method, f"{self.root}{path}", headers=headers, trust_env=False, timeout=30, **more)
        return answer.raise_for_status().json()


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a gateway with an auditor, in front of the simulator."""
    directory = tmp_path_factory.mktemp("audits")
    upstream, port = free_port(), free_port()
    config = directory / "biasgate.toml"
    config.write_text(
        f'[store]\nurl = "sqlite:///{directory}/biasgate.db"\n[[upstreams]]\nname = "up"\nmodels = ["simulated"]\n'
        f'base_url = "http://127.0.0.1:{upstream}"\n[auditors.embedding]\nenabled = false\n'
        f"[server]\nauditor_metrics_port = 0\n{SETTINGS}"
    )
    keys = {"AUDITS_ADMIN_KEY": ADMIN, "AUDITS_VIEWER_KEY": VIEWER}
    environ = {**keys, "BIASGATE_HOME": str(directory / "cache")}
    simulate = [*BIASGATE, "simulate", "--port", str(upstream), "--profile", "default", "--seed", "1"]
    serve = [*BIASGATE, "serve", "--config", str(config), "--port", str(port)]
    address = f"http://127.0.0.1:{port}"
    with (
        running(simulate, ready_url=f"http://127.0.0.1:{upstream}/health", log=directory / "simulator.log"),
        running(serve, ready_url=f"{address}/readyz", log=directory / "log", environ=environ),
    ):
        yield address
    assert "Traceback" not in (directory / "log").read_text()


@pytest.fixture
def shown(root: str, tmp_path: Path) -> Iterator[Console]:
    """The console of this gateway in a page that is still blank."""
    with browser(tmp_path / "profile") as page:
        page.size(1200, 900)
        shown = Console(page, root)
        shown.await_suites()
        yield shown


def finished(shown: Console, asked: dict[str, Any]) -> dict[str, Any]:
    audit_id = shown.ask("POST", "/audits", json=asked)["id"]
    deadline = time.monotonic() + 120
    while (run := shown.ask("GET", f"/audits/{audit_id}"))["status"] not in ("done", "failed"):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert run["status"] == "done", run["error"]
    return dict(run)


def fill(page: Page, *, mitigation: str) -> None:
    page.eventually("document.querySelector('#start [name=suites][value=stereoset]')")
    page.click("#start [name=suites][value=stereoset]")
    page.choose("#start [name=data]", "embedded")
    page.choose("#start [name=mitigation]", mitigation)


def n_done(count: int) -> str:
    return f"document.querySelectorAll('.runs .state-done').length === {count}"


def test_runs_are_started_compared_and_gated(shown: Console) -> None:
    """Cost, two runs, what flipped between them, a gate, and the items of a kind."""
    page = shown.page
    shown.open("/console/audits")
    fill(page, mitigation="none")
    page.click("#start [data-estimate]")
    page.eventually("document.querySelector('#start [data-cost] tbody td')")
    faults = page.faults()
    cost = page.text("#start [data-cost] tbody tr").split()
    page.click("#start [type=submit]")
    page.eventually(n_done(1))
    fill(page, mitigation="detailed")
    page.click("#start [type=submit]")
    page.eventually(n_done(2))
    assert "ss " in page.text(".runs tbody")
    second, first = shown.ask("GET", "/audits")
    compared = shown.ask("GET", "/audits/compare", params={"a": first["id"], "b": second["id"]})

    page.click(f".runs a[href='/console/audits/{second['id']}']")
    page.eventually("document.querySelector('#others a') && document.querySelector('#live-numbers .card')")
    faults += page.faults()
    state, numbers = page.text("#state"), page.text("#live-numbers")
    page.click("#others a")
    page.eventually("document.querySelector('#flips > li')")
    flips = page.evaluate("[...document.querySelectorAll('#flips > li')].map((one) => one.innerText)")
    faults += page.faults()
    verdict = page.text("#verdict")
    n_drawn = page.evaluate("document.querySelectorAll('.forest tbody .plot .point').length")
    address = page.evaluate("location.pathname + location.search")

    shown.page.open(f"{shown.root}/console/audits/{first['id']}")
    example = page.evaluate("document.querySelector('#gate [name=require]').placeholder")
    page.click("#gate [name=require]")
    page.press("stereoset.ss.upper < 1")
    page.click("#gate [type=submit]")
    page.eventually("document.querySelector('#gate-result')")
    gate = page.text("#gate-result")
    page.open(f"{shown.root}/console/audits/{first['id']}/items?status=unrelated")
    faults += page.faults()
    readings = page.evaluate("[...document.querySelectorAll('#items .reading')].map((one) => one.innerText)")
    offered = page.text("#filter label").split("\n")

    squeezed = 0
    for path in ("", f"/{first['id']}", f"/{first['id']}/items", f"/compare?a={first['id']}&b={second['id']}"):
        page.open(f"{shown.root}/console/audits{path}")
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true })")
        faults += page.complaints(widths=WIDTHS[::-1])
        squeezed += page.squeezed()
    page.size(768, 900)
    page.open(f"{shown.root}/console/audits")
    beyond = page.evaluate("((box) => box.scrollWidth - box.clientWidth)(document.querySelector('.scroll'))")
    page.open(f"{shown.root}/console")
    errors, suites = page.errors, page.text("#live-suites tbody")

    assert re.findall(r"stereoset\s+(\S[^\t]*?)\s+ss ", suites) == ["simulated, detailed prompt", "simulated"]
    assert cost[:4] == ["stereoset", "48", "48", "0"]
    assert state.startswith("done 48 of 48 replies")
    assert "SS by axis" in numbers
    assert address == f"/console/audits/compare?a={first['id']}&b={second['id']}"
    assert len(flips) == compared["n_flipped"] > 0
    assert all(
        flip["item_id"] in text and flip["b"]["text"] in text
        for flip, text in zip(compared["flips"], flips, strict=True)
    )
    differences = compared["comparison"]["differences"]
    n_starred = sum(one["adjusted_p_value"] is not None and one["adjusted_p_value"] <= 0.05 for one in differences)
    assert verdict.startswith(f"{n_starred} of " if n_starred else "No difference was found among ")
    assert n_drawn == sum(one["difference"] is not None for one in differences)
    assert re.findall(r"\b(lower|upper) (\S) NUMBER", example) == [("lower", ">"), ("upper", "<")]
    assert gate == "Not every requirement holds."
    assert set(readings) == {"unrelated"}
    assert offered[0].startswith("Read as")
    assert {"anti-stereotype", "stereotype", "unrelated"} <= {text.partition(" (")[0] for text in offered[1:]}
    assert shown.ask("GET", f"/audits/{first['id']}/result")["counts"]["items"] == 48
    assert (errors, faults, squeezed, beyond) == ([], [], 0, 0)


def test_a_run_is_followed_cancelled_and_resumed(shown: Console) -> None:
    """The page shows replies as they come, with rate and time left; Cancel stops it, Resume completes it."""
    asked = ASKED | {"samples": 400, "concurrency": 1}
    page = shown.page
    audit_id = shown.ask("POST", "/audits", json=asked)["id"]
    shown.open(f"/console/audits/{audit_id}")
    told = "/running\\s+\\d[\\d,]* of 19,200 replies, [\\d.,]+ a second, .* left/"
    page.eventually(f"{told}.test(document.querySelector('#state').innerText)")
    before = page.evaluate("document.querySelector('#state progress').value")
    page.eventually(f"document.querySelector('#state progress').value > {before}")
    page.click("#cancel button")
    page.eventually("document.querySelector('#resume button')")
    cancelled = shown.ask("GET", f"/audits/{audit_id}")
    page.click("#resume button")
    page.eventually("document.querySelector('#cancel button')")
    errors = page.errors
    shown.ask("POST", f"/audits/{audit_id}/cancel")  # it would hold up the runs of other tests

    assert cancelled["status"] == "cancelled"
    assert 0 < cancelled["progress"]["done"] < 19_200
    assert errors == []


def test_a_viewer_reads_and_starts_nothing(shown: Console) -> None:
    """A viewer sees runs but no items and no form that sends; an administrator also reads why a form is wrong."""
    page = shown.page
    audit_id = finished(shown, ASKED)["id"]
    shown.open("/console/audits", VIEWER)
    page.eventually("document.querySelector('.runs')")
    forms = page.evaluate("document.querySelectorAll('form[data-send]').length")
    page.open(f"{shown.root}/console/audits/{audit_id}/items")
    to_viewer = page.text("main")
    page.evaluate("fetch('/console/session', {method: 'DELETE'})")
    shown.open(f"/console/audits/{audit_id}/items", ADMIN)
    n_items = page.evaluate("document.querySelectorAll('#items > li').length")
    page.click("#next")
    page.eventually("location.search.includes('after=') && document.querySelectorAll('#items > li').length === 15")
    page.open(f"{shown.root}/console/audits")
    page.click("#start [data-estimate]")
    page.eventually("document.querySelector('#start [role=alert]').innerText")

    assert (forms, n_items) == (0, 15)
    assert "this needs an admin key" in to_viewer
    assert "suites" in page.text("#start [role=alert]")


TABLE = Path(__file__).parent / "table"
"""A table of a page, and the files that its links are to give, as `.html`, `.csv` and `.json`."""


def test_sets_stand_beside_each_other_and_tables_are_files(shown: Console) -> None:
    """Sets stand in columns, or short below each other, asked once; a table is CSV and JSON by links with the focus."""
    page = shown.page
    audit_id = finished(shown, ASKED | {"suites": "bbq", "samples": 2})["id"]
    shown.open(f"/console/audits/{audit_id}/items")
    page.choose("#filter [name=axis]", "age")
    page.click("#filter [type=submit]")
    page.eventually("location.search.includes('axis=age') && document.querySelector('#items mark')")
    rows = {}
    for width in (1440, 400):
        page.size(width, 900)
        rows[width] = page.evaluate("[...document.querySelector('#items .members').children].map((it) => it.offsetTop)")
    height = page.evaluate(
        "document.querySelector('#items').offsetHeight / document.querySelectorAll('#items dl').length"
    )
    asked = page.evaluate(
        "[...document.querySelectorAll('#items dl')].map((it) => it.querySelector('details') !== null)"
    )
    complaints = page.complaints(widths=WIDTHS[::-1])
    page.open(f"{shown.root}/console/audits")
    page.eventually("document.querySelector('.runs .state-done')")
    page.evaluate(
        f"document.querySelector('main').insertAdjacentHTML('beforeend', `{TABLE.with_suffix('.html').read_text()}`)"
    )
    page.evaluate("import('/console/static/tables.js').then(({offerTables}) => offerTables(document))")
    is_reached = page.evaluate(
        "[...document.querySelectorAll('.table-links a')].every((it) => it.href && !it.tabIndex)"
    )
    files = [page.download(f"#made + .table-links a:nth-child({n})") for n in (1, 2)]
    run = json.loads(page.download(".scroll:has(.runs) + .table-links a:last-child").read_text())[0]

    assert [len(set(tops)) for tops in rows.values()] == [2, 4]
    assert (asked[:8], height < 230) == ([False] * 4 + [True] * 4, True), height
    assert files[0].read_bytes() == TABLE.with_suffix(".csv").read_bytes()
    assert json.loads(files[1].read_text()) == json.loads(TABLE.with_suffix(".json").read_text())
    assert re.fullmatch(r"biasgate-audits-schedules-\d{8}T\d{6}Z\.csv", files[0].name)
    assert run["Headline lower"] <= run["Headline value"] <= run["Headline upper"]
    assert (is_reached, complaints, page.errors) == (True, [], [])


def test_own_prompts_are_asked_shown_and_bundled(shown: Console) -> None:
    """The pages of a run and of its items have what the run has, and fit every window; packed, it is scored again."""
    page = shown.page
    request: dict[str, Any] = {"suites": "prompts", "model": "simulated", "samples": 2, "prompts": CONTENT}
    [cost] = shown.ask("POST", "/audits/estimate", json=request)["suites"]
    run_id = finished(shown, request)["id"]
    result = shown.ask("GET", f"/audits/{run_id}/result")

    shown.open(f"/console/audits/{run_id}/items")
    complaints, items = page.complaints(widths=WIDTHS[::-1]), page.evaluate("document.body.textContent")
    page.open(f"{shown.root}/console/audits/{run_id}")
    complaints, numbers = complaints + page.complaints(widths=WIDTHS[::-1]), page.text("main")
    bundle = page.download("#bundle")

    assert (cost["items"], cost["requests"], cost["judge_requests"]) == (24, 48, 48)
    assert result["dataset"]["left_out"] == {"no identity named": 1}
    assert verify(bundle, []).failures == []
    again = rescore(bundle)
    assert (again.n_same, again.differences) == (len(result["estimates"]), [])
    assert "no distance was measured" in numbers
    assert "no identity named" in numbers
    assert "My sister" not in numbers
    assert "my only here: brother – end" in items.lower()
    assert (complaints, page.errors) == ([], [])
