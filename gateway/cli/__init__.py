"""The subcommands of `biasgate`, one module each, and their one-line summaries.

A module has `HELP` (shown under --help, with an example), `add_arguments(parser)` and `run(arguments)`, which returns
the exit code.
"""

from collections.abc import Mapping

from gateway.feature import FEATURES, Command

VERBS = {
    "serve": Command("gateway.cli.serve", "run the gateway and the auditor on one machine"),
    "gateway": Command("gateway.cli.serve_gateway", "run the gateway role only"),
    "auditor": Command("gateway.cli.serve_auditor", "run the auditor role only"),
    "simulate": Command("gateway.cli.simulate", "run the planted-bias model server"),
    "demo": Command("gateway.cli.demo", "show the whole system on a simulated model"),
    "suites": Command("gateway.cli.suites", "list the benchmark suites, or write the items of one"),
    "datasets": Command("gateway.cli.datasets", "list, fetch and verify benchmark data"),
    "audit": Command("gateway.cli.audit", "run, score, compare, gate and report audits"),
    "exchanges": Command("gateway.cli.exchanges", "delete stored exchanges, or show who accessed them"),
    "auditors": Command("gateway.cli.auditors", "measure how often a live auditor is wrong about labelled replies"),
    "plan": Command("gateway.cli.plan", "what traffic of a given size needs, and what is full first"),
    "config": Command("gateway.cli.config", "check a configuration and print what holds"),
    "store": Command("gateway.cli.store", "upgrade the store's schema, as every start does"),
    "deploy": Command(
        "gateway.cli.deploy", "write the files to run it with: compose, systemd, Helm, alerts, dashboards"
    ),
}
"""The commands of the core."""


def find_command(name: str) -> Command | None:
    """Return the command of this name, of the core or of an installed feature; None where there is none."""
    return VERBS.get(name) or all_commands().get(name)


def all_commands() -> Mapping[str, Command]:
    """Return the commands of the core and of the installed features, by name."""
    of_features = {name: command for feature in FEATURES.values() for name, command in feature.commands().items()}
    return {**VERBS, **of_features}
