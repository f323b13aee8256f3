"""`biasgate annotate serve`: the raters' page and its API, without a gateway."""

import argparse
import asyncio

HELP = """\
Raters open the page, say who they are, and get their tasks one by one. Everybody with the address may label, so beyond
this machine it needs a key (--admin-key-env), which the page asks for. A gateway serves the same page for its own
store, under /console/labelling.

Example:
  biasgate annotate serve
  biasgate annotate serve --config biasgate.toml --port 8081
  KEY=... biasgate annotate serve --host 0.0.0.0 --admin-key-env KEY
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1)")
    parser.add_argument("--port", type=int, default=8081, help="port; 0 takes a free one (default 8081)")
    parser.add_argument("--admin-key-env", metavar="VAR", help="environment variable with the raters' key")


def run(arguments: argparse.Namespace) -> int:
    from gateway.cli.annotate.opening import config_of, require_there
    from gateway.processes.labelling import serve

    config = config_of(arguments)
    require_there(config)
    return asyncio.run(
        serve(
            config,
            host=arguments.host,
            port=arguments.port,
            key_env=arguments.admin_key_env,
            on_ready=lambda address: print(f"raters go to {address}", flush=True),
        )
    )
