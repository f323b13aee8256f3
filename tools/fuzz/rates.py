"""Target: stated sampling rates, from the readers of the doors to the state of a stream and back from JSON.

A rate is read, rejected in a line or ignored. What is read lies in [the smallest rate, 1]; each state that it leads to
has finite numbers only, is read as it was written, lets no exchange weigh more than its share, and its bounds lie in
[0, 1]. A stored state that is changed is read as a sound one, which then takes another value, or as a damaged one.
"""

import contextlib
import json
import math
from typing import Any

import msgspec

from auditors.streams.drift import DriftSettings
from auditors.streams.estimates import bounds_of, missing_share
from auditors.streams.soundness import read_state, require_sound
from auditors.streams.state import StreamState, miss_gap, record, record_gap
from auditors.types import JudgeStamp, Measurement
from gateway.errors import RequestError
from gateway.features.ingest import litellm, otlp, pairs
from gateway.features.ingest.config import MIN_SAMPLING_RATE
from gateway.features.ingest.rates import Rates
from gateway.features.ingest.received import Sent
from tools.fuzz.target import Broken

SETTINGS = DriftSettings(reference_window=4)
JUDGE = JudgeStamp(model="j", prompt_sha256="ab" * 32)
ASKED, ANSWER = [{"role": "user", "content": "Who leads?"}], {"choices": [{"message": {"content": "Anyone."}}]}
OWN_RATES = (1.0, 0.05, 1e-12)
MOST_LINES = 40


class StatedRates:
    """Lines: a JSON value is a rate by every door, `th` and text a threshold, `#` and text a stored state."""

    seeds = (
        b'0.5\n1\n0.001\n1e-160\n5e-324\n-0.0\nNaN\n1e400\ntrue\n"0.5"\n[0.5]\nnull\n1000000000000000000000000',
        b"th0\nth8\nthfffffffffffff\nthffffffffffffff\nth-f\nth\nth000000000000000\nthC\n0.25\n0.25\n0.25\n1",
        b'1\n1\n1\n0.0009765625\n1\n1\n1\n"0.0009765625"\n' + b"0.0009765625\n" * 30,
        b'#{"sums": {"n": 3, "w": 1e160, "ww": null}}\n#{"sums": {"n": 1, "w": 2.0, "ww": 4.0, "wy": 1.0, "wyy": 1.0}}',
        b'#{"low": [3, 2.0, 1.0, 1.5, 1.0, 1.0, 1.0, 0.5, 0.1, 0.1, 0.1, 0.5], "least_own": 0.0}\n#{"damaged": "x"}',
        b'#{"block": {"group": [1, 2.0, 1.0, null, null], "group_least": 1e-300}, "largest_weight": 1024.0}\n#{',
    )
    tokens = (
        *(b"1e-160", b"1e-17", b"5e-324", b"0.0009765625", b"1e400", b"-0.0", b"NaN", b"Infinity", b"true", b"null"),
        *(b"th", b"fffffffffffff", b"#{", b'"sums"', b'"low"', b'"detector"', b'"rising"', b'"block"', b'"n"', b'"w"'),
        *(b'"ww"', b'"least_own"', b'"largest_weight"', b"1e200", b"1e308", b"0", b"-1", b"[]", b"}", b"\n", b'"0.5"'),
    )

    def check(self, data: bytes) -> None:
        states = dict.fromkeys(("single", "gap"), StreamState())
        for number, line in enumerate(data.split(b"\n")[:MOST_LINES]):
            text = line.decode("utf-8", "replace")
            if text.startswith("#"):
                _check_stored(text[1:])
                continue
            for rate in _rates(text):
                states = {name: _moved(name, state, rate, number) for name, state in states.items()}

    def close(self) -> None:
        """Nothing runs."""


def _rates(line: str) -> set[float]:
    """What the doors make of a rate, or of a threshold, by a sender that is believed; nothing by another."""
    value: Any = line
    with contextlib.suppress(ValueError, RecursionError):
        value = json.loads(line)
    threshold = line[2:] if line.startswith("th") else None
    span = _span({} if threshold is not None else {"biasgate.sampling_rate": value}, f"x=1,ot=th:{threshold}")
    pair = {"id": "a", "request": {"messages": ASKED}, "response": ANSWER, "sampling_rate": value}
    record_ = {"call_type": "x", "messages": ASKED, "response": ANSWER, "metadata": _metadata(value)}
    found = set[float]()
    for is_believed in (True, False):

        def rates(is_believed: bool = is_believed) -> Rates:
            return Rates(is_believed=is_believed)

        read = [
            otlp.read(span, "traces", is_json=True, sender="s", rates=rates()),
            pairs.read([pair], "s", rates()),
            litellm.read_records([record_], "s", rates()),
            *_by_header(value if isinstance(value, str) else line, is_believed),
        ]
        for sent in read:
            found |= _checked(sent, is_believed)
    return found


def _by_header(value: str, is_believed: bool) -> list[Sent]:
    try:
        rates = Rates(is_believed=is_believed, header=value)
    except RequestError as exc:
        _one_line(str(exc))
        return []
    return [pairs.read([{"request": {"messages": ASKED}, "response": ANSWER}], "s", rates)]


def _checked(sent: Sent, is_believed: bool) -> set[float]:
    for why in sent.rejected.first:
        _one_line(why)
    if len(sent.whole) + len(sent.parts) + sent.rejected.count != 1:
        raise Broken(f"an exchange is neither taken nor rejected: {sent!r}")
    rates = {exchange.sender_rate for exchange in sent.whole} | {part.sender_rate for part in sent.parts}
    rates -= {None}
    if rates and not is_believed:
        raise Broken(f"{rates} was believed")
    if any(rate is None or not MIN_SAMPLING_RATE <= rate <= 1.0 for rate in rates):
        raise Broken(f"{rates} is out of bounds")
    return {rate for rate in rates if rate is not None}


def _one_line(why: str) -> None:
    if "\n" in why or len(why) > 300:
        raise Broken(f"no line: {why!r}")


def _moved(name: str, before: StreamState, rate: float, number: int) -> StreamState:
    own = OWN_RATES[number % len(OWN_RATES)]
    drawn: dict[str, Any] = {"rate_factor": 1.0, "sender_rate": rate}
    if name == "single":
        is_missing = number % 7 == 6
        measurement = Measurement(
            auditor="judge",
            auditor_version="1",
            metric="favoritism",
            axis="gender",
            group="women",
            value=None if is_missing else float(number % 3),
            status="malformed" if is_missing else "ok",
            judge=JUDGE,
        )
        after = record(before, measurement, own * rate, SETTINGS, exchange_id=f"e{number}", at=60.0 * number, **drawn)
    else:
        sides = ([0.5], []) if number % 3 == 0 else ([], [1.0]) if number % 3 == 1 else ([0.0], [0.7])
        after = record_gap(before, *sides, own * rate, SETTINGS, exchange_id=f"e{number}", **drawn)
        if number % 5 == 4:
            after = miss_gap(after, "error", own * rate, has_group=True, has_others=False, **drawn)
    require_sound(after)
    if after.largest_weight > max(1.0, before.largest_weight / (1.0 - SETTINGS.max_weight_share)) * 1.000001:
        raise Broken(f"the largest weight jumped from {before.largest_weight} to {after.largest_weight}")
    _check_state(after)
    return after


def _check_state(state: StreamState) -> None:
    written = msgspec.json.encode(state)
    if read_state(written) != state:
        raise Broken(f"read otherwise than written: {written!r}, {read_state(written).damaged}")
    bounds = bounds_of(state)
    numbers = (bounds.lower, bounds.upper, missing_share(state) if state.low.n else 0.0, state.cut_share)
    if not all(math.isfinite(number) and -1e-9 <= number <= 1.0 + 1e-9 for number in numbers):
        raise Broken(f"out of bounds: {numbers} of {state!r}")


def _check_stored(text: str) -> None:
    """A state that is not damaged takes a value, or says in words that it cannot hold the number."""
    state = read_state(text)
    if state.damaged is not None:
        _one_line(state.damaged)
        return
    for name in ("single", "gap"):
        with contextlib.suppress(ValueError):
            _moved(name, state, 0.5, 1)


def _metadata(value: Any) -> dict[str, Any]:
    return {name: {"biasgate_sampling_rate": value} for name in ("requester_metadata", "spend_logs_metadata")}


def _span(attributes: dict[str, Any], trace_state: str) -> bytes:
    words = {"role": "user", "parts": [{"type": "text", "content": "Who leads?"}]}
    texts = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m",
        "gen_ai.input.messages": json.dumps([words]),
        "gen_ai.output.messages": json.dumps([words]),
    }
    listed = [{"key": key, "value": {"stringValue": value}} for key, value in texts.items()]
    listed += [{"key": key, "value": _any_value(value)} for key, value in attributes.items()]
    one = {"traceId": "a" * 32, "spanId": "b" * 16, "traceState": trace_state, "attributes": listed}
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [one]}]}]}).encode()


def _any_value(value: Any) -> dict[str, Any]:
    match value:
        case bool():
            return {"boolValue": value}
        case str():
            return {"stringValue": value}
        case int() | float():
            return {"doubleValue": value}
        case list():
            return {"arrayValue": {"values": [_any_value(one) for one in value]}}
    return {}
