"""`biasgate judge calibrate`: measures a judge against people's labels, of a file or of the store."""

import argparse
import asyncio
import math
from pathlib import Path

import msgspec

from auditors.judge_validation import GroupValidation, Validation
from benchmarks.lab.metrics.agreement import JudgeAgreement
from benchmarks.lab.metrics.error_rates import known_rates, rogan_gladen
from gateway.cli.actions import write_file
from gateway.cli.opening import opened
from gateway.features.lab.judge import judged, tables
from gateway.features.lab.judge.comparison import SCORES, Comparison, compare
from gateway.features.lab.judge.identity import Identity, identity_of
from gateway.features.lab.judge.labels import Labels, LabelsError, parsed, read
from gateway.store import calibrations
from gateway.store.calibrations import AUDITOR, METRIC

MOST_LABELS = 1_000_000

HELP = """\
Compares a judge with people, and people with one another: how often they agree, the judge's error rates by group, a
share corrected for them.

Labels are what `GET /annotations?format=jsonl` gives: JSON lines with value (a person's), measured_value (the judge's),
group, and exchange_id with auditor, metric, axis and reference, which tell what was judged. Several people's labels of
one judgement count as their mean; of several by one annotator the newest counts. Judgements of one exchange hang
together, so intervals are of exchanges; lines without an exchange_id stand each for one. Those without a measured_value
are left out and counted.

Example:
  curl -s "http://127.0.0.1:8080/annotations?auditor=judge&format=jsonl" > labels.jsonl
  biasgate judge calibrate labels.jsonl
  biasgate judge calibrate labels.jsonl --threshold 0 --positive 240 --of 1000
  biasgate judge calibrate labels.jsonl --judged runs/ltf
  biasgate judge calibrate labels.jsonl --judge-model j --prompt-sha256 4f0c... --thinking off --out validation.json
  biasgate judge calibrate --config biasgate.toml --keep

Without a FILE the labels are those of the store, of the live judge. --keep keeps the comparison there: live shares are
corrected by the newest one of their judge, and sha256:DIGEST names it where a file would.

With --out the comparison is written for --judge-validation of `audit run` and `audit score`. A judge is its model, its
question and whether it is asked to think; labels of `annotate export` say all three, for others provenance.judge of a
result does.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "labels", nargs="?", type=Path, metavar="FILE", help="JSON lines; without it those of the store"
    )
    parser.add_argument(
        "--threshold", type=float, default=0.0, metavar="SCORE", help="a score above it is positive (default 0)"
    )
    parser.add_argument("--positive", type=int, metavar="N", help="of other exchanges, how many the judge scored so")
    parser.add_argument("--of", type=int, metavar="N", help="how many other exchanges it scored")
    judged.add_arguments(parser)
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the comparison for --judge-validation")
    parser.add_argument("--keep", action="store_true", help="keep the comparison in the store")
    parser.add_argument("--judge-model", metavar="M", help="with --out or --keep: the judge")
    parser.add_argument("--prompt-sha256", metavar="HASH", help="with --out or --keep: its question, 64 hex digits")
    parser.add_argument("--thinking", metavar="T", help="with --out or --keep: how it was asked to think, e.g. off")
    parser.add_argument("--store", metavar="FILE", help="an SQLite file or a PostgreSQL URL")
    parser.add_argument("--config", metavar="FILE", help="take the store of this configuration instead")


def run(arguments: argparse.Namespace) -> int:
    if arguments.store is None and arguments.config is None and (arguments.keep or arguments.labels is None):
        option = "--keep" if arguments.keep else "calibrate without a FILE of labels"
        raise LabelsError(f"{option} needs a store: --config FILE of the gateway, or --store FILE")
    labels = read(arguments.labels) if arguments.labels is not None else _of_store(arguments)
    if not math.isfinite(arguments.threshold):
        raise LabelsError(f"--threshold {arguments.threshold} is not a finite number")
    if (arguments.positive is None) != (arguments.of is None):
        raise LabelsError("--positive and --of go together: how many of how many exchanges the judge scored positive")
    if arguments.of is not None and (not 0 <= arguments.positive <= arguments.of or arguments.of < 1):
        raise LabelsError(f"--positive {arguments.positive} must lie between 0 and --of {arguments.of}")
    identity = None
    if arguments.keep or arguments.out is not None:
        judge_options = {"model": arguments.judge_model, "thinking": arguments.thinking}
        identity = identity_of(labels.judges, prompt_sha256=arguments.prompt_sha256, **judge_options)
    comparison = compare(labels, arguments.threshold)
    if not comparison.rates and (arguments.of is not None or arguments.judged is not None):
        raise LabelsError(f"{_name(arguments)}: no judge's scores to correct others by")
    other_scores = None if arguments.judged is None else judged.read(arguments.judged, labels)
    print("\n\n".join([tables.summary(labels), *tables.tables(comparison, labels)]))
    if arguments.of is not None:
        corrected = rogan_gladen(arguments.positive, arguments.of, comparison.rates[""])
        print(f"\n{tables.share(corrected, arguments.positive / arguments.of)}")
    if other_scores is not None:
        shares = judged.shares(other_scores, labels.judgements, arguments.threshold)
        text = judged.tables(shares, other_scores, arguments.threshold)
        print(f"\n{tables.in_clusters(text) if labels.is_of_suite else text}")
    if identity is not None:
        _write(arguments, identity, labels, comparison)
    return 0


def _of_store(arguments: argparse.Namespace) -> Labels:
    """Return the labels of the live judge; of the judge that the arguments name, where the store has several."""
    try:
        from gateway.features.labelling import annotations
    except ImportError as error:  # an installation without that feature
        raise LabelsError("the store's labels need the feature labelling: give a FILE of labels") from error
    judge_options = (arguments.judge_model, arguments.prompt_sha256, arguments.thinking)
    identity = dict(zip(("judge_model", "prompt_sha256", "judge_thinking"), judge_options, strict=True))

    async def read_annotations() -> list[annotations.Annotation]:
        async with opened(arguments) as database:
            return await annotations.list_annotations(
                database, {"auditor": AUDITOR, "metric": METRIC}, limit=MOST_LABELS
            )

    lines = [
        msgspec.json.encode(annotation)
        for annotation in asyncio.run(read_annotations())
        if all(option is None or getattr(annotation, name) in (None, option) for name, option in identity.items())
    ]
    return parsed(_name(arguments), b"\n".join(lines))


def _name(arguments: argparse.Namespace) -> str:
    return str(arguments.labels or arguments.config or arguments.store)


def _write(arguments: argparse.Namespace, identity: Identity, labels: Labels, comparison: Comparison) -> None:
    """Raises LabelsError for labels of which no validation can be made."""
    if comparison.judge is None or labels.names is not None:
        raise LabelsError(f"{_name(arguments)}: its labels are not scores of {SCORES}: they cannot validate a judge")
    kappa, exact = comparison.judge.kappa, comparison.judge.exact
    people = comparison.people
    rates = {name: known_rates(rate) for name, rate in comparison.rates.items()}
    validation = Validation(
        judge_model=identity.model,
        prompt_sha256=identity.prompt_sha256,
        thinking=identity.thinking,
        fingerprints=identity.fingerprints,
        n=comparison.judge.n,
        n_exchanges=exact.n_clusters,
        agreement=exact.value or 0.0,
        agreement_interval=exact.interval,
        kappa=kappa.value,
        kappa_lower=None if kappa.interval is None else kappa.interval.lower,
        kappa_upper=None if kappa.interval is None else kappa.interval.upper,
        confusion=comparison.judge.confusion.tolist(),
        by_group=tuple(
            _of_group(part.name, part.found, comparison) for part in comparison.parts if part.kind == "group"
        ),
        n_people=None if people is None else people.n_people,
        n_by_several=0 if people is None else people.with_one_another.exact.n_items,
        people_agreement=None if people is None else people.with_one_another.exact.value,
        people_agreement_interval=None if people is None else people.with_one_another.exact.interval,
        alpha=None if people is None else people.with_one_another.alpha.value,
        alpha_interval=None if people is None else people.with_one_another.alpha.interval,
        labels_sha256=labels.sha256,
        threshold=arguments.threshold,
        rates=rates,
    )
    content = msgspec.json.format(msgspec.json.encode(validation), indent=1) + b"\n"
    verdict = validation.fault or "validates the judge on this question"
    if arguments.out is not None:
        write_file(arguments.out, content)
        print(f"\n{arguments.out}: {verdict}")
    if arguments.keep:
        print(f"\nkept as sha256:{asyncio.run(_keep_validation(arguments, content))}: {verdict}")


async def _keep_validation(arguments: argparse.Namespace, content: bytes) -> str:
    async with opened(arguments) as database:
        return (await calibrations.keep(database, content)).digest


def _of_group(name: str, agreement: JudgeAgreement, comparison: Comparison) -> GroupValidation:
    rates = comparison.rates[name]
    return GroupValidation(
        group=name,
        n=agreement.n,
        agreement=agreement.exact.value or 0.0,
        agreement_interval=agreement.exact.interval,
        kappa=agreement.kappa.value,
        kappa_interval=agreement.kappa.interval,
        sensitivity=rates.sensitivity.value,
        sensitivity_interval=rates.sensitivity.interval,
        specificity=rates.specificity.value,
        specificity_interval=rates.specificity.interval,
    )
