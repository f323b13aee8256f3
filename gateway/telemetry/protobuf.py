"""Prometheus' protobuf exposition format, the only format with native histograms.

Source: https://prometheus.io/docs/instrumenting/exposition_formats/#protobuf-format
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import groupby
from operator import itemgetter
from typing import Any

from prometheus_client.core import Metric
from prometheus_client.samples import Exemplar, NativeHistogram, Sample

from gateway.errors import ConfigError
from gateway.protobuf_messages import message_class
from gateway.telemetry.otlp import is_installed

CONTENT_TYPE = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"

_PACKAGE = "io.prometheus.client"
_FIELDS = {
    "LabelPair": ("1 name string", "2 value string"),
    "Gauge": ("1 value double",),
    "Counter": ("1 value double", "2 exemplar Exemplar"),
    "Exemplar": ("1 label LabelPair*", "2 value double", "3 timestamp Timestamp"),
    "Timestamp": ("1 seconds int64", "2 nanos int32"),
    "Bucket": ("1 cumulative_count uint64", "2 upper_bound double", "3 exemplar Exemplar"),
    "BucketSpan": ("1 offset sint32", "2 length uint32"),
    "Histogram": (
        "1 sample_count uint64",
        "2 sample_sum double",
        "3 bucket Bucket*",
        "5 schema sint32",
        "6 zero_threshold double",
        "7 zero_count uint64",
        "12 positive_span BucketSpan*",
        "13 positive_delta sint64*",
        "16 exemplars Exemplar*",
    ),
    "Metric": ("1 label LabelPair*", "2 gauge Gauge", "3 counter Counter", "7 histogram Histogram"),
    "MetricFamily": ("1 name string", "2 help string", "3 type int32", "4 metric Metric*"),
}
"""Fields of the encoded messages; see `gateway.protobuf_messages`."""

_TYPES = {"counter": 0, "gauge": 1, "histogram": 4}


def is_wanted(accept: str) -> bool:
    """Return whether an Accept header names this format before the two text formats."""
    for accepted in accept.split(","):
        media_type, *parameters = (part.strip() for part in accepted.split(";"))
        if media_type == "application/vnd.google.protobuf":
            return {f"proto={_PACKAGE}.MetricFamily", "encoding=delimited"} <= set(parameters)
        if media_type in ("application/openmetrics-text", "text/plain"):
            return False
    return False


def require_installed() -> None:
    """Raise ConfigError when the extra "otel" is not installed."""
    if not is_installed("google.protobuf"):
        raise ConfigError(
            'server.native_histograms is true, but protobuf is not installed: pip install "biasgate[otel]", '
            "or remove the key"
        )


def encode(family: Metric) -> tuple[str, bytes]:
    """Return name and message of a family, or of a piece of it.

    Args:
        family: counters, gauges or histograms. The sample with the family's own name is the native histogram.
    """
    return family.name, _family_class()(**_family(family)).SerializeToString()


def page(messages: Iterable[tuple[str, bytes]]) -> bytes:
    """Return each family after its length; consecutive messages of the same name are joined into a single message, as
    the format allows.
    """
    families = (b"".join(message for _, message in pieces) for _, pieces in groupby(messages, key=itemgetter(0)))
    return b"".join(_varint(len(message)) + message for message in families)


@cache
def _family_class() -> Any:
    return message_class(_PACKAGE, _FIELDS, "MetricFamily")


def _family(family: Metric) -> dict[str, Any]:
    metrics_of = {"counter": _counters, "gauge": _gauges, "histogram": _histograms}[family.type]
    name = f"{family.name}_total" if family.type == "counter" else family.name
    return {"name": name, "help": family.documentation, "type": _TYPES[family.type], "metric": list(metrics_of(family))}


def _counters(family: Metric) -> Iterator[dict[str, Any]]:
    for sample in family.samples:
        exemplar = _exemplar(sample.exemplar) if sample.exemplar else None
        yield {"label": _labels(sample.labels), "counter": {"value": sample.value, "exemplar": exemplar}}


def _gauges(family: Metric) -> Iterator[dict[str, Any]]:
    for sample in family.samples:
        yield {"label": _labels(sample.labels), "gauge": {"value": sample.value}}


def _histograms(family: Metric) -> Iterator[dict[str, Any]]:
    for labels, samples in groupby(family.samples, key=_labels_of_series):
        histogram: dict[str, Any] = {"bucket": []}
        for sample in samples:
            match sample.name.removeprefix(family.name):
                case "_bucket":
                    histogram["bucket"].append(_bucket(sample))
                case "_count":
                    histogram["sample_count"] = int(sample.value)
                case "_sum":
                    histogram["sample_sum"] = sample.value
                case "" if sample.native_histogram is not None:
                    histogram.update(_native(sample.native_histogram))
        yield {"label": _labels(labels), "histogram": histogram}


def _labels_of_series(sample: Sample) -> dict[str, str]:
    return {name: value for name, value in sample.labels.items() if name != "le"}


def _bucket(sample: Sample) -> dict[str, Any]:
    exemplar = _exemplar(sample.exemplar) if sample.exemplar else None
    bound = float(sample.labels["le"])
    return {"cumulative_count": int(sample.value), "upper_bound": bound, "exemplar": exemplar}


def _native(native: NativeHistogram) -> dict[str, Any]:
    spans = [{"offset": span.offset, "length": span.length} for span in native.pos_spans or ()]
    return {
        "schema": native.schema,
        "zero_threshold": native.zero_threshold,
        "zero_count": int(native.zero_count),
        "positive_span": spans,
        "positive_delta": native.pos_deltas,
        "exemplars": [_exemplar(exemplar) for exemplar in native.nh_exemplars or ()],
    }


def _exemplar(exemplar: Exemplar) -> dict[str, Any]:
    seconds, rest = divmod(float(exemplar.timestamp or 0.0), 1.0)
    timestamp = {"seconds": int(seconds), "nanos": int(rest * 1e9)}
    return {"label": _labels(exemplar.labels), "value": exemplar.value, "timestamp": timestamp}


def _labels(labels: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in labels.items()]


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 127:
        encoded.append(number & 127 | 128)
        number >>= 7
    return bytes((*encoded, number))
