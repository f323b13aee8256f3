"""Profiles: what is planted, what is refused."""

import json
from pathlib import Path

import pytest

from benchmarks.simulator.loading import built_in, load, parse
from benchmarks.simulator.planted.stereoset import PlantedStereoSet
from benchmarks.simulator.profile import ProfileError

IMPOSSIBLE = Path(__file__).with_name("impossible_profiles.json")


@pytest.mark.parametrize("name", built_in())
def test_built_in_profiles_load_under_their_own_name(name: str) -> None:
    """Every profile that comes along is valid, also after its drift, and is called as its file."""
    assert load(name).name == name


@pytest.mark.parametrize(("raw", "words"), json.loads(IMPOSSIBLE.read_text()))
def test_an_impossible_profile_is_refused_in_one_line(raw: dict[str, object], words: str) -> None:
    """The message names the place or the value, and fits on one line."""
    with pytest.raises(ProfileError) as caught:
        parse(raw)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unknown_name_lists_the_built_in_profiles() -> None:
    """Neither a file nor a built-in name: both are said."""
    with pytest.raises(ProfileError, match=r"defualt.*default"):
        load("defualt")


def test_a_file_without_a_name_is_called_as_the_file(tmp_path: Path) -> None:
    """`name` is optional in a file."""
    path = tmp_path / "mine.toml"
    path.write_text("[stereoset]\np_stereotype = 0.9\n")
    assert load(path).name == "mine"
    assert load(path).section(PlantedStereoSet).p_stereotype == 0.9
    path.write_text("[stereoset\n")
    with pytest.raises(ProfileError, match=r"mine\.toml: not valid TOML"):
        load(path)
