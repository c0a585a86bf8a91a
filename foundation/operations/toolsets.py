"""The toolsets that apps declare: groups of tools that agents choose from."""

from __future__ import annotations

from django.apps import apps


def toolsets() -> dict[str, list[str]]:
    """Return the dotted paths of each toolset's lists of tools, by the toolset's name.

    An app declares the paths as `toolsets` of its AppConfig. A toolset may have tools of several apps. A list is
    imported only when `foundation.tools.declaration.load_toolset` is called.
    """
    paths: dict[str, list[str]] = {}
    for config in reversed(list(apps.get_app_configs())):
        for name, path in getattr(config, "toolsets", {}).items():
            paths.setdefault(name, []).append(path)
    return paths
