"""Reranking of the best hits with a cross-encoder, which reads the question and each text together.

Reranking is off by default. The provider is sentence-transformers or an endpoint with the API of Cohere, Jina and vLLM
(`POST {url}/rerank`). If the provider fails, the hits keep their order, and the response has a note about it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from functools import lru_cache
from typing import Any

from django.conf import settings

from foundation.database import connections
from foundation.embedding.circuit_breaker import ModelBreaker
from foundation.embedding.interface import MODELS_MISSING
from foundation.outbound import bounded_http

LOOKED_AT = 20  # maximum number of hits that are reranked, the best ones
ANSWER_BYTES = 1_000_000  # maximum number of bytes of a response

_breaker = ModelBreaker()
_threads = ThreadPoolExecutor(4, thread_name_prefix="rerank")


class RerankerUnavailable(Exception):
    """The hits can't be reranked now. The message gives the reason for users and operators."""


def relevances(query: str, texts: Sequence[str]) -> list[float]:
    """Return a score for each text. A higher score means that the text answers the query better.

    Raise RerankerUnavailable if the provider fails or takes longer than RERANK_TIMEOUT_S. After repeated failures the
    circuit breaker is open, and RerankerUnavailable is raised immediately.
    """
    if not _breaker.allows():
        raise RerankerUnavailable(_breaker.reason)
    connections.close_if_pooled()
    score = _over_http if settings.RERANK_PROVIDER == "http" else _by_sentence_transformers
    try:
        scores = _threads.submit(score, query, list(texts)).result(timeout=settings.RERANK_TIMEOUT_S)
    except NotYet:
        problem = f"the reranker took longer than {settings.RERANK_TIMEOUT_S:g} s"
        _breaker.fail(problem)
        raise RerankerUnavailable(problem) from None
    except Exception as error:
        _breaker.fail(f"{type(error).__name__}: {error}")
        raise RerankerUnavailable(f"{type(error).__name__}: {error}") from error
    _breaker.succeed()
    return scores


def problem() -> str:
    """Return why the circuit breaker is open, or "" while it is closed."""
    return _breaker.reason


@lru_cache(maxsize=1)
def _cross_encoder(model: str) -> Any:
    try:
        from sentence_transformers import CrossEncoder  # noqa: PLC0415 - seconds of torch, only where chosen
    except ModuleNotFoundError:
        raise RerankerUnavailable(MODELS_MISSING) from None

    return CrossEncoder(model, device="cpu")


def _by_sentence_transformers(query: str, texts: list[str]) -> list[float]:
    return [float(score) for score in _cross_encoder(settings.RERANK_MODEL).predict([(query, text) for text in texts])]


def _over_http(query: str, texts: list[str]) -> list[float]:
    import httpx  # noqa: PLC0415 - a tenth of a second, only where chosen

    address = f"{settings.RERANK_URL.rstrip('/')}/rerank"
    headers = {"Authorization": f"Bearer {settings.RERANK_API_KEY}"} if settings.RERANK_API_KEY else {}
    body = {"model": settings.RERANK_MODEL, "query": query, "documents": texts}
    deadline = time.monotonic() + settings.RERANK_TIMEOUT_S
    with httpx.stream("POST", address, json=body, headers=headers, timeout=settings.RERANK_TIMEOUT_S) as response:
        response.raise_for_status()
        results = json.loads(bounded_http.read(response, ANSWER_BYTES, deadline))["results"]
    scores = {int(result["index"]): float(result["relevance_score"]) for result in results}
    if set(scores) != set(range(len(texts))):
        raise ValueError(f"the reranker returned {len(scores)} scores for {len(texts)} texts")
    return [scores[n] for n in range(len(texts))]
