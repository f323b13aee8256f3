"""What a child process finds in its environment: what any program needs, and the secrets that its own role uses.

The configuration itself comes through the parent's pipe, so no child reads a setting here. Workers keep the whole
environment: a reload may name any variable that was set when the gateway was started.
"""

from collections.abc import Mapping

from gateway.config.effective import secret_names
from gateway.config.schema import Config

_PROGRAM = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TEMP", "TMP"),
        *("VIRTUAL_ENV", "LD_LIBRARY_PATH", "LD_PRELOAD", "SSL_CERT_FILE", "SSL_CERT_DIR"),
    }
)
_PROGRAM_PREFIXES = ("LC_", "PYTHON", "MALLOC_", "COVERAGE_")
_LIBPQ = frozenset(
    f"PG{name}"
    for name in (
        *("HOST", "HOSTADDR", "PORT", "DATABASE", "USER", "PASSWORD", "PASSFILE", "SERVICE", "SERVICEFILE", "OPTIONS"),
        *("APPNAME", "SSLMODE", "SSLCERT", "SSLKEY", "SSLROOTCERT", "SSLCRL", "SSLNEGOTIATION", "REQUIRESSL"),
        *("CHANNELBINDING", "GSSENCMODE", "KRBSRVNAME", "CONNECT_TIMEOUT", "TARGETSESSIONATTRS", "CLIENTENCODING"),
    )
)
_AUDITOR = frozenset(
    {
        *("BIASGATE_HOME", "BIASGATE_DATASETS_MIRROR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
        *(name for proxy in ("HTTP", "HTTPS", "ALL", "NO") for name in (f"{proxy}_PROXY", f"{proxy}_PROXY".lower())),
    }
)
_AUDITOR_PREFIXES = (
    *("HF_", "HUGGINGFACE_", "TRANSFORMERS_", "SENTENCE_TRANSFORMERS_", "TOKENIZERS_", "TORCH", "PYTORCH_", "XDG_"),
    *("OMP_", "MKL_", "KMP_", "OPENBLAS_", "CUDA_", "NVIDIA_", "HIP_", "ROCR_", "HSA_"),
)
"""Of the libraries that load an embedder: where models are, on how many threads and which device."""


def writer_environment(config: Config, environ: Mapping[str, str]) -> dict[str, str]:
    """For the writer: it reaches the database and seals text, and asks nobody else for anything."""
    return _kept(config, environ, {config.store.encryption_key_env}, _LIBPQ, ())


def auditor_environment(config: Config, environ: Mapping[str, str]) -> dict[str, str]:
    """For the auditor: it also asks upstreams, judges and embedders, and marks its probes."""
    needed = {config.store.encryption_key_env, config.sampling.secret_env}
    needed |= {upstream.api_key_env for upstream in config.upstreams}
    needed |= {section.api_key_env for section in config.auditors.sections.values()}
    if config.server.protect_metrics:
        needed |= {config.server.admin_key_env, *(key.key_env for key in config.server.control_keys)}
    return _kept(config, environ, needed, _LIBPQ | _AUDITOR, _AUDITOR_PREFIXES)


def _kept(
    config: Config,
    environ: Mapping[str, str],
    needed: set[str | None],
    names: frozenset[str],
    prefixes: tuple[str, ...],
) -> dict[str, str]:
    others = set(secret_names(config)) - needed  # a secret of another role, however it is called
    return {
        name: value
        for name, value in environ.items()
        if name in needed
        or (name not in others and (name in _PROGRAM | names or name.startswith(_PROGRAM_PREFIXES + prefixes)))
    }
