"""`biasgate judge`: `calibrate` measures a judge against people's labels; the others distil a small one."""

import argparse
import math
import re
from pathlib import Path

import msgspec

from auditors.metrics.error_rates import rogan_gladen
from auditors.metrics.judge_agreement import JudgeAgreement
from benchmarks.run.judge_validation import GroupValidation, Validation
from gateway.cli.actions import add_actions
from gateway.cli.errors import as_gateway_errors
from gateway.cli.judge import distill_data, distill_eval, distill_serve, distill_train, panel, tables
from gateway.cli.judge.comparison import SCORES, Comparison, compare
from gateway.cli.judge.labels import Labels, LabelsError, read

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
  biasgate judge calibrate labels.jsonl --judge-model j --prompt-sha256 4f0c... --out validation.json

With --out the comparison is written for --judge-validation of `audit run` and `audit score`; the judge's model and the
sha256 of its question are in provenance.judge of a result.
"""

ACTIONS = {
    "panel": (panel, "put replies to several judges: agreement, self-preference, order"),
    "distill-data": (distill_data, "make a training set of judged runs"),
    "distill-train": (distill_train, "train a small judge on it (LoRA)"),
    "distill-serve": (distill_serve, "print the vLLM command that serves it"),
    "distill-eval": (distill_eval, "compare it with the strong judge and with people"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar=f"calibrate|{'|'.join(ACTIONS)}")
    add_actions(actions, ACTIONS)
    calibrate = actions.add_parser("calibrate", description=HELP, formatter_class=argparse.RawDescriptionHelpFormatter)
    calibrate.add_argument("labels", type=Path, metavar="FILE", help="JSON lines of labels")
    calibrate.add_argument(
        "--threshold", type=float, default=0.0, metavar="SCORE", help="a score above it is positive (default 0)"
    )
    calibrate.add_argument("--positive", type=int, metavar="N", help="of other exchanges, how many the judge scored so")
    calibrate.add_argument("--of", type=int, metavar="N", help="how many other exchanges it scored")
    calibrate.add_argument("--out", type=Path, metavar="FILE", help="write the comparison for --judge-validation")
    calibrate.add_argument("--judge-model", metavar="M", help="with --out: the judge")
    calibrate.add_argument("--prompt-sha256", metavar="HASH", help="with --out: its question, 64 hex digits")


def run(arguments: argparse.Namespace) -> int:
    if arguments.action in ACTIONS:
        with as_gateway_errors():
            return int(ACTIONS[arguments.action][0].run(arguments))
    return _calibrate(arguments)


def _calibrate(arguments: argparse.Namespace) -> int:
    labels = read(arguments.labels)
    _check(arguments)
    found = compare(labels, arguments.threshold)
    if arguments.of is not None and not found.rates:
        raise LabelsError(f"{arguments.labels}: no judge's scores to correct --positive and --of by")
    print("\n\n".join([tables.summary(labels), *tables.tables(found, labels)]))
    if arguments.of is not None:
        corrected = rogan_gladen(arguments.positive, arguments.of, found.rates[""])
        print(f"\n{tables.share(corrected, arguments.positive / arguments.of)}")
    if arguments.out is not None:
        _write(arguments, labels, found)
    return 0


def _check(arguments: argparse.Namespace) -> None:
    """Raises LabelsError for arguments that do not go together, before anything is printed."""
    if not math.isfinite(arguments.threshold):
        raise LabelsError(f"--threshold {arguments.threshold} is no score that another can be above")
    if (arguments.positive is None) != (arguments.of is None):
        raise LabelsError("--positive and --of go together: how many of how many exchanges the judge scored positive")
    if arguments.of is not None and (not 0 <= arguments.positive <= arguments.of or arguments.of < 1):
        raise LabelsError(f"--positive {arguments.positive} must lie between 0 and --of {arguments.of}")
    is_named = arguments.judge_model and re.fullmatch(r"[0-9a-f]{64}", arguments.prompt_sha256 or "")
    if arguments.out is not None and not is_named:
        raise LabelsError("--out needs --judge-model M and --prompt-sha256 HASH (64 hex digits): see provenance.judge")


def _write(arguments: argparse.Namespace, labels: Labels, found: Comparison) -> None:
    """Raises LabelsError for labels of which no validation can be made."""
    if found.judge is None or labels.names is not None:
        raise LabelsError(f"{arguments.labels}: its labels are no scores of {SCORES}: they validate no judge")
    kappa, exact = found.judge.kappa, found.judge.exact
    people = found.people
    validation = Validation(
        judge_model=arguments.judge_model,
        prompt_sha256=arguments.prompt_sha256,
        n=found.judge.n,
        n_exchanges=exact.n_clusters,
        agreement=exact.value or 0.0,
        agreement_interval=exact.interval,
        kappa=kappa.value,
        kappa_lower=None if kappa.interval is None else kappa.interval.lower,
        kappa_upper=None if kappa.interval is None else kappa.interval.upper,
        confusion=found.judge.confusion.tolist(),
        by_group=tuple(_of_group(part.name, part.found, found) for part in found.parts if part.kind == "group"),
        n_people=None if people is None else people.n_people,
        n_by_several=0 if people is None else people.with_one_another.exact.n_items,
        people_agreement=None if people is None else people.with_one_another.exact.value,
        people_agreement_interval=None if people is None else people.with_one_another.exact.interval,
        alpha=None if people is None else people.with_one_another.alpha.value,
        alpha_interval=None if people is None else people.with_one_another.alpha.interval,
        labels_sha256=labels.sha256,
    )
    try:
        arguments.out.write_bytes(msgspec.json.format(msgspec.json.encode(validation), indent=1) + b"\n")
    except OSError as exc:
        raise LabelsError(f"{arguments.out}: cannot be written: {exc.strerror}") from exc
    print(f"\n{arguments.out}: {validation.fault or 'validates the judge on this question'}")


def _of_group(name: str, found: JudgeAgreement, comparison: Comparison) -> GroupValidation:
    rates = comparison.rates[name]
    return GroupValidation(
        group=name,
        n=found.n,
        agreement=found.exact.value or 0.0,
        agreement_interval=found.exact.interval,
        kappa=found.kappa.value,
        kappa_interval=found.kappa.interval,
        sensitivity=rates.sensitivity.value,
        sensitivity_interval=rates.sensitivity.interval,
        specificity=rates.specificity.value,
        specificity_interval=rates.specificity.interval,
    )
