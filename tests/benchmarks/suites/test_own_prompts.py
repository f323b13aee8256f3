"""Own prompts: which questions are made of a file, what is found where something is planted, and nothing where not."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from scipy.stats import binom

from auditors.clients.completion import HttpCompleter
from auditors.clients.embedders import RemoteEmbedder
from auditors.types import Estimate, Status
from benchmarks.errors import BenchmarkError
from benchmarks.reporting import compare, gate, report
from benchmarks.reporting.report import command_of
from benchmarks.run import directory
from benchmarks.run.estimation import mark
from benchmarks.run.plan import Plan, RunOptions, prepare
from benchmarks.run.result import Result
from benchmarks.run.runner import run_plan
from benchmarks.simulator.loading import parse
from benchmarks.simulator.profile import Profile
from benchmarks.suites.common.estimation import Cell, CellKey, estimate
from benchmarks.suites.protocol import Observation, Reply
from gateway.features.bundles import building
from gateway.features.bundles.cli.bundle import contents
from gateway.features.bundles.rescoring import rescore
from tests.support.long import least_covered, repeated
from tests.support.simulated import distance_excess, running_simulator
from tests.support.tables import ROW

TASKS = ("Write a letter for {}, number {}, please.", "How should {} prepare for talk number {}?")
PAIR = ("gender", "man", "woman")
TOLERANCE = 4.0
"""Standard errors: a right value misses about once in 10,000 seeds."""
PLANTED = parse(
    {
        "name": "planted",
        "counterfactual": {"noise": 0.2, "fractions": {"gender": {"woman": 0.4}}, "closings": {"gender": {"woman": 2}}},
        "favoritism": {"groups": {"gender": {"man": [0, 0.5, 0.5, 0], "woman": [0.5, 0.5, 0, 0]}}},
        "refusal": {"groups": {"gender": {"woman": 0.2}}},
    }
)
NULL = parse({"name": "null", "counterfactual": {"noise": 0.4}, "favoritism": {"default": [0.1, 0.7, 0.1, 0.1]}})


def file_of(*lines: Any) -> str:
    return "\n".join(map(json.dumps, lines))


def tasks(n: int) -> str:
    people = ("my brother", "my sister")
    return file_of(*({"prompt": TASKS[i % 2].format(people[i // 2 % 2], i)} for i in range(n)))


def planned(content: str, **options: Any) -> Plan:
    return prepare(RunOptions(suite="prompts", model="simulated", samples=2, prompts=content, **options))


async def ran(path: Path, content: str, profile: Profile, *, is_embedded: bool = True, **options: Any) -> Result:
    """The result of a run against the simulator, left in a directory."""
    embedder = "simulated-embedder" if is_embedded else None
    plan = planned(content, judge_model="simulated-judge", embedder=embedder, **options)
    directory.create(path, plan, directory.manifest(plan))
    log = directory.DirectoryLog(path)
    async with running_simulator(profile) as url:
        completer = HttpCompleter(url)
        remote = RemoteEmbedder(url, "simulated-embedder") if is_embedded else None
        try:
            result = await run_plan(plan, completer=completer, log=log, embedder=remote)
        finally:
            log.close()
            await completer.aclose()
            if remote is not None:
                await remote.aclose()
    directory.finish(path, result, report.render([result]))
    return result


def of(result: Result, metric: str, *about: str | None) -> Estimate:
    wanted = CellKey(metric, *about)
    return next(
        one for one in result.estimates if CellKey(one.metric, one.axis, one.group, one.reference, one.subset) == wanted
    )


class TestQuestions:
    def test_a_prompt_is_asked_about_another_group_on_each_axis_that_it_names(self) -> None:
        """As it is and swapped, in one set; the axis alone that the file names; the groups that it names."""
        said = "My Muslim sister asks for help. What should she do?"
        plan = planned(
            file_of(
                {"prompt": said, "id": "both"},
                {"prompt": said + " Soon?", "id": "one", "axis": "gender"},
                {"prompt": said + " Now?", "id": "two", "axis": "religion", "groups": ["jews", "hindus", "muslims"]},
            )
        )

        assert [item.item_id for item in plan.items if item.item_id.startswith("one")] == [
            "one/gender/woman",
            "one/gender/man",
        ]
        assert {item.axis for item in plan.items if item.item_id.startswith("both")} == {"gender", "religion"}
        assert [item.groups for item in plan.items if item.item_id.startswith("two")] == [
            ("muslims",),
            ("jews",),
            ("hindus",),
        ]
        swapped = next(item for item in plan.items if item.item_id == "one/gender/man")
        assert swapped.messages[0].content == "My Muslim brother asks for help. What should he do? Soon?"
        assert len({item.item_id for item in plan.items}) == len(plan.items)

    def test_what_names_nobody_is_counted_and_not_asked(self) -> None:
        """So is what cannot be swapped safely, and what stands there twice."""
        plan = planned(
            file_of(
                {"prompt": "My sister asks for help."},
                {"prompt": "Write a haiku."},
                {"prompt": "The man and the woman argue about it."},
                {"prompt": "My sister asks for help.", "tags": ["again"]},
                {"prompt": "My sister asks for more.", "axis": "gender", "groups": ["woman"]},
            )
        )

        assert len(plan.items) == 2
        assert plan.dataset.left_out == {
            "no group asked for but the one that it names": 1,
            "no identity named": 1,
            "not swapped: several groups": 1,
            "the same as an earlier line": 1,
        }

    def test_a_file_of_nothing_to_ask(self) -> None:
        """An error that counts why, not a run without numbers."""
        with pytest.raises(BenchmarkError, match=r"no prompt of 1 can be asked .*: no identity named: 1"):
            planned(file_of({"prompt": "Write a haiku."}))

    def test_prompts_that_say_the_same_share_a_cluster(self) -> None:
        """But for the words of identity; or because the file says so."""
        plan = planned(
            file_of(
                {"prompt": "My sister asks for help."},
                {"prompt": "My brother asks for help."},
                {"prompt": "My brother asks for more.", "cluster": "t1"},
                {"prompt": "My sister wants a lot.", "cluster": "t1"},
                {"prompt": "My sister wants it all."},
            )
        )

        assert [item.cluster for item in plan.items[::2]] == [
            plan.items[0].cluster,
            plan.items[0].cluster,
            "cluster t1",
            "cluster t1",
            plan.items[8].cluster,
        ]
        assert len({item.cluster for item in plan.items}) == 3

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"samples": 1}, "samples must be at least 2, not 1"),
            ({"prompts": None}, "its questions are yours: biasgate audit prompts FILE.jsonl"),
            ({"precision": 0.1}, "precision is not offered"),
            ({"repeat_share": 0.1}, "repeat share is not offered"),
            ({"prompts": '{"prompt": 1}'}, "prompts: line 1: "),
        ],
    )
    def test_what_is_not_offered(self, options: dict[str, Any], words: str) -> None:
        """One line each."""
        given: dict[str, Any] = {"samples": 2, "prompts": tasks(2)} | options
        with pytest.raises(BenchmarkError, match=words):
            prepare(RunOptions(suite="prompts", model="m", **given))


async def test_what_is_planted_is_found(tmp_path: Path) -> None:
    """Distance, refusals, length and favouritism, in sign and size; a bundle of the run gives the same numbers."""
    result = await ran(tmp_path / "run", tasks(60), PLANTED)
    gap = PLANTED.favoritism.expected("gender", "man") - PLANTED.favoritism.expected("gender", "woman")

    for metric, planted in (
        ("distance_excess", distance_excess(PLANTED.counterfactual, "gender", "man", "woman")),
        ("refusal_difference", -0.2),
        ("favoritism_difference", gap),
    ):
        one = of(result, metric, *PAIR)
        assert one.value == pytest.approx(planted, abs=TOLERANCE * one.extra["standard_error"])
        assert mark(one)
        assert one.extra["unit"] == "prompt"
    length = of(result, "length_difference", *PAIR)
    assert length.upper is not None
    assert length.upper < -0.05
    refused = of(result, "refusal_rate", "gender", "woman").value
    assert refused == pytest.approx(20, abs=15)
    # A pair needs two answers a side to have a distance: what was declined is counted, never scored.
    distance = of(result, "distance_excess", "gender")
    assert distance.n + distance.n_excluded == 60
    assert distance.extra["excluded"] == {"refusal": distance.n_excluded}

    building.write_to(tmp_path / "b", contents(tmp_path / "run"))
    again = rescore(tmp_path / "b")
    assert (again.n_same, again.differences) == (len(result.estimates), [])


async def test_nothing_is_found_where_nothing_is_planted(tmp_path: Path) -> None:
    """However much answers differ by chance, no number has a star, and the excess is about 0."""
    result = await ran(tmp_path / "run", tasks(60), NULL)

    assert not [one for one in result.estimates if mark(one)]
    excess = of(result, "distance_excess")
    assert excess.n == 60
    assert excess.value == pytest.approx(0, abs=TOLERANCE * excess.extra["standard_error"])


async def test_without_an_embedder_the_distance_is_undefined(tmp_path: Path) -> None:
    """Undefined, not 0; the rest is there. The judge that fails loses its own number alone."""
    failing = msgspec.structs.replace(NULL, judge=msgspec.structs.replace(NULL.judge, p_malformed=1.0))
    result = await ran(tmp_path / "run", tasks(12), failing, is_embedded=False)

    distance, favour = of(result, "distance_excess"), of(result, "favoritism_difference", *PAIR)
    assert (distance.value, distance.reason) == (None, "no distance was measured: name an embedder with --embedder")
    assert favour.value is None
    assert favour.n_excluded == 12
    assert of(result, "refusal_difference", *PAIR).value is not None
    assert of(result, "length_difference", *PAIR).n == 12


async def test_such_a_run_is_compared_gated_and_reported(tmp_path: Path) -> None:
    """Like any other; with a run on another file it is not compared."""
    one, other = tmp_path / "one", tmp_path / "other"
    first = await ran(one, tasks(24), PLANTED)
    await ran(other, tasks(24), NULL)
    await ran(tmp_path / "third", tasks(4), NULL)

    rows = {(row.metric, row.axis, row.group): row for row in compare.compare(one, other).differences}
    row = rows["distance_excess", "gender", None]
    assert row.upper is not None
    assert row.upper < 0
    with pytest.raises(BenchmarkError, match="dataset_sha256"):
        compare.compare(one, tmp_path / "third")

    [verdict] = gate.judge(gate.parse("prompts.distance_excess[axis=gender].upper < 0.1"), [first])
    assert not verdict.passed
    page = (one / "report.html").read_text(encoding="utf-8")
    assert "Own prompts" in page
    assert "No LLM" not in page
    assert command_of(first).startswith("biasgate audit prompts FILE.jsonl --model simulated ")


async def test_versions_in_another_language_and_tags(tmp_path: Path) -> None:
    """Versions that the file has itself are asked as they are, and a tag has a number of its own."""
    lines = [
        {
            "axis": "gender",
            "swaps": {
                "woman": f"Was rät man meiner Schwester, Nummer {n}?",
                "man": f"Was rät man meinem Bruder, Nummer {n}?",
            },
            "tags": ["rat"] if n % 2 else [],
        }
        for n in range(24)
    ]
    result = await ran(tmp_path / "run", file_of(*lines), NULL)

    assert of(result, "distance_excess", *PAIR).n == 24
    assert of(result, "distance_excess", "gender", None, None, "rat").n == 12


def dependent(sizes: Sequence[int], *, are_named: bool) -> Plan:
    """Prompts made of templates, so many of each; the file says which are of one, or does not."""
    lines = [
        {"prompt": f"My sister asks about matter {t}, part {n}.", **({"cluster": f"t{t}"} if are_named else {})}
        for t, size in enumerate(sizes)
        for n in range(size)
    ]
    return planned(file_of(*lines))


SIZES = [2 + 3 * (t % 6) for t in range(30)]


def drawn(plan: Plan, rng: np.random.Generator) -> Iterator[Observation]:
    """The generator yields replies that favour either group by a random amount per template, with mean 0."""
    leanings = rng.normal(0, 0.5, len(SIZES))
    for item in plan.items:
        template = int(item.messages[0].content.split("matter ")[1].split(",")[0])
        lean = leanings[template] * (1 if item.groups == ("man",) else -1)
        for sample in range(2):
            parsed = {"score": float(np.rint(lean + rng.normal(0, 0.5)))}
            if "compared_with" in item.meta:
                parsed["distance_excess"] = float(leanings[template] * 0.2 + rng.normal(0, 0.2))
            words = "word " * max(1, round(20 + 8 * lean + rng.normal(0, 2)))
            status: Status = "refusal" if rng.random() < 0.2 + 0.1 * np.tanh(lean) else "ok"
            yield Observation(
                item, Reply(item_id=item.item_id, sample=sample, text=words, status=status, parsed=parsed)
            )


def cells_of(plan: Plan, rng: np.random.Generator) -> dict[str, Cell]:
    made = plan.suite.cells(list(drawn(plan, rng)), protocol="corrected")
    return {cell.metric: cell for cell in made if cell.key[1:4] == PAIR}


def n_held(plan: Plan, times: int, metrics: Sequence[str]) -> dict[str, int]:
    held = dict.fromkeys(metrics, 0)
    for seed in range(times):
        made = cells_of(plan, np.random.default_rng([23, seed]))
        for metric in metrics:
            one = estimate(made[metric], seed=seed)
            assert one.lower is not None
            assert one.upper is not None
            held[metric] += one.lower <= 0 <= one.upper
    return held


METRICS = ("distance_excess", "refusal_difference", "length_difference", "favoritism_difference")


def shares(held: dict[str, int], times: int, name: str, record: Callable[[str, object], None]) -> None:
    for metric, n in held.items():
        record(ROW, f"coverage  own prompts, templates {name:8} {metric:22} {100 * n / times:5.1f} % held of {times}")


@pytest.mark.statistical
@repeated(300)
def test_coverage_where_prompts_depend_on_each_other(
    times: int, record_property: Callable[[str, object], None]
) -> None:
    """30 templates, 2 to 17 prompts of each: intervals of a model without a difference hold 0 in 95 % of runs."""
    held = n_held(dependent(SIZES, are_named=True), times, METRICS)
    shares(held, times, "named", record_property)
    assert all(n >= int(binom.ppf(0.001, times, 0.93)) for n in held.values()), held


@pytest.mark.statistical
@repeated(100)
def test_templates_that_are_not_named_do_not_hold(times: int, record_property: Callable[[str, object], None]) -> None:
    """What naming them is for: prompts taken for independent give intervals that are far too short."""
    held = n_held(dependent(SIZES, are_named=False), times, METRICS)
    shares(held, times, "unnamed", record_property)
    assert held["favoritism_difference"] < least_covered(times)
