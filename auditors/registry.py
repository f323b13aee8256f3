"""Lists the live auditors, classes that entry points of the group "biasgate.auditors" name, and builds them."""

from collections.abc import Mapping
from typing import Protocol, cast, runtime_checkable

from auditors.plugins import Registered
from auditors.types import Auditor, AuditorSettings, RegisteredAuditor, Servers


@runtime_checkable
class HasForms(Protocol):
    """A registered auditor with several forms."""

    @classmethod
    def form(cls, settings: AuditorSettings) -> type[RegisteredAuditor]:
        """Return the class of the form that the section chooses."""


MEMBERS = ("version", "needs_embedder", "asks_upstream", "built", "audit")


def _usable(name: str, registered: object) -> type[RegisteredAuditor]:
    """Return a registered class of auditors of that name. Raises ValueError for any other object."""
    missing = [member for member in MEMBERS if not hasattr(registered, member)]
    if missing or not isinstance(registered, type):
        raise ValueError(f"it is not an auditor's class: it has no {', '.join(missing)}")
    if getattr(registered, "name", None) != name:
        raise ValueError(f'it calls itself "{getattr(registered, "name", None)}"')
    return cast(type[RegisteredAuditor], registered)


AUDITORS: Mapping[str, type[RegisteredAuditor]] = Registered("biasgate.auditors", _usable)
"""Name, as in [auditors.NAME], to class. Ours and those of other distributions."""


def build(name: str, settings: AuditorSettings, servers: Servers) -> Auditor:
    """The auditor of that name with its section, asking these servers. Raises ValueError."""
    if name not in AUDITORS:
        raise ValueError(f'"{name}" is not an auditor; known: {", ".join(AUDITORS)}')
    form = form_of(name, settings)
    if form.needs_embedder and servers.embedder is None:
        raise ValueError(f'auditor "{name}" needs an embedder')
    return form.built(settings, servers)


def form_of(name: str, settings: AuditorSettings) -> type[RegisteredAuditor]:
    """Return the class of the auditor, in the form that its section chooses."""
    registered = AUDITORS[name]
    return registered.form(settings) if isinstance(registered, HasForms) else registered


def need_embedder(sections: Mapping[str, AuditorSettings]) -> bool:
    """Return whether any of these auditors, by name with its section, compares texts."""
    return any(form_of(name, settings).needs_embedder for name, settings in sections.items())
