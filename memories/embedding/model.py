"""The embedding model of this process, loaded when it is first used.

The model loads in a background thread, so that a server answers at once. Callers wait for it for a bounded time, after
which EmbedderUnavailable is raised.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from contextlib import contextmanager

from django.conf import settings

from memories import lazy_numpy
from memories.database import connections
from memories.embedding.circuit_breaker import Breaker
from memories.embedding.interface import Embedder, EmbedderUnavailable, TokenEmbedder, Tokens, Vectors, Waiting
from memories.embedding.minilm import MiniLM
from memories.embedding.providers import Deterministic, OpenAICompatible, SentenceTransformers
from memories.lazy_numpy import np

RETRY_AFTER_S = 30.0  # how long a failed load is believed before it is tried again


class _Slot:
    """The model of this process: unloaded, loading, loaded or failed."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.future: Future[Embedder] | None = None
        self.failed_at = 0.0
        self.breakers = {Waiting.CALLER: Breaker(), Waiting.BATCH: Breaker()}

    def start(self) -> Future[Embedder]:
        with self.lock:
            failed = self.future is not None and self.future.done() and self.future.exception() is not None
            if self.future is None or (failed and time.monotonic() - self.failed_at > RETRY_AFTER_S):
                self.future = Future()
                # Not a daemon: an interpreter that ends while native code loads the model would abort.
                threading.Thread(target=self.load, args=[self.future], name="embedder").start()
            return self.future

    def load(self, future: Future[Embedder]) -> None:
        try:
            lazy_numpy.load()
            future.set_result(make_embedder())
        except Exception as error:
            self.failed_at = time.monotonic()
            future.set_exception(error)


_slot = _Slot()


def warm_up() -> None:
    """Starts loading the model in the background; a no-op when it is loaded or switched off."""
    if settings.EMBEDDING_PROVIDER != "none":
        _slot.start()


def reset() -> None:
    """Drops the loaded model; the next use reads the settings again."""
    global _slot
    _slot = _Slot()


def current(wait_s: float | None = None) -> Embedder:
    """The model, waiting for it at most `wait_s` seconds (EMBEDDING_WAIT_S unless told)."""
    if settings.EMBEDDING_PROVIDER == "none":
        raise EmbedderUnavailable("no embedding provider is configured (EMBEDDING_PROVIDER=none)")
    wait = settings.EMBEDDING_WAIT_S if wait_s is None else wait_s
    try:
        return _slot.start().result(timeout=wait)
    except NotYet:
        raise EmbedderUnavailable(f"the embedding model is still loading after {wait:g} s") from None
    except EmbedderUnavailable:
        raise
    except Exception as error:
        raise EmbedderUnavailable(f"the embedding model did not load: {type(error).__name__}: {error}") from error


def embed(
    texts: Sequence[str], *, wait_s: float | None = None, waiting: Waiting = Waiting.CALLER
) -> tuple[Vectors, str]:
    """Vectors (len(texts), EMBEDDING_DIMENSIONS) and the name to stamp beside them.

    Raises EmbedderUnavailable, at once while the model failed several times in a row, and also when it returns vectors
    of another length than the column holds, or none at all: a zero vector is like everything and nothing.
    """
    with _asking(wait_s, waiting) as model:
        return _checked(model, model.embed(texts, timeout_s=waiting.timeout_s), len(texts)), model.name


def embed_tokens(
    texts: Sequence[str], *, wait_s: float | None = None, waiting: Waiting = Waiting.CALLER
) -> tuple[Vectors, list[Tokens] | None, str]:
    """As `embed`, and the word pieces of each text from the same pass; None where the model tells nothing of them."""
    with _asking(wait_s, waiting) as model:
        if not isinstance(model, TokenEmbedder):
            return _checked(model, model.embed(texts, timeout_s=waiting.timeout_s), len(texts)), None, model.name
        vectors, tokens = model.embed_tokens(texts, timeout_s=waiting.timeout_s)
        return _checked(model, vectors, len(texts)), tokens, model.name


@contextmanager
def _asking(wait_s: float | None, waiting: Waiting) -> Iterator[Embedder]:
    """The model, unless it failed several times in a row; how it goes is noted."""
    connections.close_if_pooled()
    model = current(wait_s)
    breaker = _slot.breakers[waiting]
    if not breaker.allows():
        raise EmbedderUnavailable(f"the embedding model is unavailable: {breaker.reason}")
    try:
        yield model
    except EmbedderUnavailable as error:
        breaker.fail(str(error))
        raise
    breaker.succeed()


def _checked(model: Embedder, vectors: Vectors, count: int) -> Vectors:
    expected = (count, settings.EMBEDDING_DIMENSIONS)
    if vectors.shape != expected:
        raise EmbedderUnavailable(
            f"{model.name} returns {vectors.shape[-1]} dimensions, EMBEDDING_DIMENSIONS is {expected[1]}: "
            f"set it to {vectors.shape[-1]} and run `manage.py embed --dimension {vectors.shape[-1]}`, "
            "or choose another model"
        )
    if not np.isfinite(vectors).all() or (np.abs(vectors).sum(axis=1) == 0).any():
        raise EmbedderUnavailable(f"{model.name} returned an empty vector")
    return vectors


def embed_one(text: str, *, wait_s: float | None = None) -> tuple[list[float], str]:
    vectors, name = embed([text], wait_s=wait_s)
    return vectors[0].tolist(), name


def state() -> dict[str, str]:
    """What this process knows of its model, in words, without loading it."""
    provider = settings.EMBEDDING_PROVIDER
    future = _slot.future
    if provider == "none":
        return {"provider": provider, "state": "off", "detail": "recall is lexical only"}
    if future is None:
        return {"provider": provider, "state": "idle", "detail": "loads at first use"}
    if not future.done():
        return {"provider": provider, "state": "loading", "detail": ""}
    if error := future.exception():
        return {"provider": provider, "state": "failed", "detail": f"{type(error).__name__}: {error}"}
    for waiting, breaker in _slot.breakers.items():
        if breaker.reason:
            return {"provider": provider, "state": "away", "detail": f"{breaker.reason} (asked by a {waiting.value})"}
    return {"provider": provider, "state": "ready", "detail": future.result().name}


def make_embedder() -> Embedder:
    """Load the configured provider. Raises EmbedderUnavailable if the provider is unknown."""
    match settings.EMBEDDING_PROVIDER:
        case "minilm":
            return MiniLM.load(settings.COMMONPLACE_HOME / "models")
        case "sentence-transformers":
            return SentenceTransformers(settings.EMBEDDING_MODEL)
        case "openai":
            return OpenAICompatible(
                url=settings.EMBEDDING_URL,
                model=settings.EMBEDDING_MODEL,
                api_key=settings.EMBEDDING_API_KEY,
                dimensions=settings.EMBEDDING_DIMENSIONS,
            )
        case "deterministic":
            return Deterministic(settings.EMBEDDING_DIMENSIONS)
        case provider:
            raise EmbedderUnavailable(f"EMBEDDING_PROVIDER={provider!r} is unknown")
