"""The embedding model of this process, which is loaded at its first use.

A background thread loads the model, so that the server can respond meanwhile. Callers wait for the model for a limited
time, after which EmbedderUnavailable is raised.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from contextlib import contextmanager

from django.conf import settings

from foundation import lazy_numpy
from foundation.database import connections
from foundation.embedding import calibration
from foundation.embedding.circuit_breaker import ModelBreaker
from foundation.embedding.interface import Embedder, EmbedderUnavailable, TokenEmbedder, Tokens, Vectors, Waiting
from foundation.embedding.minilm import MiniLM
from foundation.lazy_numpy import np
from foundation.operations.normal_form import normal_form

WAIT_S = 10.0  # seconds for which a call waits for a model that is still loading

# By provider. E5's cosines of questions with the texts that answer them have a median of .42 where MiniLM's have .54
# (documentation), and .24 where they have .40 (facts with hardly a common word): bench/languages.py.
QUESTION_SLOPES = {"e5": 1.7}
RETRY_AFTER_S = 30.0  # seconds after a failed load before the next attempt


class _Slot:
    """The state of this process's model: not loaded, loading, loaded or failed."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.future: Future[Embedder] | None = None
        self.failed_at = 0.0
        self.breakers = {Waiting.CALLER: ModelBreaker(), Waiting.BATCH: ModelBreaker()}

    def start(self) -> Future[Embedder]:
        with self.lock:
            failed = self.future is not None and self.future.done() and self.future.exception() is not None
            if self.future is None or (failed and time.monotonic() - self.failed_at > RETRY_AFTER_S):
                self.future = Future()
                # A daemon thread would crash the process if Python exited while native code loads the model, and a
                # thread that a daemon starts is one as well, unless it says otherwise.
                threading.Thread(target=self.load, args=[self.future], name="embedder", daemon=False).start()
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
    """Start loading the model in the background, unless it is loaded already or EMBEDDING_PROVIDER is "none"."""
    if settings.EMBEDDING_PROVIDER != "none":
        _slot.start()


def reset() -> None:
    """Drop the loaded model, so that the next use reads the settings again."""
    global _slot
    _slot = _Slot()


def current(wait_s: float | None = None) -> Embedder:
    """Return the model, after a wait of at most `wait_s` seconds (default WAIT_S).

    Raise EmbedderUnavailable if the model is still loading then, if loading failed, or if the provider is "none".
    """
    if settings.EMBEDDING_PROVIDER == "none":
        raise EmbedderUnavailable("no embedding provider is configured (EMBEDDING_PROVIDER=none)")
    wait = WAIT_S if wait_s is None else wait_s
    try:
        return _slot.start().result(timeout=wait)
    except NotYet:
        raise EmbedderUnavailable(f"the embedding model is still loading after {wait:g} s") from None
    except EmbedderUnavailable:
        raise
    except Exception as error:
        raise EmbedderUnavailable(f"the embedding model did not load: {type(error).__name__}: {error}") from error


def embed(
    texts: Sequence[str], *, wait_s: float | None = None, waiting: Waiting = Waiting.CALLER, as_query: bool = False
) -> tuple[Vectors, str]:
    """Return vectors (len(texts), EMBEDDING_DIMENSIONS) and the name of the model, which is stored with them.

    `as_query` says that the texts are questions, which some models read otherwise than the texts that answer them.
    Raise EmbedderUnavailable if the model is unavailable or returns unusable vectors. While the circuit breaker is open
    after several failures in a row, raise it immediately.
    """
    with _guarded_model(wait_s, waiting) as model:
        vectors = model.embed(_normal_forms(texts), timeout_s=waiting.timeout_s, as_query=as_query)
        return _checked(model, vectors, len(texts)), model.name


def embed_tokens(
    texts: Sequence[str], *, wait_s: float | None = None, waiting: Waiting = Waiting.CALLER, as_query: bool = False
) -> tuple[Vectors, list[Tokens] | None, str]:
    """Embed texts as `embed` does, and also return the word pieces of each text, or None if the model has none.

    Vectors and word pieces come from a single pass through the model.
    """
    with _guarded_model(wait_s, waiting) as model:
        if not isinstance(model, TokenEmbedder):
            vectors = model.embed(_normal_forms(texts), timeout_s=waiting.timeout_s, as_query=as_query)
            return _checked(model, vectors, len(texts)), None, model.name
        vectors, tokens = model.embed_tokens(_normal_forms(texts), timeout_s=waiting.timeout_s, as_query=as_query)
        return _checked(model, vectors, len(texts)), tokens, model.name


def _normal_forms(texts: Sequence[str]) -> list[str]:
    """Return texts in the normal form, because models know few full-width letters and ligatures."""
    return [normal_form(text) for text in texts]


@contextmanager
def _guarded_model(wait_s: float | None, waiting: Waiting) -> Iterator[Embedder]:
    """Provide the model, and report the outcome of the block to the circuit breaker."""
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
            f"{model.name} returns {vectors.shape[-1]} dimensions, but EMBEDDING_DIMENSIONS is {expected[1]}: "
            f"set it to {vectors.shape[-1]} and run the command `embed --dimension {vectors.shape[-1]}`, "
            "or choose another model"
        )
    # A zero vector has no direction, so its cosine similarity with other vectors is undefined.
    if not np.isfinite(vectors).all() or (np.abs(vectors).sum(axis=1) == 0).any():
        raise EmbedderUnavailable(f"{model.name} returned a vector of zeros, or numbers that are not finite")
    return vectors


def embed_query(text: str, *, wait_s: float | None = None) -> tuple[list[float], str]:
    vectors, name = embed([text], wait_s=wait_s, as_query=True)
    return vectors[0].tolist(), name


def question_slope() -> float:
    """Return the factor by which a cosine of a question and a text comes to the scale of MiniLM's.

    The cosine of two texts needs none: thresholds of near-duplicates and the like hold for each model.
    """
    return QUESTION_SLOPES.get(settings.EMBEDDING_PROVIDER, 1.0)


def state() -> dict[str, str]:
    """Describe the state of the model in this process, without loading it."""
    provider = settings.EMBEDDING_PROVIDER
    future = _slot.future
    if provider == "none":
        return {"provider": provider, "state": "off", "detail": "recall is lexical only"}
    if future is None:
        return {"provider": provider, "state": "idle", "detail": "the model is loaded at its first use"}
    if not future.done():
        return {"provider": provider, "state": "loading", "detail": ""}
    if error := future.exception():
        return {"provider": provider, "state": "failed", "detail": f"{type(error).__name__}: {error}"}
    for waiting, breaker in _slot.breakers.items():
        if breaker.reason:
            return {"provider": provider, "state": "away", "detail": f"{breaker.reason} (as a {waiting.value} waited)"}
    return {"provider": provider, "state": "ready", "detail": future.result().name}


def make_embedder() -> Embedder:
    """Load the model of the configured provider, with its calibration.

    Raises EmbedderUnavailable if the provider is unknown, or if its model is not named or not installed.
    """
    if settings.EMBEDDING_PROVIDER == "minilm":
        return MiniLM.load(settings.COMMONPLACE_HOME / "models")
    if settings.EMBEDDING_PROVIDER == "e5":
        from foundation.embedding.e5 import E5  # noqa: PLC0415 - few installations use it

        return E5.load(settings.COMMONPLACE_HOME / "models")
    model = uncalibrated()
    return calibration.calibrated(model) if settings.EMBEDDING_PROVIDER in calibration.PROVIDERS else model


def uncalibrated() -> Embedder:
    """Load the model of a provider whose model is chosen by name, as it is."""
    from foundation.embedding import providers  # noqa: PLC0415 - imports an HTTP client, which the packaged model lacks

    match settings.EMBEDDING_PROVIDER:
        case "sentence-transformers":
            return providers.SentenceTransformers(settings.EMBEDDING_MODEL)
        case "openai":
            return providers.OpenAICompatible(
                url=settings.EMBEDDING_URL,
                model=settings.EMBEDDING_MODEL,
                api_key=settings.EMBEDDING_API_KEY,
                dimensions=settings.EMBEDDING_DIMENSIONS,
            )
        case "deterministic":
            return providers.Deterministic(settings.EMBEDDING_DIMENSIONS)
        case provider:
            raise EmbedderUnavailable(f"EMBEDDING_PROVIDER={provider!r} is unknown")
