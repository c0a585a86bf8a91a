"""Parts of the sentences of a story."""

from __future__ import annotations

from typing import Any

from tests.model.entities import Entity
from tests.model.expected import Text


def about(entities: list[str], columns: dict[str, set[str]], text: Text) -> str:
    listed = _listed(columns)
    parts = [f" about {', '.join(entities)}" if entities else ""]
    parts += [f", listing {', '.join(listed)}"] if listed else []
    parts += [f", naming {text.entity}.{text.column} ({text.style})"] if text.column else []
    return "".join(parts)


def edited(changes: dict[str, Any]) -> str:
    parts = []
    if "text" in changes:
        parts.append("a new text" + about([], {}, changes["text"]))
    if "entities" in changes:
        parts.append(f"it is about {', '.join(changes['entities']) or 'nothing'}")
    if "columns" in changes:
        parts.append(f"it lists {', '.join(_listed(changes['columns'])) or 'no columns'}")
    if "ends" in changes:
        parts.append(f"it ends {changes['ends'] or 'never'}")
    if "tags" in changes:
        parts.append("its tags")
    return ", ".join(parts)


def changed(entity: Entity, exists: bool, columns: dict[str, tuple[str, bool]]) -> str:
    if exists != entity.exists:
        return f"others {'add' if exists else 'remove'} {entity.name}"
    dropped, added = entity.columns.keys() - columns.keys(), columns.keys() - entity.columns.keys()
    changed = [name for name in columns.keys() & entity.columns.keys() if columns[name] != entity.columns[name]]
    parts = [f"drop {name}" for name in dropped] + [f"add {name}" for name in added]
    parts += [f"change {name} to {columns[name]}" for name in changed]
    return f"others {' and '.join(parts) or 'ingest again'} in {entity.name}"


def _listed(columns: dict[str, set[str]]) -> list[str]:
    return [f"{name}.{column}" for name, listed in columns.items() for column in sorted(listed)]
