"""`biasgate judge distill-eval`: a small judge's agreement with the strong judge and with people, and its cost."""

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from auditors.json_errors import UNREADABLE
from auditors.metrics.intervals import Agreement
from benchmarks.errors import BenchmarkError
from benchmarks.lab.distillation import data, evaluation
from benchmarks.lab.distillation.data import DataCard, JudgedEssay
from benchmarks.lab.distillation.evaluation import AgreementWith, Cost, Judged
from benchmarks.lab.training import artefact
from benchmarks.run import client
from gateway.cli.audit.servers import asking
from gateway.features.lab.judge.tables import agreement_cell, in_clusters, published_rows, share_cell
from gateway.terminal.tables import aligned

HELP = """\
Asks the judge about the essays held out, as a run of the suite would. Judgements that cannot be read count as different
from the strong judge's; essays without a reply are left out and counted. Intervals are of question pairs.

--labels FILE: people's final scores, JSON lines with essay_id (of held_out.jsonl), value and annotator.

Example:
  biasgate judge distill-eval judge-data --judge-model distilled-judge --base-url http://127.0.0.1:8001 --out eval.json
  biasgate judge distill-eval judge-data --judge-model distilled-judge --untrained-model base \\
      --gateway http://127.0.0.1:8080 --labels people.jsonl
"""

PROGRESS_SECONDS = 10.0
IN_FLIGHT = 16


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """The content of eval.json: every judgement, and the judge and the data it comes from."""

    schema: int = 1
    judge_model: str
    adapter_sha256: str | None
    held_out_sha256: str
    prompt_sha256: str
    fingerprints: list[str]
    """Fingerprints that the server stated with the judge's replies."""
    limit: int | None
    summary: dict[str, Any]
    judged: list[Judged]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", type=Path, metavar="DATA", help="what judge distill-data wrote")
    parser.add_argument("--judge-model", required=True, metavar="M", help="the small judge, as its server knows it")
    parser.add_argument("--untrained-model", metavar="M", help="its base model on the same server, for comparison")
    server = parser.add_mutually_exclusive_group(required=True)
    server.add_argument("--base-url", metavar="URL", help="OpenAI-compatible server")
    server.add_argument("--gateway", metavar="URL", help="a biasgate gateway; live traffic comes first there")
    parser.add_argument("--api-key-env", metavar="VAR", help="environment variable with the server's key")
    parser.add_argument("--adapter", type=Path, metavar="DIR", help="the judge's adapter, to check what it learned")
    parser.add_argument("--labels", type=Path, metavar="FILE", help="people's final scores of essays held out")
    parser.add_argument("--limit", type=int, metavar="N", help="ask about N essays at most")
    parser.add_argument("--concurrency", type=int, default=IN_FLIGHT, metavar="N", help=f"default {IN_FLIGHT}")
    parser.add_argument("--out", type=Path, metavar="FILE", help="keep judgements and numbers as JSON")


def run(arguments: argparse.Namespace) -> int:
    if arguments.concurrency < 1 or (arguments.limit is not None and arguments.limit < 1):
        raise BenchmarkError("--concurrency and --limit must be 1 or more")
    card, essays = data.read(arguments.data, data.HELD_OUT)
    adapter = _adapter_sha256(arguments.adapter, card)
    people, n_differ = evaluation.people(arguments.labels) if arguments.labels else ({}, 0)
    essays = essays if arguments.limit is None else essays[: arguments.limit]
    if people and not people.keys() & {essay.essay_id for essay in essays}:
        raise BenchmarkError(f"{arguments.labels}: no essay_id in it is held out: take them from {data.HELD_OUT}")
    return asyncio.run(_run(arguments, card, essays, adapter, people, n_differ))


async def _run(
    arguments: argparse.Namespace,
    card: DataCard,
    essays: Sequence[JudgedEssay],
    adapter: str | None,
    people: dict[str, int],
    n_differ: int,
) -> int:
    name, untrained = arguments.judge_model, arguments.untrained_model
    replies_by_model = await _ask_models(arguments, card, essays)
    judged = {model: verdicts for model, (verdicts, _) in replies_by_model.items()}
    costs = {model: evaluation.cost(*outcome) for model, outcome in replies_by_model.items()}
    strong = {model: evaluation.with_strong(essays, verdicts) for model, verdicts in judged.items()}
    with_people = evaluation.with_people(essays, judged[name], people)
    gained = evaluation.difference(essays, judged[name], judged[untrained]) if untrained else None
    print(_agreement(card, strong, with_people, n_differ))
    print(f"\n{_confusion(strong[name])}")
    print(f"\n{_costs(costs, judged)}")
    if gained is not None:
        ends = gained.reason or "no interval"
        if gained.interval is not None:
            ends = f"{100 * gained.interval.lower:+.1f} to {100 * gained.interval.upper:+.1f}"
        print(f"\nsame final score more often than {untrained}: {f'{100 * gained.value:+.1f} points ({ends})'}")
    fingerprints = sorted({fingerprint for verdict in judged[name] for fingerprint in verdict.fingerprints})
    if len(fingerprints) > 1:
        print(f"\nthe judge changed while it was asked: {', '.join(fingerprints)}", file=sys.stderr)
    if arguments.out is not None:
        summary = {
            "strong_judge": card.judge_model,
            "with_strong": _numbers(strong[name]),
            "with_people": None if with_people is None else _numbers(with_people),
            "untrained": _numbers(strong[untrained]) if untrained else None,
            "gained": None if gained is None else msgspec.to_builtins(gained),
            "cost": msgspec.to_builtins(costs[name]),
        }
        result = Evaluation(
            judge_model=name,
            adapter_sha256=adapter,
            held_out_sha256=card.held_out_sha256,
            prompt_sha256=card.prompt_sha256,
            fingerprints=fingerprints,
            limit=arguments.limit,
            summary=summary,
            judged=judged[name],
        )
        _demand_same_judge(arguments.out, result)
        artefact.write(arguments.out, result)
    return 0


async def _ask_models(
    arguments: argparse.Namespace, card: DataCard, essays: Sequence[JudgedEssay]
) -> dict[str, tuple[list[Judged], float]]:
    headers = client.GATEWAY_HEADERS if arguments.gateway else None
    url = arguments.gateway or arguments.base_url
    async with asking(url, arguments.api_key_env, arguments.concurrency, headers=headers) as completer:
        return {
            model: await evaluation.ask(
                essays,
                card.protocol,
                model=model,
                completer=completer,
                form=card.form,
                in_flight=arguments.concurrency,
                on_done=_Progress(model, len(essays)),
            )
            for model in (arguments.judge_model, arguments.untrained_model)
            if model
        }


def _adapter_sha256(path: Path | None, card: DataCard) -> str | None:
    """Return the adapter's hash. Raises BenchmarkError if it learned other data: it may know the essays held out."""
    if path is None:
        return None
    trained_card = artefact.card(path)
    learned = trained_card.identity.about
    if learned.get("train_sha256") != card.train_sha256:
        raise BenchmarkError(f"{path}: was trained on other data: essays held out here may be known to it")
    return trained_card.adapter_sha256


def _demand_same_judge(path: Path, now: Evaluation) -> None:
    """Raises BenchmarkError if the file holds an evaluation of another judge, by name, adapter or fingerprint."""
    if not path.exists():
        return
    try:
        before = msgspec.json.decode(path.read_bytes(), type=Evaluation)
    except (OSError, *UNREADABLE) as exc:
        raise BenchmarkError(f"{path}: is not an evaluation of a judge ({exc}): choose another --out") from exc
    if before.judge_model != now.judge_model:
        raise BenchmarkError(f"{path}: is of the judge {before.judge_model}: choose another --out")
    for what, old, new in (
        ("its adapter", before.adapter_sha256, now.adapter_sha256),
        ("its server's fingerprint", before.fingerprints, now.fingerprints),
    ):
        if old and new and old != new:
            raise BenchmarkError(
                f"{path}: {now.judge_model} is another judge than before ({what}: {_short(old)}, now {_short(new)}): "
                "give it a name of its own, or choose another --out"
            )


def _short(value: str | list[str]) -> str:
    return value[:12] if isinstance(value, str) else ", ".join(value)


class _Progress:
    def __init__(self, name: str, total: int) -> None:
        self._name, self._total, self._printed_at = name, total, time.monotonic()

    def __call__(self, done: int) -> None:
        if time.monotonic() - self._printed_at >= PROGRESS_SECONDS:
            self._printed_at = time.monotonic()
            print(f"{self._name}: {done}/{self._total} essays", file=sys.stderr, flush=True)


def _agreement(card: DataCard, strong: dict[str, AgreementWith], people: AgreementWith | None, n_differ: int) -> str:
    rows = [["agreement", "same final score", "of those read", "kappa", "essays", "pairs"]]
    for name, agreement in strong.items():
        rows.append(_row(f"{name} with {card.judge_model}", agreement))
    if people is not None:
        rows.append(_row(f"{next(iter(strong))} with people", people))
    rows += [[name, share, "", "", n, ""] for name, share, n in published_rows()]
    first = next(iter(strong.values()))
    parts = {
        "title and introduction": first.sections["title_intro"],
        "reasons": first.sections["reasons"],
        "conclusions": first.sections["conclusions"],
        "refusal to answer": first.refusals,
    }
    own = [
        ["sections, where read", "same"],
        *([name, _share(part)] for name, part in parts.items() if part is not None),
    ]
    differ = f"\npeople differ on {n_differ} essays: left out" if n_differ else ""
    return f"{aligned(rows)}{differ}\n\n{aligned(own)}"


def _row(name: str, agreement: AgreementWith) -> list[str]:
    kappa = agreement.found.kappa
    return [
        name,
        _share(agreement.of_all),
        _share(agreement.found.exact),
        "undefined" if kappa.value is None else in_clusters(agreement_cell(kappa)),
        str(agreement.of_all.n_items),
        str(agreement.of_all.n_clusters),
    ]


def _share(agreement: Agreement) -> str:
    if agreement.value is None:
        return f"undefined ({agreement.reason})"
    return in_clusters(share_cell(agreement.value, agreement.interval, agreement.reason))


def _confusion(agreement: AgreementWith) -> str:
    table = agreement.found
    head = ["strong \\ judge", *map(str, table.labels)]
    rows = [[str(label), *map(str, row)] for label, row in zip(table.labels, table.confusion.tolist(), strict=True)]
    return aligned([head, *rows])


def _costs(costs: dict[str, Cost], judged: dict[str, list[Judged]]) -> str:
    rows = [["judge", "seconds each", "a second", "tokens read", "tokens written", "unread", "no reply"]]
    for name, cost in costs.items():
        failures = [each.failure for each in judged[name]]
        read, wrote = cost.prompt_tokens, cost.completion_tokens
        rows.append(
            [
                name,
                f"{cost.seconds:.2f}",
                f"{cost.a_second:.2f}",
                "unknown" if read is None else f"{read:.0f}",
                "unknown" if wrote is None else f"{wrote:.0f}",
                str(failures.count(evaluation.UNREAD)),
                str(failures.count(evaluation.NO_REPLY)),
            ]
        )
    return aligned(rows)


def _numbers(agreement: AgreementWith) -> dict[str, Any]:
    parts = {"final": agreement.of_all, "final_of_those_read": agreement.found.exact, "kappa": agreement.found.kappa}
    parts |= agreement.sections | ({} if agreement.refusals is None else {"rta": agreement.refusals})
    numbers: dict[str, Any] = {name: msgspec.to_builtins(part) for name, part in parts.items()}
    return numbers | {"confusion": agreement.found.confusion.tolist()}
