"""An embedder that keeps the vectors of the texts it saw last: answers that come again are not computed again."""

import hashlib
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from auditors.clients.embedders import HasConnections, refuse_empty
from auditors.types import Embedder

MAX_BYTES = 16 * 2**20
"""Most bytes of vectors that are kept: 10,000 of the packaged embedder."""


class CachedEmbedder:
    """Caches vectors under a digest of their text; the text itself is not kept."""

    def __init__(self, inner: Embedder, *, max_bytes: int = MAX_BYTES) -> None:
        """`inner` computes what is not known."""
        self._inner = inner
        self._max_bytes = max_bytes
        self._vectors: OrderedDict[bytes, NDArray[np.float32]] = OrderedDict()  # the one used last at the end
        self._n_bytes = 0

    @property
    def name(self) -> str:
        return self._inner.name

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Shape (len(texts), dim), rows L2-normalised. Raises what the inner one does."""
        if not texts:
            return await self._inner.embed(texts)
        refuse_empty(texts)
        digests = [hashlib.sha256(text.encode(errors="surrogatepass")).digest() for text in texts]
        vectors = {digest: self._vectors[digest] for digest in digests if digest in self._vectors}
        unknown = {digest: text for digest, text in zip(digests, texts, strict=True) if digest not in vectors}
        if unknown:
            rows = await self._inner.embed([*unknown.values()])
            vectors |= {digest: row.copy() for digest, row in zip(unknown, rows, strict=True)}
        for digest, vector in vectors.items():
            self._keep(digest, vector)
        return np.stack([vectors[digest] for digest in digests])

    async def aclose(self) -> None:
        if isinstance(self._inner, HasConnections):
            await self._inner.aclose()

    def _keep(self, digest: bytes, vector: NDArray[np.float32]) -> None:
        if digest not in self._vectors:
            self._n_bytes += vector.nbytes
        self._vectors[digest] = vector
        self._vectors.move_to_end(digest)
        while self._n_bytes > self._max_bytes:
            _, oldest = self._vectors.popitem(last=False)
            self._n_bytes -= oldest.nbytes
