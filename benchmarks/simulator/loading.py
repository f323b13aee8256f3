"""Profiles from TOML: named ("default", "null", ...; see profiles/), or a file; with a section for every suite."""

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, cast

import msgspec

from auditors.text.user_files import read_utf8
from benchmarks.simulator.planted import table
from benchmarks.simulator.profile import Profile, ProfileError, checked

_PROFILES = Path(__file__).parent / "profiles"


def built_in() -> list[str]:
    """Names of the profiles that come with the simulator."""
    return sorted(path.stem for path in _PROFILES.glob("*.toml"))


def load(name_or_file: str | Path) -> Profile:
    """A built-in profile by name, or one from a TOML file. Raises ProfileError with one line."""
    path = Path(name_or_file)
    if str(name_or_file) in built_in():
        path = _PROFILES / f"{name_or_file}.toml"
    try:
        raw = tomllib.loads(read_utf8(path).decode())
    except FileNotFoundError as exc:
        known = ", ".join(built_in())
        raise ProfileError(f'no profile file "{path}", and no built-in profile of that name ({known})') from exc
    except OSError as exc:
        raise ProfileError(f"{path}: cannot be read: {exc.strerror}") from exc
    except tomllib.TOMLDecodeError as exc:
        raise ProfileError(f"{path}: not valid TOML: {exc}") from exc
    raw.setdefault("name", path.stem)
    return parse(raw, where=str(path))


def parse(raw: Mapping[str, Any], *, where: str = "profile") -> Profile:
    """A profile from plain data, checked with its drift. Raises ProfileError."""
    profile = checked(raw, where, _with_suites())
    profile.drifted()
    return profile


@cache
def _with_suites() -> type[Profile]:
    """`Profile` with a section for every suite that has planted answers, under the suite's name."""
    sections = [(name, planted.section, planted.section()) for name, planted in table.PLANTED.items()]
    made = msgspec.defstruct(
        "Profile", sections, bases=(Profile,), frozen=True, kw_only=True, forbid_unknown_fields=True
    )
    return cast(type[Profile], made)
