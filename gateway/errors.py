"""Errors a user can act on. Each message names what is wrong, with the value, and what to do, in one line."""

from auditors.errors import BiasgateError
from auditors.text.nearest_word import nearest as nearest


class GatewayError(BiasgateError):
    """Base of every error that the gateway, the auditor and commands raise on purpose."""


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
