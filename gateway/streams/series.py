"""Fields that name a live series, at the beginning of every form in which a series is shown."""

from typing import Any

import msgspec

from auditors.streams.scales import scale_of
from gateway.store.streams import Stream


class ShownSeries(msgspec.Struct, frozen=True, kw_only=True):
    """The stream of a series and the labels of the series."""

    stream: str
    auditor: str
    metric: str
    axis: str | None
    group: str | None
    model: str
    instrument: str
    range: tuple[float, float]
    """Lowest and highest value the metric can take: 0 and 1 of the scale of 0..1."""


def labels_of(stream: Stream) -> dict[str, Any]:
    key = stream.key
    labels = {"auditor": key.auditor, "metric": key.metric, "axis": key.axis or None, "group": key.group or None}
    value_range = scale_of(key.metric).shown
    return {"stream": stream.id, **labels, "model": key.model, "instrument": key.instrument, "range": value_range}
