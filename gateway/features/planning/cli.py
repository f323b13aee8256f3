"""`biasgate plan`: what traffic of a given size needs, and what is full first, from what was measured."""

import argparse
import math
import shutil
import sys
import textwrap
from pathlib import Path

import msgspec

from gateway.errors import ConfigError, nearest
from gateway.features.planning.capacity import Part, Plan, Range, Traffic, plan
from gateway.features.planning.unit_costs import AUDITORS
from gateway.terminal.tables import aligned

HELP = """\
Ranges are from the best to the worst of what was measured on other machines (docs/scaling.md): measure your own.
Without --config: a judge that takes every sampled exchange, PostgreSQL.

Example:
  biasgate plan --requests-per-second 2000 --rate 0.05
  biasgate plan --requests-per-second 2000 --config biasgate.toml --format json
  biasgate plan --requests-per-second 50 --rate 0.2 --auditors judge,embedding=0.1 --judge-seconds 0.8
"""
WIDEST = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--requests-per-second", type=float, required=True, metavar="R", help="that the gateways relay")
    parser.add_argument("--rate", type=float, metavar="P", help="share that is sampled (default: sampling.rate, 0.05)")
    parser.add_argument("--config", type=Path, help="TOML file, of what is enabled (default: none is read)")
    parser.add_argument("--auditors", metavar="NAMES", help="with commas, each with its rate: judge,embedding=0.1")
    parser.add_argument("--prompt-tokens", type=float, default=500.0, metavar="N", help="of a request (default 500)")
    parser.add_argument("--answer-tokens", type=float, default=300.0, metavar="N", help="of an answer (default 300)")
    parser.add_argument("--streamed", type=float, default=1.0, metavar="P", help="share of the answers (default 1)")
    parser.add_argument("--models", type=int, default=1, metavar="N", help="names of models served (default 1)")
    parser.add_argument("--judge-seconds", type=float, metavar="S", help="of one judgement (default: as measured)")
    parser.add_argument(
        "--judge-price-in", type=float, default=0.15, metavar="D", help="dollars for a million tokens (default 0.15)"
    )
    parser.add_argument(
        "--judge-price-out", type=float, default=0.60, metavar="D", help="the same of replies (default 0.60)"
    )
    parser.add_argument("--retention-days", type=float, metavar="N", help="(default: store.retention_days, 30)")
    parser.add_argument(
        "--store", choices=("postgresql", "sqlite"), help="(default: that of --config, else postgresql)"
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="(default text)")


def run(arguments: argparse.Namespace) -> int:
    capacity_plan = plan(_traffic(arguments))
    if arguments.format == "json":
        plain = {
            "traffic": capacity_plan.traffic,
            "sampled_per_second": capacity_plan.sampled_per_second,
            "judge_dollars_a_month": capacity_plan.judge_dollars_a_month,
            "full_first": capacity_plan.limits[0].name if capacity_plan.limits else None,
            "parts": capacity_plan.parts,
        }
        print(msgspec.json.format(msgspec.json.encode(plain), indent=2).decode())
    else:
        print(_format_plan(capacity_plan))
    return 0


def _traffic(arguments: argparse.Namespace) -> Traffic:
    from gateway.config.loading import load
    from gateway.config.schema import Config

    config = load(arguments.config) if arguments.config is not None else Config()
    of_config = "sqlite" if config.store.url.startswith("sqlite") else "postgresql"
    auditors = {"judge": 1.0}
    if arguments.config is not None:
        sections = config.auditors.sections.items()
        auditors = {name: section.rate for name, section in sections if section.enabled and name in AUDITORS}
    if arguments.auditors is not None:
        rate_by_name: dict[str, float] = {}
        for entry in filter(None, map(str.strip, arguments.auditors.split(","))):
            name, _, rate = entry.partition("=")
            if name not in AUDITORS:
                near = nearest(name, AUDITORS)
                raise ConfigError(f'--auditors "{name}" is not known{near}; known here: {", ".join(AUDITORS)}')
            try:
                rate_by_name[name] = float(rate) if rate else AUDITORS[name].rate
            except ValueError:
                raise ConfigError(f'--auditors {name}: "{rate}" is not a rate: give a number between 0 and 1') from None
            _within(rate_by_name[name], f"--auditors {name}", 0.0, 1.0)
        auditors = rate_by_name
    above, share, whole = (0.0, math.inf), (0.0, 1.0), (1.0, math.inf)
    days = config.store.retention_days if arguments.retention_days is None else arguments.retention_days
    return Traffic(
        requests_per_second=_within(arguments.requests_per_second, "--requests-per-second", *above, is_open=True),
        rate=_within(config.sampling.rate if arguments.rate is None else arguments.rate, "--rate", *share),
        auditors=auditors,
        prompt_tokens=_within(arguments.prompt_tokens, "--prompt-tokens", *above),
        answer_tokens=_within(arguments.answer_tokens, "--answer-tokens", *above),
        streamed=_within(arguments.streamed, "--streamed", *share),
        store=arguments.store or (of_config if arguments.config is not None else "postgresql"),
        retention_days=_within(days, "--retention-days", *above, is_open=True),
        models=int(_within(arguments.models, "--models", *whole)),
        price_in=_within(arguments.judge_price_in, "--judge-price-in", *above),
        price_out=_within(arguments.judge_price_out, "--judge-price-out", *above),
        judge_seconds=None
        if arguments.judge_seconds is None
        else _within(arguments.judge_seconds, "--judge-seconds", *above, is_open=True),
        budgets={
            name: float(section.token_budget_per_minute)
            for name, section in config.auditors.sections.items()
            if section.token_budget_per_minute is not None
        },
        max_concurrency=config.auditors.judge.max_concurrency,
    )


def _within(value: float, name: str, least: float, most: float, *, is_open: bool = False) -> float:
    if math.isfinite(value) and (least < value if is_open else least <= value) and value <= most:
        return value
    words = f"above {least:g}" if is_open else f"{least:g} or more"
    raise ConfigError(f"{name} {value:g} must be {words if most == math.inf else f'between {least:g} and {most:g}'}")


def _format_plan(capacity_plan: Plan) -> str:
    width = min(WIDEST, shutil.get_terminal_size().columns) if sys.stdout.isatty() else WIDEST
    rows = [["part", "needs", "", "one is full at", "one"]]
    rows += [[part.name, *_needs(part), _full_at(part), part.one] for part in capacity_plan.parts]
    steps = [
        f"{n}. {limit.name}, at {_full_at(limit)} ({limit.one}): {limit.then}."
        for n, limit in enumerate(capacity_plan.limits, 1)
    ]
    wrapped = ["\n".join(textwrap.wrap(step, width, subsequent_indent="   ")) for step in steps]
    heads = ["\n".join(textwrap.wrap(line, width)) for line in _summary(capacity_plan)]
    table = "\n".join(line.rstrip() for line in aligned(rows).splitlines())
    return "\n".join([*heads, "", table, "", "What is full first, while one does all, and what then:", *wrapped])


def _summary(capacity_plan: Plan) -> list[str]:
    traffic = capacity_plan.traffic
    who = ", ".join(name if rate == 1 else f"{name} ({rate:g})" for name, rate in traffic.auditors.items())
    lines = [
        f"{number(traffic.requests_per_second)} requests/s, {100 * traffic.rate:g} % sampled: "
        f"{number(capacity_plan.sampled_per_second)} exchanges/s to audit, by {who or 'nobody'}."
    ]
    if limits := capacity_plan.limits:
        first = limits[0]
        lines.append(f"Full first: {first.name}, at {_full_at(first)} with one {first.one}.")
    if "judge" in traffic.auditors:
        lines.append(
            f"The judge costs {_dollars(capacity_plan.judge_dollars_a_month)} a month at ${traffic.price_in:g} and "
            f"${traffic.price_out:g} for a million tokens read and written."
        )
    return lines


def _dollars(cost: Range) -> str:
    low, high = number(cost.low), number(cost.high)
    return f"${low}" if low == high else f"${low} to ${high}"


def _needs(part: Part) -> tuple[str, str]:
    if not part.needs.low and part.needs.high:
        return f"up to {number(part.needs.high)}", part.unit
    return between(part.needs), part.unit


def _full_at(part: Part) -> str:
    return "" if part.full_at is None else f"{between(part.full_at)} requests/s"


def between(bounds: Range) -> str:
    """Formats both ends of a range, or a single number where they read the same."""
    low, high = number(bounds.low), number(bounds.high)
    return low if low == high else f"{low} to {high}"


def number(value: float) -> str:
    """Formats a number to two digits, which is the precision of the ranges; whole from ten on."""
    if value == 0:
        return "0"
    digits = 1 - math.floor(math.log10(abs(value)))
    rounded = round(value, digits)
    return f"{rounded:,.0f}" if abs(rounded) >= 10 else f"{rounded:,.{max(0, digits)}f}"
