"""Target: the configuration file and its overrides (gateway/config/schema.py), up to the upstreams made of it.

Whatever a file says, it is taken or refused with one line.
"""

import tempfile
from pathlib import Path

from gateway.config.effective import effective
from gateway.config.loading import load
from gateway.errors import ConfigError
from gateway.proxy.upstreams import Upstreams
from tools.fuzz.target import Broken

SEPARATOR = b"\0"
"""Between the file and lines of overrides, NAME=value."""


class Configs:
    """A TOML file, then overrides."""

    seeds = (
        b'[[upstreams]]\nname = "a"\nbase_url = "http://127.0.0.1:8000/v1"\nmodels = ["*"]\nweight = 2.0\n'
        b"timeouts = {connect = 1.0, idle = 2}\n",
        b'[server]\nport = 0\nworkers = 2\nprotect_metrics = true\n[store]\nurl = "postgresql://u:p@h/d"\n',
        b'[sampling]\nrate = 0.5\nstrata = {identity_mention = 0.2, other = 0.01}\ntags = ["t"]\n',
        b'[aliases]\n"gpt-4o" = "m"\n[drift]\nreference = {window = 20}\n',
        b"[auditors.judge]\nenabled = false\nrate = 0.1\n" + SEPARATOR + b"BIASGATE_SERVER__PORT=80\n",
        SEPARATOR + b"BIASGATE_SAMPLING__TAGS=['a']\nBIASGATE_UPSTREAMS__0__NAME=x\nBIASGATE_A__B__C=1\n",
        b"a = " + b"[" * 3000,
        SEPARATOR + b"BIASGATE_SERVER__PORT=" + b"[" * 3000,
        SEPARATOR + b"BIASGATE_SAMPLING__TAGS=\xdb",
        b'[[upstreams]]\nname = "\\u00e9"\nbase_url = "https://us\xc3\xa9r:pw@h\xc3\xb6st:99999/p/"\n',
    )
    tokens = (
        b"[[upstreams]]\n", b"[server]\n", b"[store]\n", b"[sampling]\n", b"[aliases]\n", b"[[keys]]\n",
        b"name = ", b"url", b'base_url = "http://', b"[::1]", b"://", b"@", b"%", b"inf", b"nan", b"-1",
        b"1979-05-27", b"{}", b"[]", b'"', b"=", b".", b"\\u0000", b"\\ud800", b"\xe2\x84\xaa", b"9" * 400,
        b"[" * 1200, b"BIASGATE_SERVER__", b"__", SEPARATOR,
    )  # fmt: skip

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="biasgate-fuzz-")
        self._path = Path(self._directory.name) / "biasgate.toml"

    def check(self, data: bytes) -> None:
        text, _, lines = data.partition(SEPARATOR)
        self._path.write_bytes(text)
        environ = dict(
            pair.split("=", 1) for pair in lines.decode("utf-8", "surrogateescape").split("\n") if "=" in pair
        )
        try:
            config = load(self._path, environ=environ)
            effective(config)
            Upstreams(config)
        except ConfigError as exc:
            if "\n" in str(exc):
                raise Broken(f"more than one line: {str(exc)!r}") from exc

    def close(self) -> None:
        self._directory.cleanup()
