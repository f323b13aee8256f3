"""Recipes of a training, and what a mistake in one costs."""

from pathlib import Path

import pytest

from benchmarks.errors import BenchmarkError
from benchmarks.lab.training import recipe


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_what_is_given_goes_before_the_file(tmp_path: Path) -> None:
    """A value that is not given leaves the file's; what neither says is the default."""
    path = written(tmp_path / "r.toml", '[training]\nbase_model = "m"\nrank = 4\nsteps = 7\n')
    found = recipe.read(path, steps=9, seed=None)
    assert (found.base_model, found.rank, found.steps, found.seed) == ("m", 4, 9, 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[training]\nrnak = 4\n", 'has no key "rnak" (did you mean "rank"?)'),
        ("[training]\nrank = 0\n", "rank (0): Expected `int` >= 1"),
        ('[training]\nprecision = "int4"\n', "precision ('int4'): Invalid enum value 'int4'"),
        ("[training]\nlearning_rate = inf\n", "learning_rate (inf)"),
        ("[training]\nlearning_rate = nan\n", "learning_rate (nan)"),
        ("[training]\n", "no base_model"),
        ("rank = 4\n", "a recipe has one section, [training]"),
        ("[training]\n[other]\n", 'one section, [training], not "other"'),
        ("[training\n", "no TOML"),
    ],
)
def test_a_mistake_is_named_with_its_value(tmp_path: Path, text: str, message: str) -> None:
    """One line with file, key and value."""
    path = written(tmp_path / "r.toml", text)
    with pytest.raises(BenchmarkError) as raised:
        recipe.read(path)
    assert message in str(raised.value)
    assert str(path) in str(raised.value)
    assert "\n" not in str(raised.value)
