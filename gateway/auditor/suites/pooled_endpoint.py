"""The auditors' HTTP client over the relay's connections: httpx costs a suite run many times the rest."""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from auditors.addresses import proxy_for
from auditors.clients.bounded_body import ACCEPT_ENCODING, BodyError, BoundedBody
from auditors.clients.completion import CONNECT_TIMEOUT_SECONDS, UNSAMPLED, HttpEndpoint, Reply, trusted
from auditors.clients.failures import LONGEST_ERROR_BYTES
from auditors.types import CompletionError
from benchmarks.run.completers.served import POLICY
from gateway.proxy.connection import UpstreamConnection
from gateway.proxy.headers import ResponseHead
from gateway.proxy.pool import ConnectFailure, Pool

KEPT_HEADERS = frozenset({"retry-after", POLICY})


class PooledEndpoint(HttpEndpoint):
    """An `HttpEndpoint`; its other end is reached directly."""

    def __init__(
        self,
        base_url: str,
        api_key: str | None = None,
        *,
        max_concurrency: int = 16,
        headers: Mapping[str, str] = UNSAMPLED,
        **settings: Any,
    ) -> None:
        super().__init__(base_url, api_key, max_concurrency=max_concurrency, headers=headers, **settings)
        url = urlsplit(base_url.rstrip("/").removesuffix("/v1").rstrip("/"))
        host, is_tls = url.hostname or "", url.scheme == "https"
        self._name = f"{host}:{url.port or ''}"
        self._path = url.path.encode()
        fields = {"host": url.netloc.rpartition("@")[2], "content-type": "application/json"}
        fields |= {**ACCEPT_ENCODING, **headers}
        if api_key:
            fields["authorization"] = f"Bearer {api_key}"
        self._fields = _lines(fields)
        self._pool = Pool(
            host,
            url.port or (443 if is_tls else 80),
            tls=trusted() if is_tls else None,
            max_connections=max_concurrency,
            connect_seconds=min(self._timeout, CONNECT_TIMEOUT_SECONDS),
            owner=_Unwatched(),
        )

    async def aclose(self) -> None:
        await self._pool.close()
        await super().aclose()

    async def _attempt(self, method: str, path: str, body: bytes | None, longest: int) -> Reply:
        own = b"" if body is None else b"content-length: %d\r\n%b" % (len(body), _lines(self._sign(body)))
        head = b"%b %b%b HTTP/1.1\r\n%b%b\r\n" % (method.encode(), self._path, path.encode(), self._fields, own)
        attempt = _Attempt(self._pool, head, body or b"", longest, f"{self._name}{path}")
        try:
            async with asyncio.timeout(self._timeout):
                return await attempt.reply
        except TimeoutError as exc:
            where = f"{self._name}{path}"
            raise CompletionError("timeout", f"{where}: no reply within {self._timeout:g} s") from exc
        finally:
            attempt.end()


def endpoint_for(base_url: str) -> type[HttpEndpoint]:
    """Return the client class for a server: httpx's where a proxy or a user name in the URL asks for it."""
    return PooledEndpoint if proxy_for(base_url) is None and "@" not in urlsplit(base_url).netloc else HttpEndpoint


class _Attempt:
    """One request and the reply to it; a `Waiter` of the pool and a `ResponseSink` of its connection."""

    def __init__(self, pool: Pool, head: bytes, body: bytes, longest: int, where: str) -> None:
        self.reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._pool = pool
        self._head = head
        self._body = body
        self._longest = longest
        self._where = where
        self._connection: UpstreamConnection | None = None
        self._status = 0
        self._headers = dict[str, str]()
        self._content: BoundedBody | None = None
        pool.acquire(self)

    def end(self) -> None:
        """No one wants the reply any more, or it is there."""
        if self._connection is not None:
            self._connection.abort()
            self._connection = None
        elif not self.reply.done() or self.reply.cancelled():
            self._pool.withdraw(self)

    def on_connection(self, connection: UpstreamConnection) -> None:
        if self.reply.done():
            self._pool.released(connection)
            return
        self._connection = connection
        connection.send(self, self._head, self._body, bodiless=False)

    def on_connect_failure(self, failure: ConnectFailure) -> None:
        self._fail(CompletionError("unavailable", f"{self._where}: {failure}", was_reached=False))

    def on_pool_unavailable(self) -> None:
        """Do nothing: there is not another pool to ask."""

    def on_complete_response(self, status: int, reason: bytes, head: ResponseHead, body: bytes) -> None:
        self.on_response_head(status, reason, head)
        self.on_response_body(body)
        self.on_response_end()

    def on_informational(self, status: int, reason: bytes, head: ResponseHead) -> None:
        """Says nothing yet."""

    def on_location(self, head: ResponseHead) -> None:
        """No redirect is followed."""

    def on_response_head(self, status: int, reason: bytes, head: ResponseHead) -> None:
        self._status = status
        for line in head.lines:
            name, _, value = line.partition(b":")
            if (kept := name.lower().decode("latin-1")) in KEPT_HEADERS:
                self._headers[kept] = value.strip().decode("latin-1")
        with self._failing():
            limit = self._longest if status == 200 else LONGEST_ERROR_BYTES
            self._content = BoundedBody(head.content_encoding.decode("latin-1"), limit)

    def on_response_body(self, data: bytes) -> None:
        if self._content is not None:
            with self._failing():
                self._content.feed(data)

    def on_response_end(self) -> None:
        self._connection = None
        if self._content is not None:
            with self._failing():
                self._content.finish()
        if not self.reply.done():
            content = self._content.content if self._content is not None else b""
            self.reply.set_result(Reply(self._status, self._headers, content))

    def on_packet_end(self) -> None:
        """Nothing is passed on."""

    def chunk_writer(self) -> None:
        """Every packet comes here."""

    def on_upstream_lost(self, what: str, *, may_be_stale: bool) -> None:
        self._connection = None
        if may_be_stale:  # the server closed it as the request was sent: it has seen nothing of it
            self._pool.acquire(self)
            return
        self._fail(CompletionError("unavailable", f"{self._where}: {what}"))

    @contextlib.contextmanager
    def _failing(self) -> Any:
        """A body that is none of ours ends the attempt; of an error's, what came is enough."""
        try:
            yield
        except BodyError as exc:
            if self._status == 200:
                error = CompletionError("malformed", f"{self._where}: {exc}", status_code=200)
                error.__cause__ = exc
                self._fail(error)
            elif not self.reply.done():
                content = self._content.content if self._content is not None else b""
                self.reply.set_result(Reply(self._status, self._headers, content))

    def _fail(self, error: CompletionError) -> None:
        if not self.reply.done():
            self.reply.set_exception(error)


class _Unwatched:
    """A pool's owner that the state of the server does not concern: each request tells for itself."""

    def connect_failed(self, failure: ConnectFailure) -> None: ...

    def connects_slowly(self, seconds: float) -> None: ...


def _lines(fields: Any) -> bytes:
    return b"".join(f"{name}: {value}\r\n".encode("latin-1") for name, value in fields.items())
