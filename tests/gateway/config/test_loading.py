"""A configuration that cannot be taken is refused in one line, whatever its bytes."""

from pathlib import Path

import pytest

from gateway.config.loading import load
from gateway.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "message"),
    [(b"a = " + b"[" * 5000, "nested too deeply"), (b"a = \xff", "line 1: not UTF-8"), (b"[server]\nprot = 1", "prot")],
)
def test_files(text: bytes, message: str, tmp_path: Path) -> None:
    """The line names what is wrong with the file."""
    (tmp_path / "biasgate.toml").write_bytes(text)
    with pytest.raises(ConfigError, match=message) as raised:
        load(tmp_path / "biasgate.toml", environ={})
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(("text", "message"), [("[" * 5000, "server.port"), ("\udcff", "not UTF-8")])
def test_overrides(text: str, message: str, tmp_path: Path) -> None:
    """The line names the override."""
    (tmp_path / "biasgate.toml").write_bytes(b"")
    with pytest.raises(ConfigError, match=message):
        load(tmp_path / "biasgate.toml", environ={"BIASGATE_SERVER__PORT": text})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[auditors.judge]\nrate = 2", "auditors.judge.rate is 2: Expected `float` <= 1.0"),
        ("[audits]\nlive_latency_budget_ratio = 0.95", "live_latency_budget_ratio"),
        ("[server]\nport = true", "server.port is true: Expected `int`, got `bool`"),
        ('[server]\nport = "sesame"', "server.port: Expected `int`, got `str`"),
        ('[[upstreams]]\nname = "u"\nbase_url = "http://u"\nweight = -1.5', "upstreams[0].weight is -1.5: Expected"),
        ('[telemetry]\nlog_format = "quick"', 'Invalid enum value \'quick\'; known here: "auto", "json", "console"'),
        ('[server]\nrelay = "fast"', 'unknown key "server.relay"'),
        ('[auditors.first_person]\nby = "names"', 'value \'names\'; known here: "answers", "likelihood"'),
        ('[store]\nkeep_text = "nevr"', "Invalid enum value 'nevr'; known here: true, false, \"never\""),
        ('[store]\nredact = ["mail"]', "store.redact[0]: Invalid enum value 'mail'; known here: \"email\", "),
        ("[sampling]\nstrata = { other = 2 }", "sampling.strata[...]: Expected `float` <= 1.0"),
        ('[sampling]\ntags = ["a", 5]', "sampling.tags[1] is 5: Expected `str`, got `int`"),
        ('[server]\nrelayed_paths = ["/metrics"]', 'server.relayed_paths has "/metrics", but /metrics is the gateway'),
        ('[server]\nrelayed_paths = ["/console/x"]', "/console is the gateway's own"),
        ('[server]\nrelayed_paths = ["/health", "/v1/x"]', '"/v1/x": everything under /v1 is relayed anyway'),
        ('[server]\ncors_origins = ["https://a/"]', 'cors_origins has "https://a/": write scheme://host or'),
        ('[server]\ncors_origins = ["https://a:443"]', 'do not send the port like that: write "https://a"'),
        ('[server]\ncors_origins = ["http://a:99999"]', "its port is not between 1 and 65535"),
        ('[server]\ncors_origins = ["*", "https://a"]', '"*" allows every origin: list it alone'),
        ('[server]\ncors_origins = ["null"]', '"null": any sandboxed page and any file sends that'),
        ('[server]\ncors_origins = ["https://*.a.example"]', "a user or a pattern"),
        ('[server]\ncors_origins = ["https://a\\n"]', r'has "https://a\n": write'),
        ('[server]\ncors_origins = "https://a"', 'is "https://a": give a list of origins'),
        ("[server]\ncors_origins = 3", "server.cors_origins is 3: Expected `str | array`"),
        ("server = 5", "server is 5: Expected `object`, got `int`"),
    ],
)
def test_values(text: str, message: str, tmp_path: Path) -> None:
    """The line names the key, a number that cannot be, and the words there are; no word that may be a secret."""
    (tmp_path / "biasgate.toml").write_text(text)
    with pytest.raises(ConfigError) as raised:
        load(tmp_path / "biasgate.toml", environ={})
    assert message in str(raised.value)
    assert "sesame" not in str(raised.value)


@pytest.mark.parametrize(
    "path", ["", "/", "health", "/a/", "//a", "/a/../b", "/.", "/a b", "/%61", "/a?b", "/a\\n", "/é"]
)
def test_paths_that_are_none(path: str, tmp_path: Path) -> None:
    """What is no exact path cannot be relayed, and the line shows one that can."""
    (tmp_path / "biasgate.toml").write_text(f'[server]\nrelayed_paths = ["{path}"]', encoding="utf-8")
    with pytest.raises(ConfigError, match='such as "/tokenize"'):
        load(tmp_path / "biasgate.toml", environ={})


@pytest.mark.parametrize(
    "text", ['"*"', '["*"]', "[]", '["https://A.example:8443", "http://[::1]:3000", "chrome-extension://abc"]']
)
def test_origins(text: str, tmp_path: Path) -> None:
    """What browsers send as Origin is taken, and so is "*" in either form."""
    (tmp_path / "biasgate.toml").write_text(f"[server]\ncors_origins = {text}", encoding="utf-8")
    load(tmp_path / "biasgate.toml", environ={})
