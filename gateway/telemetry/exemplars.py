"""Exemplars: the request behind a number, for scrapers that ask for OpenMetrics. Prometheus' own format has none."""

from prometheus_client.samples import Exemplar

MOST_CHARACTERS = 128
"""Most characters of an exemplar's labels (OpenMetrics 1.0); Prometheus drops longer exemplars."""


def exemplar(request_id: str, trace_id: str, value: float, at: float) -> Exemplar | None:
    """Return the exemplar; None for a request whose id does not fit, or is not plain text. `request_id`: by which the
    console and the logs find it. `trace_id`: "" for none.
    """
    labels = {"request_id": request_id} | ({"trace_id": trace_id} if trace_id else {})
    if not (request_id.isascii() and request_id.isprintable()):
        return None
    return Exemplar(labels, value, at) if sum(map(len, (*labels, *labels.values()))) <= MOST_CHARACTERS else None
