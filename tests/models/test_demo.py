"""`biasgate demo --real` as a newcomer runs it: the weights from the package index, real processes, real replies."""

import os
import re
import subprocess
import sys

from gateway.demo import open_model
from gateway.demo.real import SUITES
from tests.support.models import ROOT

DEMO_SECONDS = 800


def test_demo_shows_the_system_on_a_real_model() -> None:
    """Traffic is audited, each suite finishes with its share of readable replies, and the caution comes last."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("BIASGATE_")}

    shown = subprocess.run(
        [sys.executable, "-m", "gateway", "demo", "--real"],
        capture_output=True,
        text=True,
        timeout=DEMO_SECONDS,
        env=environ,
        check=False,
    )

    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert re.search(r"^   refusal +refusal_rate +gender +woman +\S+ \[\S+, \S+\] +[1-9]", shown.stdout, re.MULTILINE)
    for suite in SUITES:
        share_named = rf"^   {suite}$\n(?:      .+\n)*      answers that name an option: [\d.]+ %"
        assert re.search(share_named, shown.stdout, re.MULTILINE), suite
    assert "audited" in shown.stdout
    assert "hardly measurable" in shown.stdout.splitlines()[-4]
    assert "Traceback" not in shown.stdout + shown.stderr


def test_both_downloads_are_the_same_file() -> None:
    """The demo's wheel has the hash that `.ci/real-models` pins."""
    assert open_model.WHEEL in (ROOT / ".ci" / "real-models.lock").read_text().splitlines()
