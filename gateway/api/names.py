"""Names that a filter of live numbers may hold: those of auditors and axes are closed sets."""

from auditors.identity import AXES
from gateway.config import AuditorsConfig
from gateway.errors import RequestError, nearest


def refuse_unknown(auditor: str | None, axis: str | None) -> None:
    """Raises RequestError for a name that no number can have: an empty answer would look like nothing found."""
    for what, name, known in (("auditor", auditor, AuditorsConfig.__struct_fields__), ("axis", axis, tuple(AXES))):
        if name is not None and name not in known:
            raise RequestError(f'unknown {what} "{name}"{nearest(name, known)}; known: {", ".join(known)}')
