"""Let each service that a test calls run under the database identity of its caller, as it does behind a channel."""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from types import FunctionType, ModuleType
from typing import Any

from foundation.database import identity
from foundation.people.caller import Caller

PACKAGES = ("foundation", "memories", "knowledge", "analysis", "memory_project")


def wrap_services() -> None:
    """Wrap all functions with a parameter `caller`. Call this before a test module imports one of them."""
    wrappers = {
        function: acting(function)
        for module in _modules()
        for function in vars(module).values()
        if isinstance(function, FunctionType) and function.__module__ == module.__name__ and _has_caller(function)
    }
    for module in [*sys.modules.values()]:
        if module.__name__.partition(".")[0] in PACKAGES:
            for name, value in [*vars(module).items()]:
                if isinstance(value, FunctionType) and value in wrappers:
                    setattr(module, name, wrappers[value])


def acting(function: FunctionType) -> Callable[..., Any]:
    signature = inspect.signature(function)

    @functools.wraps(function)
    def wrapper(*arguments: Any, **options: Any) -> Any:
        caller = signature.bind_partial(*arguments, **options).arguments.get("caller")
        is_outermost = identity.current() == identity.NOBODY and isinstance(caller, Caller)
        with identity.acting_as(caller) if is_outermost else nullcontext():
            return function(*arguments, **options)

    return wrapper


def _has_caller(function: FunctionType) -> bool:
    return (
        "caller" in function.__code__.co_varnames[: function.__code__.co_argcount + function.__code__.co_kwonlyargcount]
    )


def _modules() -> Iterator[ModuleType]:
    for package in map(importlib.import_module, PACKAGES):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not any(part in found.name for part in (".migrations", ".management", "__main__", ".asgi", ".wsgi")):
                yield importlib.import_module(found.name)
