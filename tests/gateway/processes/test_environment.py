"""Which variables a child process is given."""

from typing import Any

from gateway.config.loading import validate
from gateway.processes.environment import auditor_environment, writer_environment

SECRETS = {
    name: f"secret of {name}"
    for name in ("UP_KEY", "JUDGE_KEY", "PLUGIN_KEY", "APP_KEY", "ADMIN_KEY", "PYTHON_VIEWER", "SEAL", "SAMPLING")
}
ANY = {"PATH": "/bin", "HOME": "/root", "LC_ALL": "C", "PGPASSWORD": "db", "SSL_CERT_FILE": "ca", "PYTHONPATH": "."}
OTHERS = {"AWS_SECRET_ACCESS_KEY": "x", "OPENAI_API_KEY": "x", "BIASGATE_STORE__URL": "x", "PGADMIN_TOKEN": "x"}
MODELS = {"HF_HOME": "/models", "OMP_NUM_THREADS": "2", "HTTPS_PROXY": "p", "BIASGATE_HOME": "/data"}
ENVIRON = SECRETS | ANY | OTHERS | MODELS


def config(**server: Any) -> Any:
    control_keys = [{"name": "v", "key_env": "PYTHON_VIEWER"}]
    return validate(
        {
            "server": {"admin_key_env": "ADMIN_KEY", "control_keys": control_keys, **server},
            "store": {"encryption_key_env": "SEAL"},
            "upstreams": [{"name": "u", "base_url": "http://127.0.0.1:9", "api_key_env": "UP_KEY"}],
            "keys": [{"name": "app", "key_env": "APP_KEY"}],
            "sampling": {"secret_env": "SAMPLING"},
            "auditors": {"judge": {"api_key_env": "JUDGE_KEY"}, "plugins": {"x": {"api_key_env": "PLUGIN_KEY"}}},
        }
    )


def test_the_writer_seals_and_stores() -> None:
    """The key of stored text and the database's; no key of an upstream, of a client, or of anybody else."""
    assert writer_environment(config(), ENVIRON) == ANY | {"SEAL": SECRETS["SEAL"]}


def test_the_auditor_asks_models_too() -> None:
    """Also keys of upstreams and judges, the sampling secret, and where models lie; no key that opens the gateway."""
    asks = {name: SECRETS[name] for name in ("SEAL", "UP_KEY", "JUDGE_KEY", "PLUGIN_KEY", "SAMPLING")}
    assert auditor_environment(config(), ENVIRON) == ANY | MODELS | asks


def test_the_auditor_checks_who_scrapes() -> None:
    """With protect_metrics it has the control keys as well."""
    given = auditor_environment(config(protect_metrics=True), ENVIRON)
    assert {"ADMIN_KEY", "PYTHON_VIEWER"} <= given.keys()
    assert "APP_KEY" not in given


def test_what_is_not_set_is_not_made_up() -> None:
    """A variable that nobody set stays unset."""
    assert writer_environment(config(), {"PATH": "/bin"}) == {"PATH": "/bin"}
