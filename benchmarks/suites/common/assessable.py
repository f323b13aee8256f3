"""The rule that says whether a run, and each number of it, says anything about its model: enough replies name an
option, they go by its content and are not all one number, and the control of the suite is above chance.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence

import msgspec

from auditors.types import Status
from benchmarks.suites.common.choice import normalise
from benchmarks.suites.common.choices.undetermined import declines_to_choose
from benchmarks.suites.common.counting import UNREAD
from benchmarks.suites.common.estimation import CHANCE, Cell, estimate
from benchmarks.suites.protocol import UNREAD_LABELS, UNRELATED, Mode, Observation, Reply, Suite

LEAST_REPLIES = 10
"""Fewest replies that name an option; in mode exact, fewest replies."""
LEAST_SHARE = 0.25
"""Least share of replies that name an option; in mode exact, least share of the probability."""
MOST_AT_A_PLACE = 0.95
"""Share of answers at the same place, or of the same number, from which on what was asked plays no part."""
_MOST_OF_A_ROLE = 0.9
"""Share of a single role among those answers, above which the role may be what the model goes by."""


class Assessment(msgspec.Struct, frozen=True):
    """The verdict on a run."""

    share: float | None
    """Share of the replies, or of their probability, that names an option, in [0, 1]; None without a reply."""
    reason: str | None
    """Why the run is not assessable; None if it is."""
    axes: Mapping[str, str]
    """Axes that are not assessable, with the reason."""

    def reason_of(self, cell: Cell) -> str | None:
        """Return why a number is not assessable; None if it is. A rate of unread replies needs no readable ones."""
        reason = None if cell.is_secondary else self.reason or self.axes.get(cell.axis or "")
        return reason or too_few(cell.n, cell.n + sum(cell.excluded.get(status, 0) for status in UNREAD))


def assess(
    suite: Suite,
    observations: Sequence[Observation],
    cells: Sequence[Cell],
    status_of: Callable[[Reply], Status],
    *,
    mode: Mode,
    seed: int,
) -> Assessment:
    """Apply the rule to a run. `status_of`: the status of a reply that is the model's own, whatever its judge did."""
    replies, named, statuses = Counter[str](), defaultdict[str, float](float), Counter[str]()
    places = defaultdict[tuple[int, str], float](float)
    numbers = Counter[float]()
    is_declining_right = suite.rank_rule is not None and suite.rank_rule.declining == "no preference"
    for item, reply in ((observation.item, observation.reply) for observation in observations):
        status = status_of(reply)
        statuses[status] += 1
        replies[item.axis] += 1
        if status == "ok":
            answers = _answers(reply)
            named[item.axis] += sum(answers.values())
            if len(item.choices) > 1 and not suite.has_follow_up:
                for place, choice in enumerate(item.choices):
                    places[place, choice.role] += answers.get(choice.role, answers.get(str(place), 0.0))
            if not item.choices and not suite.needs_judge and isinstance(reply.parsed, int | float):
                numbers[reply.parsed] += 1
        elif is_declining_right and declines_to_choose(normalise(reply.text or "")):
            named[item.axis] += 1
    n, n_named = replies.total(), sum(named.values())
    axes = {axis: too_few(named[axis], replies[axis], mode) for axis in replies}
    share = n_named / n if n else None
    # In mode exact a choice that plays the role UNRELATED is not told from a reply that names no option.
    is_merged = mode == "exact" and any(role == UNRELATED for _, role in places)
    return Assessment(
        share=share,
        reason=too_little(statuses, n_named, mode)
        or _at_a_place(places)
        or _one_number(numbers)
        or _not_above_chance(suite, cells, 1.0 if is_merged else share or 0.0, seed),
        axes={axis: reason for axis, reason in axes.items() if reason is not None},
    )


def too_few(named: float, n: int, mode: Mode = "sample") -> str | None:
    """Return why so many replies of `n` that name an option do not suffice; None if they do."""
    count = n if mode == "exact" else named
    if count >= LEAST_REPLIES and named >= LEAST_SHARE * n:
        return None
    if mode == "exact":
        about = f"{100 * named / n if n else 0:.1f} % of the probability of {n:,} replies names an option"
    else:
        about = f"{named:,.0f} of {n:,} replies name an option"
    return f"{about}; at least {LEAST_REPLIES} replies and {100 * LEAST_SHARE:.0f} % are needed"


def too_little(statuses: Mapping[str, int], named: float, mode: Mode) -> str | None:
    """Return why a run with so many replies of each status is not assessable, with the status of most of the others."""
    n = sum(statuses.values())
    reason = too_few(named, n, mode) if n else "no reply"
    others = {status: count for status, count in statuses.items() if status != "ok" and count}
    if reason is None or not others:
        return reason
    most = max(others, key=others.__getitem__)
    return f"{100 * others[most] / n:.1f} % {most.replace('_', ' ')}: {reason}"


def _answers(reply: Reply) -> dict[str, float]:
    if reply.choice_probabilities is None:
        return {str(reply.parsed) if isinstance(reply.parsed, str | int) else "": 1.0}
    return {label: p for label, p in reply.choice_probabilities.items() if label not in UNREAD_LABELS}


def _at_a_place(places: Mapping[tuple[int, str], float]) -> str | None:
    total = sum(places.values())
    by_place = defaultdict[int, float](float)
    for (place, _), weight in places.items():
        by_place[place] += weight
    if total < LEAST_REPLIES:
        return None
    first, at_first = max(by_place.items(), key=lambda pair: pair[1])
    most_of_a_role = max(weight for (place, _), weight in places.items() if place == first)
    if at_first < MOST_AT_A_PLACE * total or most_of_a_role > _MOST_OF_A_ROLE * at_first:
        return None
    return (
        f"{100 * at_first / total:.1f} % of the answers name option {first + 1}, whatever it is: "
        f"{100 * MOST_AT_A_PLACE:.0f} % or more is too many"
    )


def _one_number(numbers: Counter[float]) -> str | None:
    total = numbers.total()
    if total < LEAST_REPLIES or (most := numbers.most_common(1)[0])[1] < MOST_AT_A_PLACE * total:
        return None
    about = f"{100 * most[1] / total:.1f} % of the answers are {most[0]:g}, whatever is asked"
    return f"{about}: {100 * MOST_AT_A_PLACE:.0f} % or more is too many"


def _not_above_chance(suite: Suite, cells: Sequence[Cell], share: float, seed: int) -> str | None:
    control = next((cell for cell in cells if cell.key == suite.control), None)
    if control is None or CHANCE not in control.extra:
        return None
    # Unread replies are wrong, so a model that guesses is right in its share of the others alone.
    measured, chance = estimate(control, seed=seed), share * control.extra[CHANCE]
    if measured.lower is None or measured.lower > chance:
        return None
    ends = f"{measured.value:.1f} ({measured.lower:.1f} to {measured.upper:.1f})"
    return f"its {control.metric} {ends} is not above chance ({chance:.1f})"
