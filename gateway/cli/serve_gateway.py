"""`biasgate gateway`: the gateway role alone."""

import argparse
from pathlib import Path

from gateway.errors import ConfigError
from gateway.processes.roles import Placement, run_gateway, run_worker, run_writer

HELP = """\
With a postgresql:// store, gateways and auditors can run on any number of machines.

Example:
  biasgate gateway --config biasgate.toml --port 8080 --workers 2
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_placement(parser)
    parser.add_argument("--listen-fd", type=int, help=argparse.SUPPRESS)  # given by the parent of several workers
    parser.add_argument("--writer", help=argparse.SUPPRESS)  # with it: where they hand their copies
    parser.add_argument("--writer-fd", type=int, help=argparse.SUPPRESS)  # given to the process that stores them


def run(arguments: argparse.Namespace) -> int:
    if arguments.listen_fd is not None:
        return run_worker(arguments.listen_fd, arguments.writer)
    if arguments.writer_fd is not None:
        return run_writer(arguments.writer_fd)
    placement = read_placement(arguments)
    return run_gateway(placement.read(), placement)


def add_placement(parser: argparse.ArgumentParser) -> None:
    """The arguments that `gateway` and `serve` share."""
    parser.add_argument("--config", type=Path, help="TOML file (default: ./biasgate.toml when present)")
    parser.add_argument("--host", help="address to listen on (default: server.host, 127.0.0.1)")
    parser.add_argument("--port", type=int, help="port to listen on; 0 takes a free one (default: server.port, 8080)")
    parser.add_argument("--workers", type=int, help="gateway processes (default: server.workers, 1)")


def read_placement(arguments: argparse.Namespace) -> Placement:
    """Raises ConfigError for a port or a number of workers that cannot be."""
    if arguments.port is not None and not 0 <= arguments.port <= 65535:
        raise ConfigError(f"--port {arguments.port} is not a port: choose 1 to 65535, or 0 for a free one")
    if arguments.workers is not None and arguments.workers < 1:
        raise ConfigError(f"--workers {arguments.workers}: at least one process is needed")
    return Placement(config_path=arguments.config, host=arguments.host, port=arguments.port, workers=arguments.workers)
