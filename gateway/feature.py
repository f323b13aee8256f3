"""Features: optional parts of the gateway, each in one folder, and which of them are installed. A feature registers its
class in the entry point group `biasgate.features`; the core imports none of them. A feature names the places of its
parts ("MODULE:NAME") and its methods import what they need, so that listing the features loads only their classes.
"""

import inspect
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from auditors.plugins import Registered

if TYPE_CHECKING:
    from litestar import Router

    from gateway.config.schema import Config
    from gateway.config.sections import FeatureSection
    from gateway.proxy.instrumentation import Tracer
    from gateway.store.database import Database


class Command(NamedTuple):
    """A subcommand of `biasgate`, or an action of a subcommand."""

    module: str
    """A module with `HELP`, `add_arguments(parser)` and `run(arguments)`, which returns the exit code."""
    summary: str
    """One line for `biasgate --help`."""


class AlarmCause(NamedTuple):
    """A feature's sentence on an alarm's cause. `step`: what to do first, where that follows from it; else empty."""

    sentence: str
    step: str


class AlarmFinding(NamedTuple):
    """A finding about an alarm that stands, in numbers, for evaluation events."""

    stream: str
    alarm_since: float
    """Unix seconds."""
    name: str
    value: float | None
    explanation: str
    """A sentence without text of any exchange."""
    is_final: bool


class Panel(NamedTuple):
    """A section of the console's settings page."""

    template: str
    """Name of a Jinja2 template in the folder `templates` of the feature."""
    data: Mapping[str, Any]


class Feature:
    """An optional part of the gateway. Every attribute and every method has an empty default."""

    name: ClassVar[str]
    """The name under which it is registered."""
    sections: ClassVar[Sequence["FeatureSection[Any]"]] = ()
    """The top-level sections of the configuration that this feature brings."""
    commands: ClassVar[Mapping[str, Command]] = {}
    """The subcommands by name; "audit NAME" is an action of `biasgate audit` and replaces the core's."""
    controllers: ClassVar[Sequence[str]] = ()
    """The places of the controllers of the control plane. `routes` has an entry for each of their routes."""
    pages: ClassVar[Sequence[str]] = ()
    """The places of the controllers of the console's pages. `routes` has an entry for each of their routes."""
    tabs: ClassVar[Mapping[str, str]] = {}
    """The entries of the console's navigation: their names by address."""
    routes: ClassVar[Mapping[str, str]] = {}
    """Who may call each route of this feature: the name of an `Audience` by "METHOD /path"."""
    text_pages: ClassVar[Sequence[str]] = ()
    """The addresses of pages of text, to which the navigation of a viewer does not lead."""
    inserts: ClassVar[Mapping[str, str]] = {}
    """The templates (named as `Panel.template`) that other pages include, by place: "audit.downloads" of a finished
    run's page, which has it as `run`, or "fingerprints.choices" of the feature `fingerprints`.
    """
    invitations: ClassVar[str | None] = None
    """The place of the `Invitations` of raters that this feature keeps in a `Database`; None where it keeps none."""
    auditor_part: ClassVar[str | None] = None
    """The place of the `AuditorPart` of this feature, if it has any."""
    worker_part: ClassVar[str | None] = None
    """The place of the `WorkerPart` of this feature, if it has any."""

    def check_sections(self, config: "Config") -> None:
        """Check the sections of this feature. Raises ConfigError with a message that begins with the key."""

    def weight_share(self, config: "Config") -> float:
        """Return the largest share of a stream's weight for an exchange by its stated rate; 1.0 without rates."""
        return 1.0

    def routers(self) -> Sequence["Router"]:
        """Return routers of the control plane with rules of their own, such as bodies of any size."""
        return ()

    def check(self, config: "Config") -> None:
        """Check what this feature needs of the configuration and the environment of an auditor. Raises ConfigError."""

    def environment(self, config: "Config") -> frozenset[str]:
        """The variables read in an auditor, except those that a setting names; a final "*" is a wildcard."""
        return frozenset()

    def templates(self) -> Path:
        """Return the folder of the Jinja2 templates of this feature; it need not exist."""
        return Path(inspect.getfile(type(self))).parent / "templates"

    def static(self) -> Path:
        """Return the folder of the files under /console/static, which everybody may read; it need not exist."""
        return Path(inspect.getfile(type(self))).parent / "static"

    def tracer(self, config: "Config") -> "Tracer | None":
        """Return what sends the spans of a gateway worker, not yet started; None without one. Raises ConfigError."""
        return None

    async def problems(self, database: "Database") -> Sequence[str]:
        """Read what is wrong with this feature, for the console's list of parts. Raises StoreError."""
        return ()

    async def alarm_causes(self, database: "Database", stream: str, since: float | None) -> Sequence[AlarmCause]:
        """Return causes of the alarm that was raised at this Unix time, for the stream's page. Raises StoreError."""
        return ()

    async def alarm_findings(self, database: "Database", told: Container[tuple[str, float]]) -> Sequence[AlarmFinding]:
        """Return the findings about alarms that stand, first and final ones. Raises StoreError.

        `told`: alarms (stream, since) whose final finding of this feature was told; they are left out.
        """
        return ()

    async def settings_panels(self, database: "Database", config: "Config") -> Sequence[Panel]:
        """Return the sections of this feature on the settings page. Raises StoreError."""
        return ()


def _usable(name: str, registered: object) -> Feature:
    """Return the feature registered under this name. Raises ValueError with the reason why it cannot be used."""
    feature = registered() if isinstance(registered, type) else registered
    if not isinstance(feature, Feature):
        raise ValueError("it does not derive from gateway.feature.Feature")
    if feature.name != name:
        raise ValueError(f'its name is "{feature.name}"')
    return feature


FEATURES: Mapping[str, Feature] = Registered("biasgate.features", _usable)
"""Features by name: ours and those of other distributions."""


def templates_at(place: str) -> list[str]:
    """Return the templates that features insert at a place of a page (`Feature.inserts`)."""
    return [feature.inserts[place] for feature in FEATURES.values() if place in feature.inserts]
