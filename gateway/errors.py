"""Errors a user can act on. Each message names what is wrong, with the value, and what to do, in one line."""


class GatewayError(Exception):
    """Base of every error that biasgate raises on purpose. The command line prints it as one line and exits 2."""


class ConfigError(GatewayError):
    """A configuration that cannot work: unknown key, missing secret, impossible value."""


class StoreError(GatewayError):
    """The database cannot be used: unreachable, locked, read-only, or of another schema version."""


class ExportError(GatewayError):
    """An export that its address does not take, or that cannot be written here."""


class RequestError(GatewayError):
    """A request of the control plane, or of a schedule, whose values cannot work."""


class NotFoundError(GatewayError):
    """Something asked for by name or id that does not exist."""


class BusyError(GatewayError):
    """Too much waits already; the same request may be made again later."""


class ConflictError(GatewayError):
    """An action that the present state does not allow, such as cancelling a finished run."""


def nearest(word: str, known: "list[str] | tuple[str, ...] | set[str]") -> str:
    """` (did you mean "x"?)` for the closest known word, or an empty string when none is close."""
    import difflib

    match = difflib.get_close_matches(word, sorted(known), n=1, cutoff=0.5)
    return f' (did you mean "{match[0]}"?)' if match else ""
