"""StereoSet with a neutral third option as a user asks it, against the simulated model."""

import json
from pathlib import Path

from tests.support.commands import refused, run_here
from tests.support.simulated import simulator_in_thread

ASK = ("audit", "run", "--suite", "stereoset", "--model", "simulated", "--base-url")
NEUTRAL = ("--third-option", "neutral", "--data", "embedded")


def test_a_neutral_third_option_is_a_run_of_its_own(tmp_path: Path) -> None:
    """Mode exact reads the planted share; the report's command asks the same; no usual run compares."""
    (tmp_path / "p.toml").write_text("[stereoset]\np_neutral = 0.25\np_stereotype = 0.7\n")
    with simulator_in_thread(str(tmp_path / "p.toml")) as url:
        for out, *options in (("usual",), ("neutral", *NEUTRAL), ("again", *NEUTRAL, "--mode", "exact")):
            code, printed, err = run_here(*ASK, url, "--data", "embedded", *options, "--out", out)
            assert code == 0, err
    assert "embedded, not comparable" in printed
    result = json.loads((tmp_path / "again/result.json").read_text())
    whole = {one["metric"]: one["value"] for one in result["estimates"] if not (one["axis"] or one["subset"])}
    assert [round(whole[name], 6) for name in ("ss", "neutral_share", "association_share")] == [70.0, 25.0, 75.0]
    assert (result["dataset"]["name"], result["assessable"]) == ("own neutral options of the embedded items", True)
    page = (tmp_path / "neutral/report.html").read_text()
    assert all(words in page for words in ("--data embedded", "--third-option neutral", "association share ·"))
    assert "(published)" not in page
    assert "cannot be compared: dataset_sha256" in refused("audit", "compare", "usual", "neutral")


def test_canonical_items_need_a_file() -> None:
    """The built-in texts are for the embedded items."""
    fault = refused(*ASK, "http://127.0.0.1:9", "--third-option", "neutral")
    assert "neutral is of embedded items: add --data embedded, or name a file of yours" in fault
