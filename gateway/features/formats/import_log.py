"""`biasgate audit import`: a log of another harness as a run directory."""

import argparse
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from string import ascii_uppercase
from typing import get_args

import msgspec

from auditors.text.visible import visible_line
from benchmarks.errors import BenchmarkError
from benchmarks.reporting import report
from benchmarks.run import directory
from benchmarks.run.plan import Key, Plan, RunOptions, prepare, prompts_sha256
from benchmarks.run.result import Imported, Result
from benchmarks.run.score import provenance_of, read_reply, score
from benchmarks.suites.protocol import Content, DataKind, Item, Parsed, ProtocolName, Reply
from gateway.features.formats.harness_logs import inspect, lm_eval
from gateway.features.formats.harness_logs.log import MOST_SAMPLES, Answered, Log
from gateway.terminal.tables import estimates_table, summary

NO_ITEM = "no item of the suite says the same"
SEVERAL = "several items say the same"
NO_SAMPLE = f"its epoch, or number among the replies to a question, is not an integer from 1 to {MOST_SAMPLES}"
AGAIN = "another reply to the same item"
NO_REPLY = "no reply in the log"
MOVED = "its letters were shown before other options than the log lists"
UNSHOWN = "reads as a letter, and no letters were shown"
OTHERWISE = "would be read otherwise beside the options in the suite's order"

MOST_PLACES = 2_000_000
"""Most items times samples: each is looked at, whether it has a reply or not."""


class Matcher:
    """Finds the item of a suite that a question of another harness asks, by the texts of both, never by its place."""

    def __init__(self, contents: Iterable[Content]) -> None:
        self._by_passage: defaultdict[str, list[Content]] = defaultdict(list)
        self._by_answers: defaultdict[frozenset[str], list[Content]] = defaultdict(list)
        for content in contents:
            passages, answers = _all(content.passages), _all(content.answers)
            normalised = Content(item_id=content.item_id, passages=passages, answers=answers)
            self._by_passage[passages[0]].append(normalised)
            self._by_answers[frozenset(answers)].append(normalised)

    def found(self, answered: Answered) -> list[str]:
        """Ids of the items that say the same: one, or none, or several that cannot be told apart."""
        return self._of_fields(answered) if answered.fields else self._of_question(answered)

    def _of_fields(self, answered: Answered) -> list[str]:
        texts = set(_all(answered.fields))
        candidates = (content for text in texts for content in self._by_passage.get(text, ()))
        return [each.item_id for each in candidates if texts.issuperset((*each.passages, *each.answers))]

    def _of_question(self, answered: Answered) -> list[str]:
        """Find items whose passages are all in the question; the longest, since an item may continue another."""
        question = _plain(answered.question)
        same = self._by_answers.get(frozenset(_all(answered.options)), ())
        held = [content for content in same if all(passage in question for passage in content.passages)]
        longest = max((_length(content) for content in held), default=0)
        return [content.item_id for content in held if _length(content) == longest]


def _length(content: Content) -> int:
    return sum(map(len, content.passages))


def _all(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(map(_plain, texts))


def _plain(text: str) -> str:
    return " ".join(text.split())


class Run(msgspec.Struct, frozen=True, kw_only=True):
    plan: Plan
    """Plan of the items found, with the prompts of the harness."""
    replies: Sequence[Reply]
    result: Result


def imported(log: Log, options: RunOptions) -> Run:
    """Score a log's replies to items of `options.suite`; a letter becomes its option's text. Raises BenchmarkError."""
    plan = prepare(options)
    suite = plan.suite
    contents = suite.contents(plan.dataset)
    if contents is None:
        raise BenchmarkError(f"{suite.name}: its items cannot be recognised in other harnesses' logs")
    matcher, items = Matcher(contents), {item.item_id: item for item in plan.items}
    left_out = Counter[str]()
    items_by_id: dict[str, Item] = {}
    replies: dict[Key, Reply] = {}
    for answered in log.answers:
        if answered.sample is None:
            left_out[NO_SAMPLE] += 1
            continue
        item_ids = matcher.found(answered)
        if len(item_ids) != 1:
            left_out[SEVERAL if item_ids else NO_ITEM] += 1
            continue
        item = items[item_ids[0]]
        reply = _reply(plan, item, answered, answered.sample)
        if isinstance(reply, str):
            left_out[reply] += 1
        elif (key := (reply.item_id, reply.sample)) in replies:
            left_out[AGAIN] += 1
        else:
            replies[key] = reply
            item = msgspec.structs.replace(item, messages=answered.prompt or item.messages)
            items_by_id.setdefault(item.item_id, item)
    if not replies:
        reasons = ", ".join(f"{count} ({reason})" for reason, count in left_out.items()) or "it has none"
        raise BenchmarkError(f"no reply of the log is to an item of {suite.name}: {reasons}")
    samples = 1 + max(sample for _, sample in replies)
    matched = [items_by_id[item_id] for item_id in items if item_id in items_by_id]
    if len(matched) * samples > MOST_PLACES:
        raise BenchmarkError(
            f"{len(matched)} items with {samples} samples each are more than {MOST_PLACES} replies: import fewer"
        )
    options, sha256 = msgspec.structs.replace(options, samples=samples), prompts_sha256(matched)
    own = msgspec.structs.replace(plan, items=matched, options=options, prompt_sha256=sha256)
    keys = [(item.item_id, sample) for item in matched for sample in range(samples)]
    ordered = {key: replies[key] for key in keys if key in replies}
    origin = Imported(
        harness=log.harness,
        version=log.version,
        task=log.task,
        log_sha256=log.sha256,
        n_replies=len(log.answers),
        left_out=dict(left_out),
    )
    result = score(own, ordered, provenance_of(own, ordered, imported=origin))
    return Run(plan=own, replies=list(ordered.values()), result=result)


def _reply(plan: Plan, item: Item, answered: Answered, sample: int) -> Reply | str:
    if answered.reply is None:
        return NO_REPLY
    theirs = item
    if answered.options:
        prompt_text = _plain(" ".join(message.content for message in answered.prompt))
        is_as_listed = not prompt_text or all(
            re.search(rf"\b{letter}[).:\]] ?{re.escape(_plain(option))}", prompt_text)
            for letter, option in zip(ascii_uppercase, answered.options, strict=False)
        )
        if not is_as_listed:
            return MOVED
        by_text = {_plain(choice.text): choice for choice in item.choices}
        theirs = msgspec.structs.replace(item, choices=tuple(by_text[_plain(option)] for option in answered.options))
    parsed = _parsed(plan, theirs, answered.reply)
    if not answered.options and any(
        _parsed(plan, msgspec.structs.replace(item, choices=item.choices[by:] + item.choices[:by]), answered.reply)
        != parsed
        for by in range(1, len(item.choices))
    ):
        return UNSHOWN
    named = [choice.text for choice in item.choices if parsed.status == "ok" and choice.role == parsed.value]
    text = named[0] if len(named) == 1 else answered.reply
    reread = read_reply(plan, item, Reply(item_id=item.item_id, sample=sample, text=text))
    return reread if (reread.status, reread.parsed) == (parsed.status, parsed.value) else OTHERWISE


def _parsed(plan: Plan, item: Item, text: str) -> Parsed:
    return plan.suite.parse(item, text, protocol=plan.options.protocol)


HELP = """\
inspect: a log as JSON. lm-eval: samples_TASK_TIME.jsonl, as --log_samples writes it, next to its results_TIME.json.

Items are found by what the questions say. Prompts and settings are the harness's; replies are read and scored here.

Example:
  biasgate audit import --from lm-eval samples_bbq_2026-11-24T02-40-59.022290.jsonl --suite bbq --out runs/imported
"""

READERS = {"inspect": inspect.read, "lm-eval": lm_eval.read}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("log", type=Path, metavar="LOG")
    parser.add_argument("--from", dest="harness", choices=tuple(READERS), required=True, help="whose log it is")
    parser.add_argument("--suite", required=True, metavar="NAME", help="whose items it asked")
    parser.add_argument("--out", required=True, type=Path, metavar="DIR", help="run directory to make")
    parser.add_argument("--model", help="name for the result (default: the log's)")
    parser.add_argument("--protocol", choices=get_args(ProtocolName), default="corrected", help="of the scores")
    parser.add_argument("--data", choices=get_args(DataKind), default="canonical")


def run(arguments: argparse.Namespace) -> int:
    log = READERS[arguments.harness](arguments.log)
    model = arguments.model or log.model or "recorded"
    options = RunOptions(suite=arguments.suite, model=model, protocol=arguments.protocol, data=arguments.data)
    imported_run = imported(log, options)
    directory.create(arguments.out, imported_run.plan, directory.manifest(imported_run.plan))
    directory.write_replies(arguments.out, imported_run.replies)
    directory.finish(arguments.out, imported_run.result, report.render([imported_run.result]))
    origin = imported_run.result.provenance.imported
    left_out = {} if origin is None else origin.left_out
    asked_by = visible_line(f"{log.harness} {log.version}")
    print(f"{arguments.out}: {len(imported_run.replies)} of {len(log.answers)} replies, asked by {asked_by}")
    for reason, count in left_out.items():
        print(visible_line(f"left out: {count}: {reason}"))
    print(f"\n{summary(imported_run.result)}\n\n{estimates_table(imported_run.result)}")
    return 0
