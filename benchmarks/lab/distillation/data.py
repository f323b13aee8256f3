"""The training set of a distilled judge: judged runs, split by question pair, and checked for leaks."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from auditors.clients.judge_client import JudgeQuestion
from auditors.json_errors import UNREADABLE
from auditors.types import JudgeForm
from benchmarks.errors import BenchmarkError
from benchmarks.lab.training import artefact
from benchmarks.lab.training.artefact import Example
from benchmarks.run import directory
from benchmarks.suites.ltf_test.judge import Judgement, JudgementError, parse_judgement
from benchmarks.suites.ltf_test.prompts import judge_question
from benchmarks.suites.ltf_test.suite import LTFTest
from benchmarks.suites.protocol import Observation, ProtocolName

LINES: Mapping[str, str] = {
    "title_intro": "Title & Intro",
    "reasons": "Reasons",
    "conclusions": "Conclusions",
    "rta": "RtA",
    "final": "Final",
}
"""Names of the lines that the printed question asks for; the last under `corrected` only."""


class JudgedEssay(msgspec.Struct, frozen=True, kw_only=True):
    """One line of train.jsonl or held_out.jsonl."""

    essay_id: str
    """Run's number, item and sample: `0/ltf-10/0`."""
    pair: str
    """The question pair: both directions, and the same question to every model."""
    axis: str
    direction: tuple[str, str]
    """Groups: favoured by the question, and the other."""
    group1: str
    group2: str
    """The labels that the judge is told."""
    essay: str
    judgement: Judgement


def question(essay: JudgedEssay, protocol: ProtocolName) -> JudgeQuestion:
    """Return the question put to a judge about the essay, as in a run of the suite."""
    return judge_question(essay.group1, essay.group2, essay.essay, protocol=protocol)


def example(essay: JudgedEssay, protocol: ProtocolName, form: JudgeForm) -> Example:
    """The question in that form, and the judge's scores. Raises BenchmarkError where the protocol has none."""
    query = question(essay, protocol)
    if form == "text":
        return Example(tuple(query.messages), written(essay.judgement, protocol))
    if query.schema is None:
        raise BenchmarkError(f"protocol {protocol} asks its judge in text only: use --form text")
    return Example(tuple(query.schema_messages or query.messages), written_as_json(essay.judgement))


def written(judgement: Judgement, protocol: ProtocolName) -> str:
    """The lines that the question asks for; under `paper` and `release` a final -1 stands in the sections alone."""
    values = _values(judgement)
    if protocol == "corrected":
        return "\n".join(f"• {LINES[name]}: {values[name]}" for name in LINES)
    if judgement.final == -1 and not any(values[name] for name in ("title_intro", "reasons", "conclusions")):
        values |= {"title_intro": -1, "reasons": -1, "conclusions": -1}
    return "\n".join(f"• {LINES[name]}: {values[name]}" for name in LINES if name != "final")


def written_as_json(judgement: Judgement) -> str:
    """The object that the schema asks for."""
    return msgspec.json.encode(_values(judgement)).decode()


def _values(judgement: Judgement) -> dict[str, int]:
    return {name: int(getattr(judgement, name)) for name in LINES}


SUITE = LTFTest.name
CARD, TRAIN, HELD_OUT = "card.json", "train.jsonl", "held_out.jsonl"
EVAL = "eval"
_lines = msgspec.json.Encoder().encode_lines


class DataCard(msgspec.Struct, frozen=True, kw_only=True):
    """card.json of a training set."""

    schema: int = 1
    judge_model: str
    """The strong judge, whose scores are learned."""
    prompt_sha256: str
    """sha256 of the strong judge's question with the slots open."""
    protocol: ProtocolName
    form: JudgeForm
    held_out: str
    """The split: "eval", or a share."""
    seed: int
    runs: dict[str, str]
    """Directory to the model that wrote the essays."""
    left_out: dict[str, int]
    """Replies without a usable judgement, by why."""
    same_text_removed: int
    """Essays for training whose text is held out too."""
    n_train: int
    n_held_out: int
    n_pairs_train: int
    n_pairs_held_out: int
    finals_train: dict[int, int]
    """Number of essays in the training part by final score."""
    finals_held_out: dict[int, int]
    train_sha256: str
    held_out_sha256: str


class Split(msgspec.Struct, frozen=True):
    """The division of essays; both directions of a question, and all answers to them, are on one side."""

    held_out: str
    """EVAL: the suite's subset of that name, as the paper (protocols 2.11); or a share in (0, 1) of the pairs."""
    seed: int = 0

    def __post_init__(self) -> None:
        if self.held_out != EVAL and not 0 < self.share < 1:
            raise BenchmarkError(f'--held-out {self.held_out}: give "{EVAL}", or a share between 0 and 1 such as 0.2')

    @property
    def share(self) -> float:
        try:
            return float(self.held_out)
        except ValueError:
            return 0.0

    def holds_out(self, pair: str, subset: str | None) -> bool:
        if self.held_out == EVAL:
            return subset == EVAL
        digest = hashlib.sha256(f"{self.seed}/{pair}".encode()).digest()
        return int.from_bytes(digest[:8], "big") < self.share * 2**64


def build(runs: Sequence[Path], out: Path, split: Split, form: JudgeForm | None) -> DataCard:
    """Write a training set from judged runs of the long-text test: the same judge, question and protocol. `form`: of
    scores, None the strong judge's. BenchmarkError: runs that do not go together, a side without essays, or a leak.
    """
    sides: tuple[list[JudgedEssay], list[JudgedEssay]] = ([], [])
    left_out: Counter[str] = Counter()
    stamps: dict[tuple[str, str, str], Path] = {}
    protocols: dict[ProtocolName, Path] = {}
    models: dict[str, str] = {}
    for number, path in enumerate(runs):
        options = directory.read_manifest(path).options
        if options.suite != SUITE:
            raise BenchmarkError(f"{path}: a run of {options.suite}: only essays of {SUITE} are learned")
        protocols.setdefault(options.protocol, path)
        models[str(path)] = options.model
        for observation in directory.observations(path):
            outcome = _judged(observation, number, options.protocol)
            if isinstance(outcome, str):
                left_out[outcome] += 1
                continue
            record = observation.reply.judge or {}
            stamps.setdefault((record["model"], record["prompt_sha256"], record["form"]), path)
            sides[split.holds_out(outcome.pair, observation.item.subset)].append(outcome)
    _demand_one(protocols, stamps, form)
    train, held_out = sides
    # Stock texts, for example, are on both sides.
    held_out_texts, n_judged = {_normal(essay.essay) for essay in held_out}, len(train)
    train = [essay for essay in train if _normal(essay.essay) not in held_out_texts]
    _demand_both(train, held_out, split, left_out)
    demand_no_leak(train, held_out)
    model, prompt_sha256, forms = next(iter(stamps))
    card = DataCard(
        judge_model=model,
        prompt_sha256=prompt_sha256,
        protocol=next(iter(protocols)),
        form=form or ("schema" if forms == "schema" else "text"),
        held_out=split.held_out,
        seed=split.seed,
        runs=models,
        left_out=dict(sorted(left_out.items())),
        same_text_removed=n_judged - len(train),
        n_train=len(train),
        n_held_out=len(held_out),
        n_pairs_train=len({essay.pair for essay in train}),
        n_pairs_held_out=len({essay.pair for essay in held_out}),
        finals_train=_finals(train),
        finals_held_out=_finals(held_out),
        train_sha256=hashlib.sha256(_lines(train)).hexdigest(),
        held_out_sha256=hashlib.sha256(_lines(held_out)).hexdigest(),
    )
    artefact.begin(out, {TRAIN: _lines(train), HELD_OUT: _lines(held_out)}, mode=0o700)
    artefact.write(out / CARD, card)  # last: a directory with one is whole
    return card


def read(path: Path, part: str) -> tuple[DataCard, list[JudgedEssay]]:
    """The card and a part (TRAIN or HELD_OUT). Raises BenchmarkError for no training set, or not the card's content."""
    try:
        card = msgspec.json.decode((path / CARD).read_bytes(), type=DataCard)
        content = (path / part).read_bytes()
        essays = msgspec.json.Decoder(JudgedEssay).decode_lines(content)
    except (OSError, *UNREADABLE) as exc:
        raise BenchmarkError(f"{path}: no training set of a judge ({exc}): make one with judge distill-data") from exc
    if hashlib.sha256(content).hexdigest() != (card.train_sha256 if part == TRAIN else card.held_out_sha256):
        raise BenchmarkError(f"{path / part}: was changed since its card was written: make it again")
    return card, essays


def demand_no_leak(train: Sequence[JudgedEssay], held_out: Sequence[JudgedEssay]) -> None:
    """Raises BenchmarkError when a question pair or an essay's text is on both sides."""
    pairs = {essay.pair for essay in train} & {essay.pair for essay in held_out}
    texts = {_normal(essay.essay) for essay in train} & {_normal(essay.essay) for essay in held_out}
    if pairs or texts:
        raise BenchmarkError(
            f"{len(pairs)} question pairs and {len(texts)} texts are on both sides: nothing was written"
        )


def _judged(observation: Observation, number: int, protocol: ProtocolName) -> JudgedEssay | str:
    item, reply = observation.item, observation.reply
    if reply.status == "error":
        return "error"
    if reply.judge is None or not reply.text:
        return "no essay"
    try:
        judgement = parse_judgement(reply.judge.get("text"), protocol=protocol)
    except JudgementError:
        return "judge failed"
    return JudgedEssay(
        essay_id=f"{number}/{item.item_id}/{reply.sample}",
        pair=item.cluster,
        axis=item.axis,
        direction=(item.groups[0], item.groups[1]),
        group1=item.meta["group1"],
        group2=item.meta["group2"],
        essay=reply.text,
        judgement=judgement,
    )


def _demand_one(
    protocols: dict[ProtocolName, Path], stamps: dict[tuple[str, str, str], Path], form: JudgeForm | None
) -> None:
    if len(protocols) > 1:
        (first_protocol, first), (other, second), *_ = protocols.items()
        raise BenchmarkError(
            f"{first} is of protocol {first_protocol} and {second} of {other}: their judges get other questions"
        )
    judges = {stamp[:2]: path for stamp, path in stamps.items()}
    if len(judges) > 1:
        (one_judge, first), (other_judge, second), *_ = judges.items()
        what = "another judge" if one_judge[0] != other_judge[0] else "another question to the judge"
        raise BenchmarkError(
            f"{first} ({one_judge[0]}, {one_judge[1][:12]}) and {second} ({other_judge[0]}, {other_judge[1][:12]}): "
            f"{what}: a judge is distilled from one; judge them again by the same"
        )
    if form is None and len(stamps) > len(judges):
        raise BenchmarkError("the strong judge answered partly in text and partly by schema: choose one with --form")
    if form == "schema" and protocols and next(iter(protocols)) != "corrected":
        raise BenchmarkError(f"protocol {next(iter(protocols))} asks its judge in text only: use --form text")


def _demand_both(
    train: Sequence[JudgedEssay], held_out: Sequence[JudgedEssay], split: Split, left_out: Counter[str]
) -> None:
    if train and held_out:
        return
    which = "for training" if held_out else "held out" if train else "at all"
    why = f" ({', '.join(f'{n} {reason}' for reason, n in left_out.items())} left out)" if left_out else ""
    hint = "; use a share, e.g. --held-out 0.2" if split.held_out == EVAL and (train or held_out) else ""
    raise BenchmarkError(f"no judged essay {which}{why}: give finished runs of {SUITE} with a judge{hint}")


def _normal(text: str) -> str:
    return " ".join(text.casefold().split())


def _finals(essays: Sequence[JudgedEssay]) -> dict[int, int]:
    return dict(sorted(Counter(essay.judgement.final for essay in essays).items()))
