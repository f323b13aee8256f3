"""What the benches call reached or broken: each promise is told from its opposite."""

import msgspec
import pytest

from tools.bench.dead_upstream import CALLERS, Felt, Shares
from tools.bench.gateway.aims import OURS, PEER, verdicts
from tools.bench.gateway.arena import figure
from tools.bench.pacing import Paced
from tools.bench.pool import PACES, Report, faults

FELT = Felt(fleet="none", requests=9000, failures={}, p50_seconds=0.03, p99_seconds=0.05, max_seconds=0.09, slow=0)
SHARES = Shares(weights=[1.0, 3.0], requests=[2450, 7550], worst_ratio=0.02)
AS_MEASURED = Report(
    pacing=[Paced(PACES[0], 596, {})],
    dead=[
        FELT,
        msgspec.structs.replace(FELT, fleet="refusing", p99_seconds=0.06),
        msgspec.structs.replace(FELT, fleet="black-holed", slow=6, max_seconds=1.14),
        msgspec.structs.replace(FELT, fleet="killed", failures={"502": CALLERS}),
    ],
    balance=[SHARES],
)


def test_a_good_run_of_the_pool() -> None:
    """What docs/evidence/reliability.md reports breaks no promise."""
    assert faults(AS_MEASURED) == []


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"pacing": [Paced(PACES[0], 596, {"502": 1})]}, "pace our own limit"),
        ({"dead": [FELT, msgspec.structs.replace(FELT, fleet="refusing", p99_seconds=0.11)]}, "p99 0.110 s"),
        ({"dead": [FELT, msgspec.structs.replace(FELT, fleet="black-holed", failures={"504": 1})]}, "504"),
        ({"dead": [FELT, msgspec.structs.replace(FELT, fleet="killed", failures={"502": CALLERS + 1})]}, "502"),
        ({"dead": [FELT, msgspec.structs.replace(FELT, fleet="stopped", slow=CALLERS + 1)]}, "more than 0.5 s"),
        ({"balance": [msgspec.structs.replace(SHARES, worst_ratio=0.051)]}, "5.1% off"),
    ],
)
def test_a_bad_run_of_the_pool(changed: dict[str, object], said: str) -> None:
    """Each promise that is broken is one line."""
    (fault,) = faults(msgspec.structs.replace(AS_MEASURED, **changed))
    assert said in fault


@pytest.mark.parametrize(("micros", "is_met"), [(10.7, True), (11.0, False)])
@pytest.mark.parametrize("streams", [200, 1000])
def test_an_event_is_judged_at_both_numbers_of_streams(streams: int, micros: float, is_met: bool) -> None:
    """A miss at a thousand streams is not covered by two hundred."""
    figures = [
        figure("streams", f"{streams} connections", who, "cpu per event", "us", [value])
        for who, value in ((OURS, micros), (PEER, 10.8))
    ]
    judged = {one.what: one.is_met for one in verdicts(figures) if "per event" in one.what}
    assert list(judged.values()).count(None) == 1
    assert judged[f"cpu per event against {PEER}, {streams:,} streams"] is is_met
