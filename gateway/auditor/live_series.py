"""The families of live series as text, formatted again only for changed streams: 5,000 series take a second."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import NamedTuple

from auditors.streams.drift import Detector, DriftSettings
from auditors.streams.estimates import estimate
from gateway.store.streams import Stream
from gateway.streams.detectors import reference_ratio, smallest_change

SERIES = ("auditor", "metric", "axis", "group", "model")
UNKNOWN = ("unknown",)
"""Additional labels of a series of unknown sampling: the value of a label `sampling`. Others have no such label."""

Labels = tuple[str, ...]


class Family(NamedTuple):
    name: str
    help: str
    type: str = "gauge"


RECEIVED = "Mean of what senders of unknown sampling sent, with the label sampling=unknown: no estimate, no bounds."
OWN = (
    Family("live_estimate", "Weighted mean, in the metric's unit."),
    Family("live_received_mean", RECEIVED),
    Family("live_estimate_lower", "Lower end of its 95 % confidence sequence, valid at all times at once."),
    Family("live_estimate_upper", "Upper end."),
    Family("live_effective_samples", "Kish's effective number of exchanges."),
    Family("live_cut_samples", "Audits with a cut weight (docs/ingest.md#limit-of-a-stated-rate), if any.", "counter"),
    Family("live_cut_weight_ratio", "Cut share of all weight: the largest bias of the mean on 0..1."),
    Family("drift_log_evidence", "Log evidence against no drift, since the detector began."),
    Family("drift_audits_seen", "Audits that the detector has seen.", "counter"),
    Family("detector_reference_ratio", "Filled part of the reference; from 1 on the series is watched."),
    Family("detector_smallest_change", "Change of the mean on 0..1 found within 2,000 audits on average; +Inf: none."),
    Family("drift_shown_smaller", "1 where the change is shown to be below drift.equivalence_margin, 0 where not."),
)
"""The families that describe a single stream."""
THRESHOLD = Family("drift_log_threshold", "Alarm threshold of a stream: log(K · average_run_length).")
ALARM = Family("drift_alarm", "1 from the alarm until it is acknowledged, also after a change of judge or embedder.")
DAMAGED = Family("stream_damaged", "1 while a live series is damaged (docs/operations.md#damaged-streams).")


class _Lines(NamedTuple):
    """One series: its labels, and the value of each of OWN; None where it is undefined."""

    stream: Stream
    threshold: int
    """Tenths of the log of the number of streams, on which the smallest change depends."""
    labels: str
    values: Sequence[str | None]
    damaged: str


class LiveSeries:
    """Lines by stream."""

    def __init__(self, settings: DriftSettings) -> None:
        self._settings = settings
        self._lines: dict[str, _Lines] = {}

    def prepare(self, stream: Stream, n_streams: int) -> _Lines:
        """Return the lines of a stream, formatted again if it, or the number of streams (threshold), changed."""
        lines, threshold = self._lines.get(stream.id), math.ceil(10.0 * math.log(max(1, n_streams)))
        if lines is None or lines.stream is not stream or lines.threshold != threshold:
            values = self._values(stream, n_streams)
            damaged = f'{{stream="{stream.id}"}} {"1.0" if stream.state.damaged else "0.0"}'
            lines = _Lines(stream, threshold, _labels(series_of(stream)), [*map(_number, values)], damaged)
            self._lines[stream.id] = lines
        return lines

    def text(self, streams: Sequence[Stream], *, is_openmetrics: bool) -> bytes:
        """All families of these streams, in the format asked for."""
        alarmed = {series_of(stream) for stream in streams if stream.state.alarm}
        newest = newest_streams(streams)
        series_lines = [(series, self.prepare(stream, len(streams))) for series, stream in newest.items()]
        parts = [*self._families(series_lines, len(streams), alarmed, is_openmetrics=is_openmetrics)]
        return "".join(parts).encode()

    def _families(
        self,
        series_lines: Sequence[tuple[Labels, _Lines]],
        n_streams: int,
        alarmed: Set[Labels],
        *,
        is_openmetrics: bool,
    ) -> Iterator[str]:
        if not series_lines:
            return
        for index, family in enumerate(OWN):
            name = _sample(family)
            rows = [
                f"{name}{lines.labels} {lines.values[index]}\n"
                for _, lines in series_lines
                if lines.values[index] is not None
            ]
            if rows:
                yield _head(family, is_openmetrics=is_openmetrics)
                yield from rows
        threshold = _number(self._settings.log_threshold(n_streams))
        yield _head(THRESHOLD, is_openmetrics=is_openmetrics)
        yield from (f"{_sample(THRESHOLD)}{lines.labels} {threshold}\n" for _, lines in series_lines)
        yield _head(ALARM, is_openmetrics=is_openmetrics)
        yield from (
            f"{_sample(ALARM)}{lines.labels} {'1.0' if series in alarmed else '0.0'}\n"
            for series, lines in series_lines
        )
        yield _head(DAMAGED, is_openmetrics=is_openmetrics)
        yield from (f"{_sample(DAMAGED)}{lines.damaged}\n" for _, lines in series_lines)

    def _values(self, stream: Stream, n_streams: int) -> tuple[float | None, ...]:
        state, detector = stream.state, stream.state.detector
        live_estimate = estimate(stream.key, state)
        is_known = stream.key.is_sampling_known
        return (
            live_estimate.value if is_known else None,
            None if is_known else live_estimate.value,
            live_estimate.lower,
            live_estimate.upper,
            live_estimate.extra["effective_n"] if is_known and not state.damaged else None,
            float(state.n_cut) if state.n_cut else None,
            state.cut_share if state.n_cut else None,
            None if detector is None else detector.log_evidence,
            0.0 if detector is None else float(detector.n_seen),
            reference_ratio(state, self._settings),
            None if detector is None else self._smallest_change(detector, n_streams),
            None if detector is None else self._is_shown_smaller(detector),
        )

    def _smallest_change(self, detector: Detector, n_streams: int) -> float:
        change = smallest_change(detector, self._settings, n_streams)
        return math.inf if change is None else change  # a detector that watches and finds none says so

    def _is_shown_smaller(self, detector: Detector) -> float | None:
        margin, smaller = self._settings.equivalence_margin, detector.smaller
        return None if margin is None else float(smaller is not None and smaller.margin == margin)


def series_of(stream: Stream) -> Labels:
    key = stream.key
    own = (key.auditor, key.metric, key.axis, key.group, key.model)
    return own if key.is_sampling_known else own + UNKNOWN


def newest_streams(streams: Iterable[Stream]) -> Mapping[Labels, Stream]:
    """Return the newest streams by series: a new judge or embedder starts one, and the moving one is shown."""
    return {series_of(stream): stream for stream in sorted(streams, key=lambda stream: stream.updated_at)}


def _head(family: Family, *, is_openmetrics: bool) -> str:
    name = f"biasgate_{family.name}" if is_openmetrics else _sample(family)
    return f"# HELP {name} {family.help}\n# TYPE {name} {family.type}\n"


def _sample(family: Family) -> str:
    return f"biasgate_{family.name}_total" if family.type == "counter" else f"biasgate_{family.name}"


def _labels(values: Labels) -> str:
    pairs = (f'{name}="{_escaped(value)}"' for name, value in zip((*SERIES, "sampling"), values, strict=False))
    return "{" + ",".join(pairs) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _number(value: float | None) -> str | None:
    if value is None:  # undefined is not zero: there is no sample then
        return None
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(float(value))
