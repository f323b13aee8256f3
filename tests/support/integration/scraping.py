"""GET /metrics, read lightly: a thousand scrapes are compared in one test."""

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx

_LABEL = re.compile(r'(\w+)="([^"]*)"')


@dataclass
class Scrape:
    """Samples of one scrape, by name and labels as they were written."""

    samples: Mapping[str, float]
    monotone: frozenset[str]
    """Those that may never fall: counters, and the parts of histograms."""

    def value(self, name: str, **labels: str) -> float | None:
        return next(iter(self.totals(name, **labels)), None)

    def totals(self, name: str, **labels: str) -> list[float]:
        """Values of every label set that holds these labels."""
        wanted = labels.items()
        return [
            value for key, value in self.samples.items() if key.partition("{")[0] == name and wanted <= _labels(key)
        ]

    def labels(self, name: str, label: str) -> list[str]:
        return sorted(dict(_labels(key))[label] for key in self.samples if key.partition("{")[0] == name)

    def fallen_since(self, earlier: "Scrape") -> dict[str, tuple[float, float]]:
        """Series that may never fall and did, or went missing: (before, now)."""
        return {
            key: (earlier.samples[key], self.samples.get(key, 0.0))
            for key in earlier.monotone
            if self.samples.get(key, 0.0) < earlier.samples[key]
        }


def _labels(key: str) -> frozenset[tuple[str, str]]:
    return frozenset(_LABEL.findall(key))


async def scrape(http: httpx.AsyncClient) -> Scrape:
    return read((await http.get("/metrics")).text)


async def scrape_anew(root: str) -> Scrape:
    """On a connection of its own, so that any worker may answer. Raises OSError when the worker goes."""
    url = urlsplit(root)
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    try:
        writer.write(b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    finally:
        writer.close()
    if (
        not head.startswith(b"HTTP/1.1 200")
        or f"content-length: {len(body)}\r\n".encode() not in head.lower() + b"\r\n"
    ):
        raise ConnectionResetError("cut off")
    return read(body.decode())


def read(text: str) -> Scrape:
    """The text exposition format."""
    samples: dict[str, float] = {}
    monotone: set[str] = set()
    may_fall = True
    for line in text.splitlines():
        if line.startswith("# TYPE"):
            may_fall = line.rpartition(" ")[2] not in ("counter", "histogram")
        elif not line.startswith("#"):
            key, _, value = line.rpartition(" ")
            samples[key] = float(value)
            if not may_fall:
                monotone.add(key)
    return Scrape(samples, frozenset(monotone))
