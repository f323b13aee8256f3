"""The subcommands of `biasgate`, one module each: `HELP`, `add_arguments(parser)` and `run(arguments)` -> exit code."""

from collections.abc import Mapping

from gateway.feature import FEATURES, Command

VERBS = {
    "serve": Command("gateway.cli.serve", "run the gateway and the auditor on one machine"),
    "gateway": Command("gateway.cli.serve_gateway", "run the gateway role only"),
    "auditor": Command("gateway.cli.serve_auditor", "run the auditor role only"),
    "simulate": Command("gateway.demo.simulate", "run the planted-bias model server"),
    "demo": Command("gateway.demo.command", "show the whole system on a simulated model"),
    "suites": Command("gateway.cli.suites", "list the benchmark suites, or write the items of one"),
    "datasets": Command("gateway.cli.datasets", "list, fetch and verify benchmark data"),
    "audit": Command("gateway.cli.audit", "run, score, compare, gate and report audits"),
    "exchanges": Command("gateway.cli.exchanges", "delete stored exchanges, or show who accessed them"),
    "config": Command("gateway.cli.config", "check a configuration and print what holds"),
    "store": Command("gateway.cli.store", "upgrade the store's schema, as every start does"),
    "completion": Command("gateway.cli.completion", "write a script that completes commands in bash, zsh or fish"),
}


def find_command(name: str) -> Command | None:
    """Return the command of this name, of the core or of an installed feature; None where there is none."""
    return VERBS.get(name) or all_commands().get(name)


def all_commands() -> Mapping[str, Command]:
    """Return the commands of the core and of the installed features, by name."""
    return {**VERBS, **{name: command for name, command in _of_features().items() if " " not in name}}


def all_actions(verb: str, own: Mapping[str, Command]) -> Mapping[str, Command]:
    """Return the actions of a command of the core, by name: its own, and those that features add or replace."""
    prefix = f"{verb} "
    nested = _of_features().items()
    return {**own, **{name.removeprefix(prefix): command for name, command in nested if name.startswith(prefix)}}


def _of_features() -> dict[str, Command]:
    return {name: command for feature in FEATURES.values() for name, command in feature.commands.items()}
