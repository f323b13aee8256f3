"""Which variables a child process is given: those that its features declare, and no other."""

import os
import re
import typing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.config.loading import load, validate
from gateway.config.schema import Config, Section
from gateway.config.variables import named_variables, unset_variables, variables_of
from gateway.processes.roles import auditor_environment, writer_environment

SECRETS = {
    name: f"secret of {name}"
    for name in (
        *("UP_KEY", "JUDGE_KEY", "PLUGIN_KEY", "APP_KEY", "ADMIN_KEY", "PYTHON_VIEWER", "SEAL", "SAMPLING"),
        *("HOOK", "BUNDLE", "FILTER"),
    )
}
ANY = {"PATH": "/bin", "HOME": "/root", "LC_ALL": "C", "SSL_CERT_FILE": "ca", "PYTHONPATH": "."}
LIBPQ = {"PGPASSWORD": "db", "PGSSLCERTMODE": "allow"}
OTHERS = {"OPENAI_API_KEY": "x", "BIASGATE_STORE__URL": "x", "PGADMIN_TOKEN": "x"}
MODELS = {"HF_HOME": "/models", "OMP_NUM_THREADS": "2", "HTTPS_PROXY": "p", "BIASGATE_HOME": "/data"}
CLOUD = {
    "s3": {"AWS_SECRET_ACCESS_KEY": "x", "AWS_ENDPOINT_URL": "http://minio"},
    "gs": {"GOOGLE_APPLICATION_CREDENTIALS": "/key.json", "STORAGE_EMULATOR_HOST": "x"},
    "abfs": {"AZURE_STORAGE_CONNECTION_STRING": "x"},
}
OTEL = {"OTEL_EXPORTER_OTLP_HEADERS": "Authorization=Basic x", "OTEL_RESOURCE_ATTRIBUTES": "a=b"}
ENVIRON = SECRETS | ANY | LIBPQ | OTHERS | MODELS | CLOUD["s3"] | CLOUD["gs"] | CLOUD["abfs"] | OTEL
ROOT = Path(__file__).parents[3]


def config(*, store: str = "sqlite:///x.db", server: dict[str, Any] | None = None, **sections: Any) -> Config:
    control_keys = [{"name": "v", "key_env": "PYTHON_VIEWER"}]
    query_filter = {"base_url": "http://127.0.0.1:9", "model": "m", "api_key_env": "FILTER"}
    return validate(
        {
            "server": {"admin_key_env": "ADMIN_KEY", "control_keys": control_keys, **(server or {})},
            "store": {"encryption_key_env": "SEAL", "url": store},
            "upstreams": [{"name": "u", "base_url": "http://127.0.0.1:9", "api_key_env": "UP_KEY"}],
            "keys": [{"name": "app", "key_env": "APP_KEY"}],
            "sampling": {"secret_env": "SAMPLING"},
            "auditors": {"judge": {"api_key_env": "JUDGE_KEY"}, "plugins": {"x": {"api_key_env": "PLUGIN_KEY"}}},
            "audits": {"canary_webhook_env": "HOOK", "bundle_key_env": "BUNDLE"},
            "mitigation": [{"instruction": "abstract", "query_filter": query_filter}],
            **sections,
        }
    )


def test_the_writer_seals_and_stores() -> None:
    """The key of stored text and the database's; no key of an upstream, of a client, or of anybody else."""
    assert writer_environment(config(), ENVIRON) == ANY | {"SEAL": SECRETS["SEAL"]}
    of_postgresql = writer_environment(config(store="postgresql://127.0.0.1/x"), ENVIRON)
    assert of_postgresql == ANY | LIBPQ | {"SEAL": SECRETS["SEAL"]}


def test_the_auditor_asks_models_too() -> None:
    """Also keys of upstreams and judges, the webhook, the sampling secret, where models lie; no key to the gateway."""
    asks = {name: SECRETS[name] for name in ("SEAL", "UP_KEY", "JUDGE_KEY", "PLUGIN_KEY", "SAMPLING", "HOOK")}
    assert auditor_environment(config(), ENVIRON) == ANY | MODELS | asks


@pytest.mark.parametrize(
    ("url", "scheme"),
    [
        ("s3://b/x", "s3"),
        ("gs://b", "gs"),
        ("abfs://box@account.dfs.core.windows.net", "abfs"),
        ("simplecache::s3://b", "s3"),
        ("/srv/x", None),
    ],
)
def test_an_export_brings_its_credentials(url: str, scheme: str | None) -> None:
    """The auditor has those of the address that it writes to, and of no other."""
    expected = CLOUD[scheme] if scheme else {}
    given = auditor_environment(config(export={"url": url}), ENVIRON)
    everything = {name for variables in CLOUD.values() for name in variables}
    assert {name for name in given if name in everything} == set(expected)
    assert not everything & writer_environment(config(export={"url": url}), ENVIRON).keys()


@pytest.mark.parametrize("signal", ["logs", "traces"])
def test_evaluation_events_bring_the_exporters_variables(signal: str) -> None:
    """Where the auditor sends events it has the collector's headers; where it sends none, it has not."""
    telemetry = {"otlp_endpoint": "http://127.0.0.1:4318"}
    assert auditor_environment(config(telemetry=telemetry | {"evaluation_signal": signal}), ENVIRON).items() >= (
        OTEL.items()
    )
    assert not OTEL.keys() & auditor_environment(config(telemetry=telemetry), ENVIRON).keys()


def test_the_auditor_checks_who_scrapes() -> None:
    """With protect_metrics it has the control keys as well."""
    given = auditor_environment(config(server={"protect_metrics": True}), ENVIRON)
    assert {"ADMIN_KEY", "PYTHON_VIEWER"} <= given.keys()
    assert not {"APP_KEY", "BUNDLE", "FILTER"} & given.keys()


def test_every_setting_that_names_a_variable_says_who_reads_it() -> None:
    """A new `*_env` setting without its readers fails here, not in the process that waits for the variable."""

    def sections(kind: type[Section]) -> set[type[Section]]:
        found = {kind}
        for below in kind.__subclasses__():
            found |= sections(below)
        return found

    settings = 0
    for kind in sections(Section):
        hints = typing.get_type_hints(kind, include_extras=True)
        for field in msgspec.structs.fields(kind):
            if field.name.endswith("_env"):
                assert hints[field.name].__metadata__[0].extra["read_by"], (kind, field.name)
                settings += 1
    assert settings > 10
    assert {variable.name for variable in named_variables(config())} == SECRETS.keys()


def test_what_is_missing_is_what_the_process_reads() -> None:
    """An auditor needs no client's key; a section that is switched off needs no variable."""
    environ = {name: value for name, value in SECRETS.items() if name not in ("APP_KEY", "HOOK")}
    assert [one.setting for one in unset_variables(config(), ["gateway"], environ)] == ["keys.app.key_env"]
    assert [one.setting for one in unset_variables(config(), ["auditor"], environ)] == ["audits.canary_webhook_env"]
    off = config(auditors={"judge": {"enabled": False, "api_key_env": "NOT_SET"}})
    assert not [one for one in unset_variables(off, environ=SECRETS) if one.name == "NOT_SET"]


# -- what the manual tells people to set ---------------------------------------------------------------------------

PAGES = sorted({*ROOT.glob("docs/**/*.md"), ROOT / "README.md"} - {ROOT / "docs/contract.md"})
"""The contract lists the names of settings, without values."""
CONTINUED = "[upstreams."
"""How a block begins that continues an upstream of the block above it, and cannot be loaded alone."""


def documented() -> list[Any]:
    """Pages with blocks of configuration, and the variables that they export before `biasgate serve`."""
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        fences = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
        blocks = [block for language, block in fences if language == "toml" and not block.startswith(CONTINUED)]
        served = [block for language, block in fences if language != "toml" and "biasgate serve" in block]
        exported = dict(re.findall(r"^export ([A-Za-z_0-9]+)=(.*)$", "\n".join(served), re.MULTILINE))
        for number, block in enumerate(blocks):
            found.append(pytest.param(block, exported, id=f"{page.relative_to(ROOT)}-{number}"))
        if exported:
            found.append(pytest.param("", exported, id=f"{page.relative_to(ROOT)}-exports"))
    return found


@pytest.mark.parametrize(("block", "exported"), documented())
def test_each_documented_set_up_reaches_its_process(block: str, exported: dict[str, str], tmp_path: Path) -> None:
    """Every variable that a page names in a block of configuration, or exports for `serve`, is where it is read."""
    overrides = {name: value for name, value in exported.items() if name.startswith("BIASGATE_") and "__" in name}
    (tmp_path / "biasgate.toml").write_text(block)
    config = load(tmp_path / "biasgate.toml", environ=overrides)
    environ = dict.fromkeys(variables_of(config), "value") | exported | dict(os.environ)
    auditor, writer = auditor_environment(config, environ), writer_environment(config, environ)
    for variable in named_variables(config):
        assert (variable.name in auditor) == ("auditor" in variable.read_by), variable
        assert (variable.name in writer) == ("writer" in variable.read_by), variable
    for name in exported.keys() - overrides.keys() - variables_of(config):
        assert name in auditor, f"{name} is documented, and no process that reads it is given it"
