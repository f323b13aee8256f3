"""Counts over planted causes how often each part lies inside its interval, and the largest part is named rightly.

    python -m tools.causes [--seeds 200] [--processes 2] [--gaps]

Prints a table in Markdown. Seeds of a row are its own, so that rows are independent.
"""

import argparse
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

from gateway.features.causes.split import PARTS, Split
from gateway.features.causes.store import PartName
from tools.causes.planted import Gap, World, played, truth

WORLDS: Mapping[str, World] = {
    "judge .15": World(judge=0.5),
    "judge .30": World(judge=1.0),
    "model .10": World(model=0.35),
    "model .20": World(model=0.7),
    "traffic .10": World(traffic=0.35),
    "traffic .20": World(traffic=0.7),
    "application .10": World(application=0.35),
    "application .20": World(application=0.7),
    "model and traffic": World(model=0.7, traffic=0.3),
    "judge and application": World(judge=0.7, application=0.3),
    "traffic and application": World(traffic=0.7, application=0.3),
    "model up, traffic down": World(model=1.2, traffic=-0.5),
}
GAPS: Mapping[str, World] = {
    **{f"{cause} .{size}": World(**{cause: 0.035 * size}, gap=Gap()) for cause in PARTS for size in (20, 30)},
    **{name: world._replace(gap=Gap()) for name, world in WORLDS.items() if "." not in name},
    "model, group 25 %": World(model=0.7, gap=Gap(share=0.25)),
    "model, always both": World(model=0.7, gap=Gap(paired=1.0)),
    "model, conversations apart": World(model=0.7, gap=Gap(is_mixed=False)),
    "model, others against it": World(model=0.5, gap=Gap(reach=-0.5)),
    "model, others alike": World(model=1.2, gap=Gap(reach=0.4)),
}
NONE = "none (false alarms)"
MANY_ALARMS = 30.0
"""Average run length in a world without a cause, so that there are false alarms to count."""
CLEAR = 2.0
"""The largest part must be so many times the next for its name to be counted."""


class Counted(NamedTuple):
    """What came of the seeds of a world."""

    n: int
    """Splits that were told."""
    n_silent: int
    """Seeds without an alarm after the change, or with too little before it."""
    inside: dict[PartName, int]
    n_named: int
    """Splits that name the largest planted part; -1 where none is CLEAR."""


def count(world: World, seeds: Sequence[int], pool: ProcessPoolExecutor) -> Counted:
    """Play a world with each seed and count."""
    planted = truth(world)
    run_length = 10_000.0 if world.has_cause else MANY_ALARMS
    results = list(pool.map(_played, [(seed, world, run_length) for seed in seeds], chunksize=10))
    told = [result for result in results if result is not None]
    inside = dict.fromkeys(PARTS, 0)
    for result in told:
        for part in result.parts:
            inside[part.name] += part.lower - 1e-9 <= planted[part.name] <= part.upper + 1e-9
    sizes = sorted((abs(value), name) for name, value in planted.items())
    is_clear = sizes[-1][0] >= CLEAR * sizes[-2][0] and sizes[-1][0] > 0.0
    named = sum(max(result.parts, key=lambda part: abs(part.value)).name == sizes[-1][1] for result in told)
    return Counted(len(told), len(results) - len(told), inside, named if is_clear else -1)


def _played(arguments: tuple[int, World, float]) -> Split | None:
    seed, world, run_length = arguments
    return played(seed, world, average_run_length=run_length)


def main() -> None:
    """Print a row for each world."""
    parser = argparse.ArgumentParser(prog="python -m tools.causes", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--gaps", action="store_true", help="plant causes of a gap's shift, not of a mean's")
    arguments = parser.parse_args()
    worlds = {**GAPS, NONE: World(gap=Gap())} if arguments.gaps else {**WORLDS, NONE: World()}
    print(f"| planted | told | {' | '.join(PARTS)} | largest named |")
    print("|---|---|" + "---|" * (len(PARTS) + 1))
    total = dict.fromkeys(PARTS, 0)
    n = 0
    with ProcessPoolExecutor(arguments.processes) as pool:
        for number, (name, world) in enumerate(worlds.items()):
            first = 10_000 * (number + 1)
            counted = count(world, range(first, first + arguments.seeds), pool)
            n += counted.n
            for part, inside in counted.inside.items():
                total[part] += inside
            shares = [f"{100 * inside / counted.n:.1f} %" for inside in counted.inside.values()]
            named = "–" if counted.n_named < 0 else f"{100 * counted.n_named / counted.n:.1f} %"
            print(f"| {name} | {counted.n} | {' | '.join(shares)} | {named} |", flush=True)
    print(f"| all | {n} | {' | '.join(f'{100 * inside / n:.1f} %' for inside in total.values())} | |")


if __name__ == "__main__":
    main()
