"""Arguments that say which servers a command asks: the model's, and the judge's."""

import argparse

from gateway.cli.audit import validations


def add_servers(
    group: argparse._ArgumentGroup, judge: argparse._ArgumentGroup, *, without_judge: str = "the model judges itself"
) -> None:
    """Add URLs, keys and the judge's name to two groups; `without_judge` says what happens without --judge-model."""
    server = group.add_mutually_exclusive_group()
    server.add_argument("--base-url", help="OpenAI-compatible server, e.g. http://127.0.0.1:8000")
    server.add_argument(
        "--gateway", metavar="URL", help="a biasgate gateway; the audit gives way to live traffic there"
    )
    group.add_argument("--api-key-env", metavar="VAR", help="environment variable with the server's key")
    judge.add_argument("--judge-model", metavar="M", help=f"judging model (without: {without_judge})")
    judge.add_argument("--judge-base-url", metavar="URL", help="where the judge is served (default: as the model)")
    judge.add_argument("--judge-api-key-env", metavar="VAR", help="environment variable with that server's key")
    validations.add_arguments(judge)


def add_concurrency(group: argparse._ArgumentGroup) -> None:
    """Add the number of requests in flight."""
    group.add_argument(
        "--concurrency",
        metavar="auto|N",
        default="auto",
        help="requests in flight (auto: 32, then as many as fill a vLLM; a gateway may ask for fewer)",
    )
