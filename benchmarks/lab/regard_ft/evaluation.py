"""evaluation.json: a base model and its checkpoints side by side."""

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

import msgspec

from auditors.json_errors import UNREADABLE
from auditors.types import Estimate
from benchmarks.errors import BenchmarkError, writing
from benchmarks.lab.regard_ft.effects import Effect, Holdings, adjusted, effects, numbers
from benchmarks.lab.regard_ft.reduction import Reduction
from benchmarks.lab.training import artefact
from benchmarks.suites.protocol import Suite

FILE, ADAPTERS = "evaluation.json", "adapters.json"


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """The published gap and gain in points, for reference; the paper prints no other base model or absolute value."""

    reduction: float = 0.346
    accuracy_gain: float = 1.4
    source: str = "Jeung et al. 2025, REGARD-FT (protocols 2.13)"


class Evaluated(msgspec.Struct, frozen=True, kw_only=True):
    """One model; the base model is step 0 and has neither effects nor reductions."""

    model: str
    step: int
    adapter_sha256: str | None
    numbers: dict[str, Estimate]
    effects: list[Effect] = []
    reductions: dict[str, Reduction] = {}

    def effect(self, name: str) -> Effect | None:
        return next((effect for effect in self.effects if effect.name == name), None)


class About(msgspec.Struct, frozen=True, kw_only=True):
    """The questions asked and the models that answered and judged."""

    base_model: str
    base_fingerprint: str
    training_sha256: str
    own_axes: tuple[str, ...] = ()
    """Axes of the user's own pairs that it was trained on; none for our pairs."""
    own_sha256: str | None = None
    """sha256 of the user's file."""
    recipe_sha256: str
    suites: dict[str, str]
    """Version, by name."""
    judge_model: str
    judge_fault: str | None
    """Why the judge is not validated; None where it is."""
    data: str
    """Data of BBQ: canonical, or embedded, which is not comparable."""
    part: str
    """Part of the long-text test: full or eval."""
    axes: tuple[str, ...] | None
    limit: int | None
    seed: int


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    schema: int = 1
    biasgate: str
    about: About
    published: Published | None = Published()
    """None for a training on own pairs, with which no published number compares."""
    models: list[Evaluated]

    @property
    def base(self) -> Evaluated:
        return self.models[0]

    @property
    def checkpoints(self) -> list[Evaluated]:
        return self.models[1:]


class Adapters(msgspec.Struct, frozen=True, kw_only=True):
    """adapters.json: what the runs of a directory are of, so that none of another training is taken for one."""

    base_fingerprint: str
    adapters: dict[str, str]
    """sha256 of the weights, by the name under which a checkpoint is served."""


def demand_same_adapters(out: Path, now: Adapters) -> None:
    """Record the checkpoints in `out`. BenchmarkError: its runs are of another base model or of other checkpoints."""
    before = artefact.decoded(out / ADAPTERS, Adapters, "choose another --out")
    if before is None and out.is_dir() and any(out.iterdir()):
        raise BenchmarkError(f"{out}: the directory is not empty and holds no evaluation: choose another --out")
    if before is not None and before.base_fingerprint != now.base_fingerprint:
        raise BenchmarkError(f"{out}: holds runs of another base model: choose another --out")
    digests = {} if before is None else before.adapters
    for name, digest in now.adapters.items():
        if digests.get(name, digest) != digest:
            raise BenchmarkError(f"{out}: holds runs of another {name}, trained again since: choose another --out")
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
    artefact.write(out / ADAPTERS, msgspec.structs.replace(now, adapters={**digests, **now.adapters}))


def evaluate(about: About, base: Holdings, tuned: Mapping[int, tuple[str, str, Holdings]], bbq: Suite) -> Evaluation:
    """`about`: see `About`. `tuned`: by step, checkpoint name, weights' sha256, runs. `bbq`: the suite answered."""
    seed = about.seed
    by_step = {step: effects(base, holdings, bbq, seed=seed) for step, (_, _, holdings) in tuned.items()}
    changes = adjusted({step: changed for step, (changed, _) in by_step.items()})
    models = [
        Evaluated(model=about.base_model, step=0, adapter_sha256=None, numbers=numbers(base, bbq, seed=seed)),
        *(
            Evaluated(
                model=name,
                step=step,
                adapter_sha256=digest,
                numbers=numbers(holdings, bbq, seed=seed),
                effects=changes[step],
                reductions=by_step[step][1],
            )
            for step, (name, digest, holdings) in sorted(tuned.items())
        ),
    ]
    published = Published() if about.own_sha256 is None else None
    return Evaluation(biasgate=version("biasgate"), about=about, published=published, models=models)


def read(path: Path) -> Evaluation:
    """Return the evaluation of a directory. Raises BenchmarkError if it has no evaluation that can be read."""
    try:
        evaluation = msgspec.json.decode((path / FILE).read_bytes(), type=Evaluation)
    except FileNotFoundError as exc:
        hint = "complete it: run mitigate regard-ft evaluate again" if (path / ADAPTERS).exists() else "none is there"
        raise BenchmarkError(f"{path}: no finished evaluation ({FILE}): {hint}") from exc
    except (OSError, *UNREADABLE) as exc:
        raise BenchmarkError(f"{path / FILE}: cannot be read: {exc}") from exc
    if not evaluation.models:
        raise BenchmarkError(f"{path / FILE}: holds no model: evaluate again")
    return evaluation
