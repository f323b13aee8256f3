"""A client of a running gateway's HTTP API."""

import time
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Self

import httpx

from auditors.addresses import proxy_for
from auditors.errors import BiasgateError
from benchmarks.run import result as results
from biasgate.api import Rows, Run, to_frame

PAGE_ITEMS = 1000
PAGE_SCORES = 200
ENDED = ("done", "failed", "cancelled")


class GatewayError(BiasgateError):
    """An answer of the gateway that is not a success: `status` and its explanation."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(f"{status}: {detail}")
        self.status = status


class Client:
    """A client of a gateway. Methods raise GatewayError for an error answer, httpx.HTTPError without an answer."""

    def __init__(self, url: str, key: str | None = None, *, timeout: float = 30.0) -> None:
        """`url`: base URL of the gateway. `key`: control key. `timeout`: seconds for an answer."""
        headers = {"authorization": f"Bearer {key}"} if key else {}
        self._http = httpx.Client(
            base_url=url.rstrip("/"), headers=headers, timeout=timeout, proxy=proxy_for(url), trust_env=False
        )
        self.audits = Audits(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def estimates(self, to: Rows = "pandas", **filters: Any) -> Any:
        """Return the live estimates: value, interval, n. Filters: model, auditor, axis, window."""
        return to_frame(self._pages("/live/estimates", filters), to)

    def detectors(self, to: Rows = "pandas", **filters: Any) -> Any:
        """Return the drift detector of each stream: reference, evidence, state."""
        return to_frame(self._pages("/live/detectors", filters), to)

    def alarms(self, to: Rows = "pandas", **filters: Any) -> Any:
        """Return the active alarms."""
        return to_frame(self._pages("/live/alarms", filters), to)

    def history(self, stream_id: str, window: str | None = None) -> Any:
        """Return a stream in at most 60 periods, as decoded JSON."""
        return self.send("GET", f"/live/streams/{stream_id}/history", params=_without_none(window=window)).json()

    def exchanges(self, to: Rows = "pandas", *, limit: int = 1000, **filters: Any) -> Any:
        """Return the newest scores with texts (administrators only); the gateway records each page as an access."""
        return to_frame(self._scores(limit, filters), to)

    def _scores(self, limit: int, filters: dict[str, Any]) -> Iterator[object]:
        before = filters.pop("before", None)
        while limit > 0:
            query = _without_none(**filters, before=before) | {"limit": min(limit, PAGE_SCORES)}
            response = self.send("GET", "/live/exchanges", params=query)
            page = response.json()
            yield from page
            limit -= len(page)
            before = response.headers.get("x-next-before")
            if before is None:
                return

    def labels(self, to: Rows = "pandas", **filters: Any) -> Any:
        """Return people's annotations of live measurements."""
        return to_frame(self.send("GET", "/annotations", params=_without_none(**filters)).json(), to)

    def _pages(self, path: str, filters: dict[str, Any]) -> Iterator[object]:
        offset = 0
        while True:
            query = _without_none(**filters) | {"limit": PAGE_ITEMS, "offset": offset}
            page = self.send("GET", path, params=query).json()
            yield from page
            offset += PAGE_ITEMS
            if len(page) < PAGE_ITEMS:
                return

    def send(self, method: str, path: str, **about: Any) -> httpx.Response:
        """Return the response to a request of the HTTP API."""
        response = self._http.request(method, path, **about)
        if response.is_success:
            return response
        try:
            detail = str(response.json().get("detail", response.text))
        except ValueError:
            detail = response.text
        raise GatewayError(response.status_code, detail[:500])


class Audits:
    """The suite runs of a gateway."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def list(self, to: Rows = "pandas", **filters: Any) -> Any:
        """Return the suite runs, newest first. Filters: model, suite, status, limit."""
        return to_frame(self._client.send("GET", "/audits", params=_without_none(**filters)).json(), to)

    def start(self, suites: Sequence[str], model: str, **options: Any) -> dict[str, str]:
        """Start a run of each suite and return the ids by suite. Options: as POST /audits takes them."""
        body = {"suites": [*suites], "model": model, **options}
        ids: dict[str, str] = self._client.send("POST", "/audits", json=body).json()["ids"]
        return ids

    def load(self, run_id: str, *, wait_seconds: float = 0.0) -> Run:
        """Return a finished run; wait for its end up to `wait_seconds`. Raises GatewayError when it has no result."""
        deadline = time.monotonic() + wait_seconds
        while time.monotonic() < deadline:
            if self._client.send("GET", f"/audits/{run_id}").json()["status"] in ENDED:
                break
            time.sleep(0.5)
        return Run(None, results.decode(self._client.send("GET", f"/audits/{run_id}/result").content))


def _without_none(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
