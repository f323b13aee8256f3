"""Profiles from TOML, by name (profiles/) or file, a section for every suite; the suites' and fetched questions."""

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any, cast

import msgspec

from auditors.text.user_files import read_utf8
from benchmarks.datasets import published
from benchmarks.simulator.planted import table
from benchmarks.simulator.profile import Profile, ProfileError, checked
from benchmarks.suites.common.observations import never
from benchmarks.suites.registry import SUITES, datasets

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
        names = ", ".join(built_in())
        raise ProfileError(f'no profile file "{path}", and no built-in profile of that name ({names})') from exc
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
    profile_type = msgspec.defstruct(
        "Profile", sections, bases=(Profile,), frozen=True, kw_only=True, forbid_unknown_fields=True
    )
    return cast(type[Profile], profile_type)


def known_items(data_dir: str | None) -> Iterator[tuple[str, msgspec.Struct]]:
    """All that the answer key holds; `data_dir` None: the default cache. ProfileError: no data; DatasetError: bad."""
    folder = None if data_dir is None else Path(data_dir)
    fetched = {name for name, source in datasets().items() if published.state(source, folder).state != "absent"}
    if folder is not None and not fetched:
        raise ProfileError(f"{folder}: no benchmark data here: run `biasgate datasets fetch NAME`, or leave it out")
    for name, planted in table.by_questions().items():
        suite = SUITES[name]
        yield from planted.facts(suite.load("embedded"))
        for file, sha256 in suite.built_in_prompts.items():
            content = published.load_built_in(name, file, sha256)
            yield from planted.facts(suite.dataset_of(content, never, partial(suite.load, "embedded")))
        if name in fetched:
            yield from planted.facts(suite.load("canonical", folder))
