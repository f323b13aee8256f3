"""Sections that features bring. Reads the entry points on its own, because features read the configuration."""

import functools
from collections.abc import Sequence
from typing import Any, ClassVar, Generic, Protocol, TypeVar, cast

import msgspec

from auditors.plugins import Registered
from gateway.config.schema import Config
from gateway.errors import ConfigError

T = TypeVar("T")


class FeatureSection(Generic[T]):
    """A feature's top-level section of struct (or list) `kind`; `is_read_by_auditor`: a change restarts the auditor."""

    def __init__(self, name: str, kind: Any, default: T, *, is_read_by_auditor: bool = False) -> None:
        self.name, self.kind, self.default = name, kind, default
        self.is_read_by_auditor = is_read_by_auditor

    def of(self, config: Config) -> T:
        """Return the section of a configuration, or the default of a configuration of the core's sections alone."""
        return cast(T, getattr(config, self.name, self.default))


class _BringsSections(Protocol):
    sections: ClassVar[Sequence[FeatureSection[Any]]]

    def check_sections(self, config: Config) -> None: ...


def _instance(name: str, registered: object) -> _BringsSections:
    if not isinstance(registered, type) or not hasattr(registered, "sections"):
        raise ValueError("it does not derive from gateway.feature.Feature")
    return cast(_BringsSections, registered())


_FEATURES = Registered("biasgate.features", _instance)


@functools.cache
def feature_sections() -> tuple[FeatureSection[Any], ...]:
    """Return the sections of all installed features. Raises ConfigError for two sections of the same name."""
    sections: dict[str, FeatureSection[Any]] = {}
    for section in (section for feature in _FEATURES.values() for section in feature.sections):
        if section.name in sections or section.name in Config.__struct_fields__:
            raise ConfigError(f'two installed parts bring the section "{section.name}": uninstall one of them')
        sections[section.name] = section
    return tuple(sections.values())


@functools.cache
def config_type() -> type[Config]:
    """Return the struct of the whole configuration: `Config` with the sections of all installed features."""
    fields = [
        (section.name, section.kind, msgspec.field(default=section.default))
        if isinstance(section.default, msgspec.Struct)
        else (section.name, section.kind, msgspec.field(default_factory=functools.partial(list, section.default)))
        for section in feature_sections()
    ]
    whole = msgspec.defstruct(
        "WholeConfig", fields, bases=(Config,), module=__name__, frozen=True, kw_only=True, forbid_unknown_fields=True
    )
    return cast(type[Config], whole)


def check_sections(config: Config) -> None:
    """Check what features bring to a configuration. Raises ConfigError with a message that begins with the key."""
    for feature in _FEATURES.values():
        feature.check_sections(config)


def __getattr__(name: str) -> type[Config]:
    if name == "WholeConfig":  # pickle looks the type up by its name
        return config_type()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
