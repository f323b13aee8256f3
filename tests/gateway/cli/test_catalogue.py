"""`biasgate suites` and `biasgate datasets`: what there is, and where it comes from."""

import json
from pathlib import Path

import pytest

from gateway.__main__ import main
from tests.support.published import DATA, needs_data

Say = pytest.CaptureFixture[str]


class TestCatalogue:
    """suites and datasets."""

    def test_suites_lists_and_is_json(self, capsys: Say) -> None:
        """A table for people, JSON for programs."""
        assert main(["suites"]) == 0
        assert "absent: biasgate datasets fetch stereoset" in capsys.readouterr().out
        assert main(["suites", "--json"]) == 0
        items = {suite["name"]: suite["items"] for suite in json.loads(capsys.readouterr().out)}
        assert items["stereoset"] == {"canonical": 4229, "embedded": 48}

    def test_items_are_written_without_running(self, tmp_path: Path, capsys: Say) -> None:
        """One line an item, and nothing is asked."""
        arguments = ["suites", "--items", "stereoset", "--data", "embedded", "--protocol", "paper", "--out", "i.jsonl"]

        assert main(arguments) == 0
        assert len((tmp_path / "i.jsonl").read_bytes().splitlines()) == 48
        assert "48 items of stereoset" in capsys.readouterr().out

    @needs_data
    def test_fetch_list_verify(self, home: Path, capsys: Say) -> None:
        """Fetched from the mirror, listed as present; a damaged copy fails verification with both hashes."""
        assert main(["datasets", "fetch", "stereoset", "--mirror", str(DATA)]) == 0
        assert main(["datasets", "verify"]) == 0
        assert "present" in capsys.readouterr().out
        content = home / "datasets" / "stereoset" / "content.json"
        content.write_bytes(content.read_bytes()[:-1])
        assert main(["datasets", "verify", "stereoset"]) == 1
        assert "damaged: expected 200f8eea" in capsys.readouterr().out
