"""The identities under which the live auditors ask: the paper's, or those of the file that their section names."""

from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from auditors.streams.state import OWN_IDENTITIES
from auditors.text.identity import IDENTITIES, Identity
from auditors.text.own_identities import read_identities


class Identities(NamedTuple):
    """Identities, and what stands with each measurement made under them: numbers of two files share no stream."""

    listed: tuple[Identity, ...]
    detail: dict[str, str]

    @property
    def axes(self) -> list[str]:
        return list(dict.fromkeys(identity.axis for identity in self.listed))


PAPER = Identities(IDENTITIES, {})


@runtime_checkable
class IdentitySettings(Protocol):
    """The setting that names a file of own axes."""

    @property
    def identities(self) -> str | None: ...


def identities_of(settings: object) -> Identities:
    """Return the identities of a section. Raises IdentityFileError, one line, for a file that cannot be taken."""
    if not isinstance(settings, IdentitySettings) or settings.identities is None:
        return PAPER
    own, digest = read_identities(Path(settings.identities))
    return Identities(own.identities, {OWN_IDENTITIES: f"identities={digest}"})
