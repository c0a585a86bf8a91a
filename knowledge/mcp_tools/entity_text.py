"""Text rendering of a catalog entity for an agent's context. The structured answer has all of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from knowledge.responses import InsightResponse
from memories.rendering import entity_name

COLUMNS_SHOWN = 15  # unless the caller asks for a number of columns
NEIGHBORS_SHOWN = 8  # in each direction
INSIGHTS_SHOWN = 8
MAX_DESCRIPTION = 600  # characters of the entity's description
MAX_DOCUMENT = 4_000  # characters of a document's text
MAX_COLUMN = 70  # characters of a column's description
MAX_NOTE = 200
MAX_INSIGHT = 200  # characters of an insight


def entity_text(response: Mapping[str, Any], *, columns_from: int, columns_shown: int) -> str:
    entity = response["entity"]
    names = entity.get("names", {})
    lines = [f"{entity['name']} ({entity['urn']})"]
    lines += [_short(entity["description"], MAX_DESCRIPTION)] if entity.get("description") else ["no description"]
    if entity["deprecated"]:
        lines.append(f"deprecated: {_short(entity['deprecation_note'], MAX_NOTE) or 'yes'}")
    for title, key in (("owners", "owners"), ("domains", "domains"), ("tags", "tags"), ("terms", "glossary_terms")):
        lines += [f"{title}: {', '.join(_name(urn, names) for urn in entity[key])}"] if entity.get(key) else []
    lines += [f"link: {_short(' '.join(link.values()), MAX_NOTE)}" for link in entity.get("links", [])]
    lines += [
        f"property {_name(urn, names)}: {_short(', '.join(map(str, values)), MAX_NOTE)}"
        for urn, values in entity.get("structured_properties", {}).items()
    ]
    lines += [f"text: {_short(entity['text'], MAX_DOCUMENT)}"] if entity.get("text") else []
    columns = entity.get("columns", [])[:columns_shown]
    if columns:
        last = columns_from + len(columns)
        left = entity["columns_total"] - last
        more = f", go on with columns_from {last}" if left > 0 else ""
        lines.append(f"columns {columns_from + 1} to {last} of {entity['columns_total']}{more}:")
    lines += [_column(column, names) for column in columns]
    for direction in ("upstream", "downstream"):
        lines += _neighbors(direction, entity.get(direction, []))
    lines += _insights(response["insights"])
    lines += [
        f"caveat from upstream: {_short(caveat['content'], MAX_INSIGHT)} ({caveat['created_by']}; {caveat['why']})"
        for caveat in response.get("caveats", [])
    ]
    lines += [f"degraded: {entity['note']}"] if entity.get("degraded") else []
    lines.append(response["about"])
    return "\n".join(lines)


def _column(column: Mapping[str, Any], names: Mapping[str, str]) -> str:
    kind = str(column.get("type") or "").strip()
    labels = [_name(urn, names) for urn in [*column.get("tags", []), *column.get("terms", [])]]
    parts = [f"  {column['column']}", kind, "" if column.get("nullable", True) else "not null"]
    head = " ".join(filter(None, parts))
    text = _short(column.get("description") or "", MAX_COLUMN)
    return head + (f": {text}" if text else "") + (f" [{', '.join(labels)}]" if labels else "")


def _neighbors(direction: str, urns: Sequence[str]) -> list[str]:
    if not urns:
        return []
    shown = ", ".join(entity_name(urn) for urn in urns[:NEIGHBORS_SHOWN])
    left = len(urns) - NEIGHBORS_SHOWN
    return [f"{direction}: {shown}" + (f" and {left} more: catalog_lineage" if left > 0 else "")]


def _insights(insights: Sequence[InsightResponse]) -> list[str]:
    lines = [
        f"insight, {insight['state']}: {_short(insight['insight_text'], MAX_INSIGHT)} "
        f"({insight['captured_by']}; {insight['created_at'][:10]}; {insight['id']})"
        for insight in insights[:INSIGHTS_SHOWN]
    ]
    left = len(insights) - INSIGHTS_SHOWN
    return [*lines, f"and {left} more insights"] if left > 0 else lines


def _name(urn: str, names: Mapping[str, str]) -> str:
    return names.get(urn) or entity_name(urn)


def _short(text: str, most: int) -> str:
    """Return a text on one line, so that it can't imitate another line."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
