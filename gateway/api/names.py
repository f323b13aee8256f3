"""Validation of the auditor and axis names that a filter of the live API may hold."""

from auditors import plugins
from auditors.judge_reference import AUDITOR as JUDGE_REFERENCE
from auditors.text.identity import AXES
from gateway.config.schema import AuditorsConfig
from gateway.errors import RequestError, nearest


def refuse_unknown(auditor: str | None, axis: str | None, sections: AuditorsConfig) -> None:
    """Raises RequestError for a name that no number can have: an empty answer would look like nothing found. Any axis
    passes where a section names a file of own axes, which may lie with the auditors alone.
    """
    axis = None if sections.has_own_axes else axis
    auditors = [*plugins.names("biasgate.auditors"), JUDGE_REFERENCE]
    for what, name, valid_names in (("auditor", auditor, auditors), ("axis", axis, list(AXES))):
        if name is not None and name not in valid_names:
            raise RequestError(f'unknown {what} "{name}"{nearest(name, valid_names)}; known: {", ".join(valid_names)}')
