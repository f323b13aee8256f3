"""Tells damaged states of streams from sound ones by what types cannot say, such as fifty values of weight 0."""

import math

import msgspec

from auditors.metrics.sequential import BETS, LARGEST_BET, ConfidenceSums
from auditors.metrics.weighting import WeightedSums
from auditors.streams.drift import Detector
from auditors.streams.state import StreamState

_SLACK = 1e-6
_SMALLEST_PROBABILITY = 1e-60
"""No draw has a smaller one; the squares of weights relative to it would be 0."""
_LONGEST_REASON = 200

_decoder = msgspec.json.Decoder(StreamState)


def read_state(text: str | bytes) -> StreamState:
    """Return the state in a stored text; one with `damaged` set, and nothing else, where it cannot be used."""
    try:
        state = _decoder.decode(text)
        return StreamState(damaged=state.damaged) if state.damaged else require_sound(state)
    except (ValueError, RecursionError) as exc:  # also UnicodeError and msgspec's errors
        return StreamState(damaged=f"its stored state cannot be used: {exc}"[:_LONGEST_REASON])


def require_sound(state: StreamState) -> StreamState:
    """Return the state. Raises ValueError, saying what is wrong, where no value could be added to it."""
    for sums in (state.sums, state.half, state.before_window, state.above):
        _check_sums(sums)
    _check_confidence(state.low)
    _check_confidence(state.high)
    _require(state.n_cut >= 0 and state.cut_weight >= 0.0, "n_cut or cut_weight is below 0")
    _require(state.least_own >= _SMALLEST_PROBABILITY, "least_own is too small")
    _require(state.largest_weight >= 1.0, "largest_weight is below 1")
    _require(min(state.excluded.values(), default=0) >= 0, "excluded has a count below 0")
    if state.before_window is not None:
        _require(state.before_window.n <= state.sums.n, "before_window has more values than sums")
    if state.detector is not None:
        _check_detector(state.detector)
    if state.block is not None:
        least = min(state.block.group_least, state.block.others_least, state.block.paired_least)
        _require(least >= _SMALLEST_PROBABILITY, "a probability of the block is too small")
        for side in (state.block.group, state.block.others, state.block.group_past, state.block.others_past):
            _require(side.n >= 0 and (side.n == 0 or side.inverse > 0.0), "a side of the block has no weight")
            _require(-_SLACK <= side.weighted <= side.inverse * (1.0 + _SLACK), "a side of the block is outside [0, 1]")
            _require(math.isfinite(side.inverse * side.inverse), "a side of the block has too large a weight")
    return state


def _require(is_so: bool, otherwise: str) -> None:
    if not is_so:
        raise ValueError(otherwise)


def _check_sums(sums: WeightedSums | None) -> None:
    if sums is None:
        return
    most = sums.w * (1.0 + _SLACK)
    _require(sums.n >= 0 and (sums.n == 0) == (sums.w == 0.0), "sums have values without weight, or weight without")
    _require(sums.n == 0 or (sums.w > 0.0 and sums.ww > 0.0), "a sum of weights is not positive")
    _require(-_SLACK <= sums.wy <= most and -_SLACK <= sums.wyy <= most, "sums have a mean outside [0, 1]")


def _check_confidence(sums: ConfidenceSums | None) -> None:
    if sums is None:
        return
    _require(sums.n >= 0 and (sums.n == 0) == (sums.w == 0.0), "bounds have values without weight, or weight without")
    _require(0.0 <= sums.w <= sums.n * (1.0 + _SLACK), "bounds have weights outside (0, 1]")
    _require(-_SLACK <= sums.wy <= sums.w * (1.0 + _SLACK), "bounds have a mean outside [0, 1]")
    _require(0.0 < sums.bet <= LARGEST_BET, "a bet of the bounds is outside (0, 0.75]")
    _require(min(sums.ww, sums.aa, sums.bb, sums.bet_w) >= 0.0, "bounds have a sum of squares below 0")


def _check_detector(detector: Detector) -> None:
    for evidence in (detector.rising, detector.falling):
        _require(len(evidence) == len(BETS), "the detector has another number of bets")
        _require(min(evidence) >= 0.0, "the detector has evidence below 0")
    limits = detector.limits
    _require(0.0 < limits.upper <= 1.0 and 0.0 <= limits.lower < 1.0, "a limit of the detector is outside [0, 1]")
    _require(min(detector.n_seen, detector.next_look, detector.n_begun) >= 0, "the detector has a count below 0")
    _check_sums(detector.window)
    for level in (detector.first, detector.seen, detector.behind_rising.level, detector.behind_falling.level):
        _require(level.n >= 0 and (level.n == 0 or level.w > 0.0), "a level of the detector has no weight")
    _check_confidence(detector.watched)
    for behind in (detector.behind_rising, detector.behind_falling):
        _require(behind.cusum >= 0.0, "the detector has a CUSUM below 0")
        _check_confidence(behind.sums)
