"""The recipes that are handed out."""

from pathlib import Path

import pytest

from benchmarks.lab.training import recipe
from tests.support.training.runs import ROOT


@pytest.mark.parametrize("path", sorted((ROOT / "deploy").glob("*-8b.toml")), ids=lambda path: path.stem)
def test_a_recipe_is_valid(path: Path) -> None:
    """Every key is known, and the base model is named."""
    assert recipe.read(path).base_model == "models/llama-3.1-8b-instruct"
