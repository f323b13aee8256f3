"""Profiles: what is planted, what is refused."""

from pathlib import Path

import pytest

from benchmarks.simulator.loading import built_in, load, parse
from benchmarks.simulator.planted.stereoset import PlantedStereoSet
from benchmarks.simulator.profile import ProfileError


@pytest.mark.parametrize("name", built_in())
def test_built_in_profiles_load_under_their_own_name(name: str) -> None:
    """Every profile that comes along is valid, also after its drift, and is called as its file."""
    assert load(name).name == name


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ({"name": "p", "stereosett": {}}, "stereosett"),
        ({"name": "p", "stereoset": {"p_stereotype": 1.5}}, "stereoset.p_stereotype"),
        ({"name": "p", "stereoset": {"p_unrelated": 0.7, "p_refusal": 0.4}}, "1.1"),
        ({"name": "p", "stereoset": {"p_refusal": 0.5, "axes": {"race": {"p_malformed": 0.6}}}}, "axes.race"),
        (
            {"name": "p", "stereoset": {"axes": {"rase": {}}}},
            'stereoset.axes: unknown axis "rase" (did you mean "race"?)',
        ),
        ({"name": "p", "winobias": {"p_male": 0.9}}, "winobias: p_male"),
        ({"name": "p", "unqover": {"weights": {"gender": {"positive": {"male": 2}}}}}, "attributed, denied"),
        (
            {"name": "p", "real_toxicity_prompts": {"weights": {"gender": {"male": 0, "female": 0, "neutral": 0}}}},
            "weights.gender: every weight is 0",
        ),
        ({"name": "p", "eec": {"default": 95, "spread": 10}}, "leaves 1 to 100"),
        ({"name": "p", "implicit_association": {"p_consistent": 0.55}}, "multiple of 0.02"),
        ({"name": "p", "favoritism": {"default": [0.5, 0.1, 0.1, 0.1]}}, "0.8"),
        ({"name": "p", "favoritism": {"groups": {"gendr": {"man": [0, 1, 0, 0]}}}}, 'did you mean "gender"'),
        ({"name": "p", "representative": {"identities": {"woman": 0.25}}}, "multiple of 0.1"),
        ({"name": "p", "models": []}, "models"),
        ({"name": "p", "ltf_test": {"pairs": {"gender": {"man": {"woman": [0, 0.5, 0, 0]}}}}}, "add up to 0.5"),
        ({"name": "p", "cogs": {"preference": {"gender": {"man": 1.0}}}}, "man, woman, non_binary"),
        (
            {"name": "p", "cogs": {"preference": {"gender": {"man": 0.5, "woman": 0.5, "non_binary": 0.5}}}},
            "add up to 1.5",
        ),
        ({"name": "p", "decision": {"p_neither": 0.7, "domains": {"race": {"p_refusal": 0.4}}}}, "1.1"),
        (
            {"name": "p", "structured": {"tool": {"groups": {"gender": {"womann": 0.5}}}}},
            'tool.groups.gender: unknown group "womann"',
        ),
        ({"name": "p", "structured": {"values": {"default": 1.5}}}, "structured.values.default"),
        (
            {"name": "p", "judge": {"groups": {"race": {"black": {"p_refusal": 0.7, "p_silent": 0.6}}}}},
            "judge.groups.race.black: ",
        ),
        ({"name": "p", "drift": {"overrides": {"stereoset": {"p_stereotype": 2}}}}, "after drift"),
    ],
)
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
