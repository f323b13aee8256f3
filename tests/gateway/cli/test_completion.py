"""The script of `biasgate completion`, run by a shell."""

import subprocess
import sys
from pathlib import Path

import pytest

from gateway.__main__ import main

Say = pytest.CaptureFixture[str]


@pytest.mark.parametrize(
    ("words", "completions"),
    [
        (["au"], ["audit", "auditor", "auditors"]),
        (["mitigate", "regard-ft", "da"], ["data"]),
        (["audit", "run", "--judge-b"], ["--judge-base-url"]),
        (["audit", "run", "--mode", "s"], ["sample"]),
        (["audit", "report", "run", "--out", "pa"], ["page.html"]),
        (["ingest", "--key"], []),
    ],
)
def test_bash_completes(words: list[str], completions: list[str], tmp_path: Path, capsys: Say) -> None:
    """Commands, actions, options, choices and files are completed, and earlier spellings are not offered."""
    assert main(["completion", "bash"]) == 0
    (tmp_path / "script").write_text(capsys.readouterr().out, encoding="utf-8")
    (tmp_path / "page.html").touch()
    steps = """
        source ./script
        COMP_WORDS=(biasgate "$@"); COMP_CWORD=$#
        "$(complete -p biasgate | sed 's/.*-F \\([^ ]*\\).*/\\1/')"
        printf '%s\\n' "${COMPREPLY[@]}"
    """
    ended = subprocess.run(
        ["bash", "-c", steps, "bash", *words], cwd=tmp_path, capture_output=True, text=True, check=True
    )

    assert sorted(ended.stdout.split()) == completions


@pytest.mark.parametrize(("shell", "line"), [("zsh", "#compdef biasgate"), ("fish", "complete -c biasgate")])
def test_zsh_and_fish_have_a_script(shell: str, line: str, capsys: Say) -> None:
    """The script is for that shell and has options of nested actions."""
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert line in script
    assert "judge-base-url" in script
    assert "admin-key-env" not in script


def test_without_shtab_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, capsys: Say) -> None:
    """The extra is named in one line."""
    monkeypatch.setitem(sys.modules, "shtab", None)

    assert main(["completion", "bash"]) == 2
    assert capsys.readouterr().err == 'biasgate: shtab is not installed: pip install "biasgate[completion]"\n'
