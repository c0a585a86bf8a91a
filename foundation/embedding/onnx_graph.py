"""Builder of ONNX graphs for ONNX Runtime, and the folder in which written graphs are kept.

`onnx` is imported when a graph is written, which happens once per machine.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from foundation.lazy_numpy import np

OPSET = 18  # version of ONNX's standard operators
FUSED = "com.microsoft"  # domain of ONNX Runtime's own operators, most of which fuse several standard operators


def session_of(graph: Path) -> Any:
    """Load a graph. Its threads leave the cores to others while they wait."""
    import onnxruntime  # noqa: PLC0415 - 30 ms and 30 MB that only embedding processes need

    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])


def graph_file(name: str, weights: Path, version: str, cache: Path, write: Callable[[Path], None]) -> Path:
    """Return the ONNX file of these weights in `cache`. Let `write` write it first if it is missing.

    Files are renamed into place, so several processes may do this at once.
    """
    stat = weights.stat()
    # The pointer file is named after the size and modification time of the weights, so that most starts need not hash
    # them.
    pointer = cache / f"{name}-{stat.st_size}-{int(stat.st_mtime)}-v{version}.json"
    if pointer.exists():
        file = cache / str(json.loads(pointer.read_text())["file"])
        if file.exists():
            return file
    digest = hashlib.sha256(weights.read_bytes()).hexdigest()[:16]
    file = cache / f"{name}-{digest}-v{version}.onnx"
    cache.mkdir(parents=True, exist_ok=True)
    if not file.exists():
        descriptor, draft = tempfile.mkstemp(dir=cache, suffix=".draft")
        os.close(descriptor)
        write(Path(draft))
        os.replace(draft, file)
    descriptor, draft = tempfile.mkstemp(dir=cache, suffix=".draft")
    with os.fdopen(descriptor, "w") as handle:
        json.dump({"file": file.name}, handle)
    os.replace(draft, pointer)
    return file


class ModelGraph:
    """A graph with the inputs `input_ids` and `attention_mask`. Calling it adds an operator.

    `weights` maps names to arrays.
    """

    def __init__(self, weights: Mapping[str, Any]) -> None:
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
        """Add an operator with one output, and return the name of the output."""
        (output,) = self.split(operator, *inputs, outputs=1, **attributes)
        return output

    def split(self, operator: str, *inputs: str, outputs: int, **attributes: Any) -> Sequence[str]:
        """Add an operator with several outputs, and return their names."""
        names = [f"{operator}_{len(self.nodes)}_{number}" for number in range(outputs)]
        self.nodes.append(self._onnx.helper.make_node(operator, list(inputs), names, **attributes))
        return names

    def layer_norm(self, x: str, name: str, epsilon: float) -> str:
        scale = self.weight(f"{name}.weight")
        shift = self.weight(f"{name}.bias")
        return self("LayerNormalization", x, scale, shift, axis=-1, epsilon=epsilon)

    def skip_norm(self, product: str, residual: str, dense: str, norm: str, epsilon: float) -> str:
        """Add the bias of a dense layer and the residual to the layer's product, and apply the layer norm."""
        shifts = [self.weight(name) for name in (f"{norm}.weight", f"{norm}.bias", f"{dense}.bias")]
        return self("SkipLayerNormalization", product, residual, *shifts, epsilon=epsilon, domain=FUSED)

    def positions(self, table: str) -> str:
        """Return the rows of a table of positions for the length of the input."""
        length = self(
            "Slice", self("Shape", "input_ids"), self.constant("i1", np.array([1])), self.constant("i2", np.array([2]))
        )
        return self("Slice", self.weight(table), self.constant("i0", np.array([0])), length)

    def mask(self) -> str:
        return self("Cast", "attention_mask", to=self._onnx.TensorProto.INT32)

    def pool(self, hidden: str) -> None:
        """Add the mean over the tokens that are not padding, scaled to unit length, as the output `embedding`."""
        axis = self.constant("i1", np.array([1]))
        weights = self("Cast", self("Unsqueeze", "attention_mask", self.constant("axis_2", np.array([2]))), to=1)
        total = self("ReduceSum", self("Mul", hidden, weights), axis, keepdims=0)
        mean = self("Div", total, self("ReduceSum", weights, axis, keepdims=0))
        length = self("Sqrt", self("ReduceSum", self("Mul", mean, mean), axis, keepdims=1))
        self("Div", mean, self("Max", length, self.constant("tiny", np.float32(1e-12))))
        self.nodes[-1].output[0] = "embedding"

    def sum_as_tokens(self, layers: Sequence[str]) -> None:
        """Add the sum of these layers' hidden states as the output `tokens`."""
        self("Sum", *layers)
        self.nodes[-1].output[0] = "tokens"

    def save(self, name: str, hidden_size: int, target: Path, *, has_tokens: bool) -> None:
        """Write the graph with the outputs `embedding` (batch, hidden size) and perhaps `tokens` (batch, tokens, …)."""
        onnx = self._onnx
        symbols = ["batch", "tokens"]
        inputs = [
            onnx.helper.make_tensor_value_info(each, onnx.TensorProto.INT64, symbols)
            for each in ("input_ids", "attention_mask")
        ]
        shapes = {"embedding": ["batch", hidden_size]}
        if has_tokens:
            shapes["tokens"] = [*symbols, hidden_size]
        outputs = [
            onnx.helper.make_tensor_value_info(each, onnx.TensorProto.FLOAT, shape) for each, shape in shapes.items()
        ]
        graph = onnx.helper.make_graph(self.nodes, name, inputs, outputs, list(self.constants.values()))
        opsets = [onnx.helper.make_opsetid("", OPSET), onnx.helper.make_opsetid(FUSED, 1)]
        proto = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)
        onnx.checker.check_model(proto)
        onnx.save(proto, str(target))
