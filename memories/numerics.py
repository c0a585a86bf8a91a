"""numpy as `np`, imported with the first array. A server that lists its tools makes none, and starts 50 ms sooner."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from django.utils.functional import SimpleLazyObject

if TYPE_CHECKING:
    import numpy as np
else:
    np = SimpleLazyObject(lambda: import_module("numpy"))

__all__ = ["np"]
