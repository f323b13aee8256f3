"""Wrong usage of a command costs one line and exit code 2; help has an example."""

from pathlib import Path

import pytest

from gateway.__main__ import main
from gateway.cli import all_commands
from tests.support.commands import stereoset

Say = pytest.CaptureFixture[str]


class TestMistakes:
    """Wrong usage costs one line and exit code 2."""

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["audit", "run", "--suite", "stereset"], "needs --model"),
            (["audit", "run", "--suite", "stereoset", "--model", "m"], "needs a server"),
            (["audit", "compare", "x", "y"], "no run directory"),
            (["audit", "report", "x", "--out", "r.html"], "no result.json"),
            (["audit", "gate", "x", "--require", "nonsense"], "is not of the form"),
            (["suites", "--items", "stereoset", "--data", "embedded"], "needs --out FILE"),
            (["datasets", "fetch", "steroset"], 'did you mean "stereoset"'),
            (["datasets", "fetch", "stereoset", "--mirror", "/nonexistent"], "the mirror has no"),
        ],
    )
    def test_one_line(self, arguments: list[str], words: str, capsys: Say) -> None:
        """What is wrong, with the value."""
        assert main(arguments) == 2
        err = capsys.readouterr().err
        assert words in err
        assert len(err.strip().splitlines()) == 1

    @pytest.mark.parametrize(
        ("more", "words"),
        [
            (["--suite", "eec", "--mode", "exact"], 'eec: mode "exact" is not offered; offered: sample'),
            (["--mode", "exact", "--samples", "2"], "samples must be 1, not 2"),
            (["--temperature", "warm"], '--temperature "warm" must be a number'),
            (
                ["--mitigation", "abstrct"],
                'mitigation "abstrct" is neither a file nor one of none, abstract, detailed (did you',
            ),
            (["--concurrency", "many"], "must be auto or a whole number"),
            (["--api-key-env", "NO_SUCH_VARIABLE"], '"NO_SUCH_VARIABLE" (--api-key-env) is not set'),
            (["--data", "canonical"], "biasgate datasets fetch stereoset"),
        ],
    )
    def test_what_is_not_offered_is_refused(self, more: list[str], words: str, capsys: Say, tmp_path: Path) -> None:
        """An option that cannot be honoured is refused before anything is written or asked."""
        assert main([*stereoset("http://127.0.0.1:9", "--out", "run"), *more]) == 2
        assert words in capsys.readouterr().err
        assert not (tmp_path / "run").exists()

    @pytest.mark.parametrize(
        "arguments", [["audit", "run", "--sute", "x"], ["audit"], ["audit", "run", "--limit", "x"]]
    )
    def test_argparse_speaks_one_line_too(self, arguments: list[str], capsys: Say) -> None:
        """Unknown flags and words end with exit code 2 and one line."""
        with pytest.raises(SystemExit) as ended:
            main(arguments)

        assert ended.value.code == 2
        assert len(capsys.readouterr().err.strip().splitlines()) == 1

    @pytest.mark.parametrize(
        "words",
        [
            *("audit run", "audit score", "audit compare", "audit gate", "audit report", "config check"),
            *("datasets list", "datasets fetch", "datasets verify", "exchanges delete", "exchanges access"),
            *("judge calibrate", "auditors measure", *all_commands()),
        ],
    )
    def test_every_command_has_help_with_an_example(self, words: str, capsys: Say) -> None:
        """`biasgate help COMMAND`, which is --help, shows a command line to copy."""
        with pytest.raises(SystemExit) as ended:
            main(["help", *words.split()])

        assert ended.value.code == 0
        assert f"biasgate {words}" in " ".join(capsys.readouterr().out.split("Example")[1].split())

    @pytest.mark.parametrize(
        ("words", "earlier"),
        [
            *(("canary status", "--key-env"), ("ingest", "--key-env")),
            *(("annotate serve", "--admin-key-env"), ("judge qualify", "--output")),
        ],
    )
    def test_help_shows_one_spelling(self, words: str, earlier: str, capsys: Say) -> None:
        """An earlier spelling is taken, and help shows the spelling that other commands have."""
        with pytest.raises(SystemExit):
            main([*words.split(), earlier])
        assert f"{earlier}: expected one argument" in capsys.readouterr().err
        with pytest.raises(SystemExit):
            main(["help", *words.split()])
        text = capsys.readouterr().out
        assert earlier not in text.replace("--out ", "")
        assert "--api-key-env VAR" in text

    @pytest.mark.parametrize("words", ["audit run", "audit prompts"])
    def test_help_is_in_groups(self, words: str, capsys: Say, monkeypatch: pytest.MonkeyPatch) -> None:
        """A group of options fits on a screen of 24 lines of 80 columns, and each option of a run is in a group."""
        monkeypatch.setenv("COLUMNS", "80")
        with pytest.raises(SystemExit):
            main(["help", *words.split()])
        _, *sections = capsys.readouterr().out.split("\n\n")
        groups = {lines[0]: lines[1:] for lines in map(str.splitlines, sections)}

        assert {"what is asked:", "data:", "sampling:", "servers and keys:", "output:"} < groups.keys()
        assert [line.split()[0] for line in groups["options:"]] == ["-h,"]
        assert max(map(len, groups.values())) < 24
