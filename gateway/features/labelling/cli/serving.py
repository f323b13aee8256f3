"""`biasgate annotate serve`: the raters' page and its API, without a gateway."""

import argparse
import asyncio

from gateway.cli.actions import add_earlier_spelling

HELP = """\
Raters open the link that `annotate invite` made for them, and get their tasks one by one. Without a key, any user
of this machine labels under any name and decides where raters differ, until the first rater has a link: from then on
that needs the administrator's key (--api-key-env), which the page asks for. A gateway serves the same page for its
own store, under /console/labelling.

Example:
  biasgate annotate serve
  biasgate annotate serve --config biasgate.toml --port 8081
  biasgate annotate serve --host 0.0.0.0
  KEY=... biasgate annotate serve --host 0.0.0.0 --api-key-env KEY
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1)")
    parser.add_argument("--port", type=int, default=8081, help="port; 0 takes a free one (default 8081)")
    parser.add_argument(
        "--api-key-env",
        metavar="VAR",
        help="environment variable with the administrator's key, which opens everything",
    )
    add_earlier_spelling(parser, "--admin-key-env", "api_key_env")


def run(arguments: argparse.Namespace) -> int:
    from gateway.cli.opening import config_of, is_own_file, require_there
    from gateway.features.labelling.serving import serve

    config = config_of(arguments)
    require_there(config)
    return asyncio.run(
        serve(
            config,
            host=arguments.host,
            port=arguments.port,
            key_env=arguments.api_key_env,
            migrate=is_own_file(arguments, config),
            on_ready=lambda address: print(f"raters go to {address}", flush=True),
        )
    )
