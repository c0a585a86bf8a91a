"""numpy as `np`, imported with the first array. A server that lists its tools makes none, and starts 50 ms sooner."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from django.utils.functional import SimpleLazyObject

if TYPE_CHECKING:
    import numpy as np
else:
    np = SimpleLazyObject(lambda: import_module("numpy"))

__all__ = ["load", "np"]


def load() -> None:
    """Imports numpy now: a thread says so before it imports a library that asks for a part of numpy only, as
    onnxruntime does. Where one thread begins with a part while another begins with the whole, each waits for the
    other, Python gives one of them half a module, and that process never gets numpy again."""
    import_module("numpy")
