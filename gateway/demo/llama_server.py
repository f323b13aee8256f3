"""Serves a GGUF model by llama.cpp's own server, as the package xllamacpp carries it, until a signal ends it.

Example: `python -m gateway.demo.llama_server MODEL.gguf --port 8091 --name my-model`.
"""

import argparse
import signal
import sys
from typing import Any

from gateway.children.parent_pipe import end_with_parent

CONTEXT = 4096
"""Tokens of a request and its answer together."""


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m gateway.demo.llama_server", description=__doc__)
    parser.add_argument("model", help="GGUF file")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--name", required=True, help="name of the model for clients")
    parser.add_argument(
        "--threads",
        type=int,
        default=1,
        help="threads that compute; more than the idle cores make it slow (default: 1)",
    )
    parser.add_argument("--parallel", type=int, default=2, help="requests computed at once (default: 2)")
    parser.add_argument("--context", type=int, default=CONTEXT, help=f"tokens of a request (default: {CONTEXT})")
    parser.add_argument("--embeddings", action="store_true", help="serve embeddings, and nothing else")
    parser.add_argument("--with-parent", action="store_true", help="end when standard input closes")
    arguments = parser.parse_args(argv)
    stopping = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, stopping)  # before any thread is started, so that all of them inherit it
    if arguments.with_parent:
        end_with_parent()
    server = _start(arguments)
    print(f"ready on {server.listening_address}", flush=True)
    signal.sigwait(stopping)
    return 0


def _start(arguments: argparse.Namespace) -> Any:
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = arguments.model
    parameters.model_alias = {arguments.name}
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = arguments.port
    parameters.n_parallel = arguments.parallel
    parameters.n_ctx = arguments.context * arguments.parallel
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = arguments.threads
    parameters.ui = False
    parameters.embedding = arguments.embeddings
    return xllamacpp.Server(parameters)


if __name__ == "__main__":
    sys.exit(main())
