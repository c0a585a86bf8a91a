"""Embedding providers other than the packaged model."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Sequence

import httpx

from foundation.embedding.interface import MODELS_MISSING, EmbedderUnavailable, Tokens, Vectors, unit_length
from foundation.lazy_numpy import np
from foundation.outbound import bounded_http

BATCH = 32  # maximum number of texts in one request
ANSWER_BYTES = 20_000_000  # maximum number of bytes of a response; 32 vectors of 2,000 dimensions take about 1.5 MB


class SentenceTransformers:
    """A sentence-transformers model, chosen by name or path. It needs torch."""

    def __init__(self, model: str) -> None:
        if not model:
            raise EmbedderUnavailable("EMBEDDING_MODEL is empty: name a sentence-transformers model or its folder")
        try:
            from sentence_transformers import SentenceTransformer  # noqa: PLC0415 - torch takes seconds to import
        except ModuleNotFoundError:
            raise EmbedderUnavailable(MODELS_MISSING) from None
        self._model = SentenceTransformer(model, device="cpu")
        self.name = model
        self.dimensions = int(self._model.get_embedding_dimension())

    def embed(self, texts: Sequence[str], *, timeout_s: float = 30.0, as_query: bool = False) -> Vectors:
        vectors = self._model.encode(
            list(texts),
            batch_size=BATCH,
            normalize_embeddings=True,
            convert_to_numpy=True,
            show_progress_bar=False,
        )
        return np.asarray(vectors, dtype=np.float32)


class OpenAICompatible:
    """A server with the API `POST {url}/embeddings`, such as Ollama, vLLM, TEI and OpenAI."""

    def __init__(self, *, url: str, model: str, api_key: str, dimensions: int) -> None:
        if not model:
            raise EmbedderUnavailable("EMBEDDING_MODEL is empty: name a model that the server at EMBEDDING_URL has")
        self.name = model
        self.dimensions = dimensions
        headers = {"Accept-Encoding": "gzip"} | ({"Authorization": f"Bearer {api_key}"} if api_key else {})
        self._client = httpx.Client(headers=headers)
        self._address = f"{url.rstrip('/')}/embeddings"

    def embed(self, texts: Sequence[str], *, timeout_s: float = 30.0, as_query: bool = False) -> Vectors:
        deadline = time.monotonic() + timeout_s
        parts = [self._request(texts[start : start + BATCH], deadline) for start in range(0, len(texts), BATCH)]
        vectors = np.concatenate(parts) if parts else np.empty((0, self.dimensions), dtype=np.float32)
        return unit_length(vectors)

    def _request(self, texts: Sequence[str], deadline: float) -> Vectors:
        timeout_s = max(deadline - time.monotonic(), 0.001)
        body = {"model": self.name, "input": list(texts)}
        try:
            with self._client.stream("POST", self._address, json=body, timeout=timeout_s) as response:
                response.raise_for_status()
                content = bounded_http.read(response, ANSWER_BYTES, deadline)
            rows = sorted(json.loads(content)["data"], key=lambda row: row["index"])
            vectors = np.array([row["embedding"] for row in rows], dtype=np.float32)
        except (httpx.HTTPError, bounded_http.AnswerTooLarge) as error:
            raise EmbedderUnavailable(
                f"the request to {self._address} failed: {type(error).__name__}: {error}"
            ) from error
        except (KeyError, TypeError, ValueError) as error:
            raise EmbedderUnavailable(f"{self._address} returned something other than embeddings") from error
        if vectors.ndim != 2 or len(vectors) != len(texts):
            raise EmbedderUnavailable(f"{self._address} returned {len(rows)} vectors for {len(texts)} texts")
        return vectors


class Deterministic:
    """A substitute for a model, for tests and trials.

    The vector of a text is the sum of fixed random vectors, one for each of its words, scaled to unit length. So two
    texts are similar if they share words.
    """

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions
        self.name = f"deterministic-{dimensions}"

    def embed(self, texts: Sequence[str], *, timeout_s: float = 30.0, as_query: bool = False) -> Vectors:
        return self.embed_tokens(texts, timeout_s=timeout_s)[0]

    def embed_tokens(
        self, texts: Sequence[str], *, timeout_s: float = 30.0, as_query: bool = False
    ) -> tuple[Vectors, list[Tokens]]:
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        tokens = []
        for row, text in enumerate(texts):
            words = re.findall(r"\w+", text.lower()) or [text]
            states = np.stack([self._direction(word) for word in words])
            vectors[row] = states.sum(axis=0)
            tokens.append(Tokens(words, states, np.ones(len(words), dtype=np.float32)))
        units: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return units, tokens

    def _direction(self, word: str) -> Vectors:
        seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big")
        return np.random.default_rng(seed).standard_normal(self.dimensions, dtype=np.float32)
