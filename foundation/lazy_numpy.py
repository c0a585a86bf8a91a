"""numpy as `np`, imported at its first use. A server that only lists its tools starts 50 ms sooner without it."""

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
    """Import numpy now. Threads call this before they import a library that imports a submodule of numpy.

    onnxruntime is such a library. If one thread imports a submodule while another thread imports numpy itself, each
    waits for the other. Python resolves this deadlock by returning a half-initialized module, after which numpy can't
    be used in the process.
    """
    import_module("numpy")
