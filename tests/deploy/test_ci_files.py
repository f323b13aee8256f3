"""The pipelines of deploy/ci run as they stand, but for the installation and the published items."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]  # its stubs are a package of their own, for two calls

from benchmarks.simulator.loading import load
from tests.support.simulated import simulator_in_thread

FOLDER = Path(__file__).parents[2] / "deploy" / "ci"


def read_steps(name: str) -> list[str]:
    """Return the shell commands of a pipeline."""
    pipeline = yaml.safe_load((FOLDER / name).read_text())
    if "jobs" in pipeline:
        return [step["run"] for step in pipeline["jobs"]["audit"]["steps"] if "run" in step]
    return list(pipeline["bias-audit"]["script"])


@pytest.mark.parametrize(
    ("name", "written"), [("github-actions.yml", "summary.md"), ("gitlab-ci.yml", "runs/gate.xml")]
)
def test_pipeline_audits_and_gates(name: str, written: str, tmp_path: Path) -> None:
    """A pipeline asks the model, passes its gate and leaves the run and the gate's report."""
    script = "\n".join(step for step in read_steps(name) if not step.startswith("pip install"))
    assert "biasgate datasets fetch stereoset\n" in script
    script = script.replace("biasgate datasets fetch stereoset\n", "").replace("--limit 600", "--data embedded")
    script = script.replace("biasgate ", f"{shlex.quote(sys.executable)} -m biasgate ")
    with simulator_in_thread(load("default")) as url:
        names = {"MODEL": "simulated", "MODEL_URL": url, "MODEL_KEY": "key", "GITHUB_STEP_SUMMARY": "summary.md"}
        ended = subprocess.run(
            ["bash", "-euc", script],
            cwd=tmp_path,
            env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)} | names,
            check=False,
        )
    assert ended.returncode in (0, 1)
    assert "stereoset.lms.lower" in (tmp_path / written).read_text()
    assert (tmp_path / "runs/stereoset/result.json").is_file()
