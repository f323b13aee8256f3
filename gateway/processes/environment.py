"""What a child process finds in its environment: what any program reads, and what the features of its role read.

The configuration itself comes through the parent's pipe, so no child reads a setting here. Each feature declares the
variables that it reads; a name that ends in "*" stands for all variables that begin so. Settings that name a variable
declare their readers in `gateway.config.schema`. Workers keep the whole environment: a reload may name any variable
that was set when the gateway was started.
"""

from collections.abc import Mapping

from auditors.clients.environment import LOCAL_EMBEDDER, OUTGOING_HTTP
from benchmarks.datasets.environment import HOME_VARIABLE, MIRROR_VARIABLE
from gateway.config.schema import Config, Process
from gateway.config.variables import variables_of
from gateway.feature import FEATURES
from gateway.store import environment as store
from gateway.telemetry import otlp

_PROGRAM = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LANGUAGE", "TZ", "TZDIR", "TMPDIR", "TEMP"),
        *("TMP", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "LD_PRELOAD", "SSL_CERT_FILE", "SSL_CERT_DIR", "OPENSSL_CONF"),
        *("LC_*", "PYTHON*", "MALLOC_*", "COVERAGE_*"),
    }
)
_DATASETS = frozenset({HOME_VARIABLE, MIRROR_VARIABLE})


def writer_environment(config: Config, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the writer's part of an environment: the writer reaches the database and seals text."""
    return _select(config, environ, "writer", store.variables(config.store.url))


def auditor_environment(config: Config, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the auditor's part of an environment: the auditor also asks models and fetches data sets."""
    declared = store.variables(config.store.url) | OUTGOING_HTTP | LOCAL_EMBEDDER | _DATASETS
    declared = declared.union(*(feature.environment(config) for feature in FEATURES.values()))
    if config.telemetry.evaluation_signal is not None:
        declared |= otlp.VARIABLES
    return _select(config, environ, "auditor", declared)


def _select(config: Config, environ: Mapping[str, str], process: Process, declared: frozenset[str]) -> dict[str, str]:
    needed = variables_of(config, [process])
    foreign = variables_of(config) - needed  # a secret of another process, whatever its name
    patterns = _PROGRAM | declared
    prefixes = tuple(pattern[:-1] for pattern in patterns if pattern.endswith("*"))
    return {
        name: value
        for name, value in environ.items()
        if name in needed or (name not in foreign and (name in patterns or name.startswith(prefixes)))
    }
