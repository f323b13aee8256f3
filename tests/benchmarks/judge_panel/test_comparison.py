"""What a panel's verdicts amount to, from verdicts with planted differences."""

from typing import Any

import numpy as np
import pytest

from auditors.labelling.forms import Reading
from benchmarks.lab.judge_panel.asking import Panelled, Verdicts
from benchmarks.lab.judge_panel.comparison import Panel, compare
from benchmarks.suites.protocol import Item, Reply
from tests.support.tables import ROW

WRITERS = ("a", "b")


def panelled(n_clusters: int) -> list[Panelled]:
    """One reply of each writer to each question, and to every third a second one."""
    found = []
    for cluster in range(n_clusters):
        item = Item(item_id=f"i{cluster}", messages=(), axis="gender", groups=(), cluster=f"c{cluster}")
        for writer in WRITERS:
            for sample in range(1 + (cluster % 3 == 0)):
                reply = Reply(item_id=item.item_id, sample=sample, text="t", status="ok")
                found.append(Panelled(writer=writer, item=item, reply=reply, cluster=item.cluster))
    return found


def drawn(random: np.random.Generator, n_clusters: int, spared: float) -> Panel:
    """Judge a calls its own writing biased less often by `spared`; how hard a question is moves all of its replies."""
    found = panelled(n_clusters)
    hardness = {f"c{number}": float(random.beta(2, 2)) for number in range(n_clusters)}

    def verdicts(judge: str) -> Verdicts:
        first = []
        for one in found:
            less = spared if judge == one.writer == "a" else 0.0
            p = (0.3 + 0.4 * hardness[one.cluster]) - less
            first.append(Reading(status="ok", value=float(random.random() < p)))
        return Verdicts(judge=judge, first=[*first], swapped=None, n_failed=0)

    return compare(found, [verdicts(judge) for judge in ("a", "c", "d")])


def said(*values: float | None, judge: str = "a", swapped: Any = None) -> Verdicts:
    def reading(value: float | None) -> Reading | None:
        return None if value is None else Reading(status="ok", value=value)

    again = None if swapped is None else [reading(value) for value in swapped]
    return Verdicts(judge=judge, first=[reading(value) for value in values], swapped=again, n_failed=0)


def test_a_judge_that_spares_its_own_is_found() -> None:
    """The planted .3 lies in the interval and 0 does not; of a judge that spares nobody 0 does."""
    random = np.random.default_rng(5)
    [own] = drawn(random, 150, 0.3).own
    assert own.judge == "a"
    assert own.interval is not None
    assert own.interval.lower > 0.0
    assert own.interval.lower <= 0.3 <= own.interval.upper
    [fair] = drawn(random, 150, 0.0).own
    assert fair.interval is not None
    assert fair.interval.lower <= 0.0 <= fair.interval.upper


@pytest.mark.long
def test_the_interval_of_self_preference_holds(record_property: Any) -> None:
    """In 93 to 98 % of 300 panels whose replies hang together by question."""
    random = np.random.default_rng(11)
    held = 0
    for _ in range(300):
        [own] = drawn(random, 60, 0.2).own
        assert own.interval is not None
        held += own.interval.lower <= 0.2 <= own.interval.upper
    record_property(ROW, f"coverage  judge panel, self-preference          {100 * held / 300:5.1f} % of 300 held")
    assert 0.93 <= held / 300 <= 0.98


def test_what_cannot_be_read_is_counted_and_in_no_mean() -> None:
    """A reply that one judge could not score is in no pair with it, and in no comparison of its own writing."""
    found = panelled(2)
    panel = compare(found, [said(0.0, None, 1.0, 1.0, 0.0, 0.0), said(0.0, 1.0, 1.0, None, 0.0, 1.0, judge="c")])
    assert panel.n_unread == {"a": 1, "c": 1}
    [pair] = panel.pairs
    assert (pair.exact.n_items, pair.exact.value) == (4, 0.75)
    assert {one.judge: one.biased.n_items for one in panel.called["a"]} == {"a": 2, "c": 3}


def test_what_is_undefined_says_why() -> None:
    """Judges that always say the same, a panel on few questions, a judge whose writing alone there is."""
    found = panelled(4)
    panel = compare(found, [said(*[0.0] * len(found)), said(*[0.0] * len(found), judge="c")])
    assert (panel.alpha.value, panel.pairs[0].kappa.value) == (None, None)
    assert panel.pairs[0].exact.interval is None
    own_only = [one for one in found if one.writer == "a"]
    alone = compare(own_only, [said(*[1.0] * len(own_only)), said(*[0.0] * len(own_only), judge="c")])
    assert alone.own == []
    assert (alone.called["a"][0].biased.value, alone.called["a"][0].biased.interval) == (1.0, None)
