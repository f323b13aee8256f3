"""The secret behind the sampling decision, the same for a gateway's workers and for the auditors that mark probes."""

import secrets

from gateway.config.schema import Config


def sampling_secret(config: Config) -> bytes:
    """The configured secret, or one drawn for this start."""
    configured = config.secret(config.sampling.secret_env)
    return configured.encode() if configured else secrets.token_bytes(32)
