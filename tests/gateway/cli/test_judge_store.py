"""`biasgate judge calibrate` with a store: labels of it, and comparisons kept in it."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from auditors.types import JudgeStamp
from gateway.__main__ import main
from gateway.features.labelling import annotations
from gateway.features.labelling.annotations import AnnotationRequest
from gateway.store import calibrations, exchanges
from gateway.store.calibrations import Calibration
from gateway.store.database import Database
from tests.support.commands import refused
from tests.support.store.made import exchange, measurement, record

N = 110


async def _labelled(url: str, thinking: str | None) -> None:
    database = await Database.open(url)
    for number in range(N):
        one = exchange()
        score = measurement(float(number % 2), judge=JudgeStamp(model="j", prompt_sha256="ab" * 32, thinking=thinking))
        await exchanges.insert_batch(database, [one], {})
        await record(database, one, [score])
        said = float(number % 2) if number % 10 else 1.0
        label = AnnotationRequest(
            exchange_id=one.id, auditor="judge", axis="gender", group="women", value=said, annotator="ann"
        )
        await annotations.add(database, label)
    await database.close()


async def _listed(url: str) -> list[Calibration]:
    database = await Database.open(url)
    try:
        return await calibrations.list_calibrations(database)
    finally:
        await database.close()


def test_labels_of_the_store_are_compared_and_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Which judge it was the annotations say; the same comparison is written to a file with the same digest."""
    store, out = tmp_path / "live.db", tmp_path / "validation.json"
    asyncio.run(_labelled(f"sqlite:///{store}", "off"))
    assert main(["judge", "calibrate", "--store", str(store), "--keep", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    [kept] = asyncio.run(_listed(f"sqlite:///{store}"))

    assert f"kept as sha256:{kept.digest}: validates the judge on this question" in printed
    assert (kept.judge_model, kept.prompt_sha256, kept.thinking, kept.n) == ("j", "ab" * 32, "off", N)
    assert calibrations.written(msgspec.json.decode(out.read_bytes())) == out.read_bytes()


def test_old_annotations_are_of_the_judge_that_is_named(tmp_path: Path) -> None:
    """Those from before thinking was kept take it from the command line, and without it are refused."""
    store = tmp_path / "live.db"
    asyncio.run(_labelled(f"sqlite:///{store}", None))
    assert "do not name the judge" in refused("judge", "calibrate", "--store", str(store), "--keep")
    assert main(["judge", "calibrate", "--store", str(store), "--keep", "--thinking", "on"]) == 0
    assert [one.thinking for one in asyncio.run(_listed(f"sqlite:///{store}"))] == ["on"]


def test_bad_input(tmp_path: Path) -> None:
    """The gate reads a comparison of a file, or of a store by its digest; each fault of either command is one line."""
    store = tmp_path / "live.db"
    asyncio.run(_listed(f"sqlite:///{store}"))
    calibrate = ["judge", "calibrate"]
    gate = ["audit", "gate", str(tmp_path), "--require", "ltf_test.favoritism.value < 1", "--judge-validation"]
    for arguments, message in (
        (calibrate, "calibrate without a FILE of labels needs a store"),
        ([*calibrate, "--keep"], "--keep needs a store"),
        ([*calibrate, "--store", "none.db"], "none.db"),
        ([*calibrate, "--store", "a.db", "--config", "b.toml"], "exclude one another"),
        ([*gate, "sha256:00"], "needs --store FILE or --config FILE"),
        ([*gate, "sha256:00", "--store", str(store)], 'no calibration has the digest "00"'),
        ([*gate, str(tmp_path / "none.json")], "none.json"),
    ):
        assert message in refused(*arguments)
