"""Calibration of models that are chosen by name or URL.

Thresholds, such as that of near-duplicates, are on the scale of MiniLM's cosines, where unrelated texts are around 0.
Many models give any two texts a cosine of .5 or more, because their vectors have a large mean in common. It is computed
from the installation's own texts, subtracted from each vector, and the rest is scaled to unit length (Mu & Viswanath
2018, https://arxiv.org/abs/1702.01417). The mean is kept in a file, which all machines must have.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile

from django.conf import settings

from foundation.embedding.interface import Embedder, EmbedderUnavailable, Vectors, unit_length
from foundation.lazy_numpy import np

PROVIDERS = ("sentence-transformers", "openai")  # that need it; the packaged models are on that scale
MIN_TEXTS = 50  # below that, the mean is more of what the texts are about than of the model
MAX_TEXTS = 2_000


class CalibratedModel:
    """A model whose mean vector is subtracted. Its vectors have a name of their own, as they are others."""

    def __init__(self, model: Embedder, mean: Vectors) -> None:
        self._model = model
        self._mean = mean
        self.name = _name(model.name, mean)
        self.dimensions = model.dimensions

    def embed(self, texts: Sequence[str], *, timeout_s: float = 30.0, as_query: bool = False) -> Vectors:
        vectors = self._model.embed(texts, timeout_s=timeout_s, as_query=as_query)
        if vectors.shape[-1] != len(self._mean):
            raise EmbedderUnavailable(
                f"the calibration of {self._model.name} has {len(self._mean)} dimensions, and its vectors have "
                f"{vectors.shape[-1]}: run the command `embed --calibrate` again"
            )
        return unit_length(vectors - self._mean)


def calibrated(model: Embedder) -> Embedder:
    """Return the model with the calibration that this machine has for it, if any."""
    mean = _mean_of(model.name)
    return model if mean is None else CalibratedModel(model, mean)


def is_calibrated(model: str) -> bool:
    return _file_of(model).exists()


def name_of_vectors(model: str) -> str:
    """Return the name under which vectors of this model are stored."""
    mean = _mean_of(model)
    return model if mean is None else _name(model, mean)


def fit(model: Embedder, texts: Sequence[str], timeout_s: float) -> Path:
    """Compute the mean vector of texts, keep it for the next loads of the model, and return its file."""
    mean = model.embed(texts, timeout_s=timeout_s).mean(axis=0).astype(np.float32)
    file = _file_of(model.name)
    file.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=file.parent, delete=False) as part:
        part.write(mean.tobytes())
    os.chmod(part.name, 0o644)  # other accounts may run the other processes
    os.replace(part.name, file)
    return file


def drop(model: str) -> bool:
    """Forget the calibration of a model. Return False if there is none."""
    is_there = is_calibrated(model)
    _file_of(model).unlink(missing_ok=True)
    return is_there


def _file_of(model: str) -> Path:
    return Path(settings.COMMONPLACE_HOME) / "models" / f"{hashlib.sha256(model.encode()).hexdigest()[:16]}.mean"


def _mean_of(model: str) -> Vectors | None:
    try:
        content = _file_of(model).read_bytes()
        mean: Vectors = np.frombuffer(content, dtype=np.float32)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise EmbedderUnavailable(f"the calibration of {model} can't be read: {error}") from error
    return mean


def _name(model: str, mean: Vectors) -> str:
    return f"{model[:180]} #{hashlib.sha256(mean.tobytes()).hexdigest()[:8]}"
