"""Text rendering of a catalog entity for an agent's context. The structured answer has all of it.

Every text of the catalog is put on one line and cut, so that none can imitate another line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from knowledge.responses import InsightResponse
from memories.rendering import entity_name

COLUMNS_SHOWN = 15  # unless the caller asks for a number of columns
NEIGHBORS_SHOWN = 8  # in each direction
INSIGHTS_SHOWN = 8
MAX_NAME = 120  # characters of a name, or of a column's type
MAX_DESCRIPTION = 600  # characters of the entity's description
MAX_DOCUMENT = 4_000  # characters of a document's text
MAX_COLUMN = 70  # characters of a column's description
MAX_NOTE = 200
MAX_INSIGHT = 200
LISTS = (
    ("owners", "owners"),
    ("domains", "domains"),
    ("products", "products"),
    ("tags", "tags"),
    ("terms", "glossary_terms"),
)


def entity_text(response: Mapping[str, Any], *, columns_from: int, columns_shown: int | None) -> str:
    """Render the answer of catalog_entity. If `columns_shown` is None, columns and texts are cut."""
    entity = response["entity"]
    names = entity.get("names", {})
    is_whole = columns_shown is not None
    lines = [f"{_short(entity['name'], MAX_NAME)} ({entity['urn']})"]
    lines.append(_short(entity["description"], None if is_whole else MAX_DESCRIPTION) or "no description")
    if entity["deprecated"]:
        lines.append(f"deprecated: {_short(entity['deprecation_note'], MAX_NOTE) or 'yes'}")
    for title, key in LISTS:
        lines += [f"{title}: {', '.join(_name(urn, names) for urn in entity[key])}"] if entity.get(key) else []
    lines += [f"link: {_short(' '.join(link.values()), MAX_NOTE)}" for link in entity.get("links", [])]
    lines += [
        f"property {_name(urn, names)}: {_short(', '.join(map(str, values)), MAX_NOTE)}"
        for urn, values in entity.get("structured_properties", {}).items()
    ]
    lines += [f"text: {_short(entity['text'], None if is_whole else MAX_DOCUMENT)}"] if entity.get("text") else []
    columns = entity.get("columns", [])[: COLUMNS_SHOWN if columns_shown is None else columns_shown]
    if columns:
        last = columns_from + len(columns)
        left = entity["columns_total"] - last
        more = f", go on with columns_from {last}" if left > 0 else ""
        lines.append(f"columns {columns_from + 1} to {last} of {entity['columns_total']}{more}:")
    lines += [_column(column, names, None if is_whole else MAX_COLUMN) for column in columns]
    for direction in ("upstream", "downstream"):
        lines += _neighbors(direction, entity.get(direction, []))
    lines += _insights(response["insights"])
    lines += [_caveat(caveat) for caveat in response.get("caveats", [])]
    lines += [f"degraded: {_short(entity['note'], None)}"] if entity.get("degraded") else []
    lines.append(response["about"])
    return "\n".join(lines)


def _column(column: Mapping[str, Any], names: Mapping[str, str], most: int | None) -> str:
    kind = _short(column.get("type") or "", MAX_NAME)
    labels = [_name(urn, names) for urn in [*column.get("tags", []), *column.get("terms", [])]]
    parts = [_short(column["column"], None), kind, "" if column.get("nullable", True) else "not null"]
    head = "  " + " ".join(filter(None, parts))
    text = _short(column.get("description") or "", most)
    return head + (f": {text}" if text else "") + (f" [{', '.join(labels)}]" if labels else "")


def _neighbors(direction: str, urns: Sequence[str]) -> list[str]:
    """Name data sets, and give the URNs of others, which no name finds."""
    if not urns:
        return []
    shown = [entity_name(urn) if urn.startswith("urn:li:dataset:") else urn for urn in urns[:NEIGHBORS_SHOWN]]
    more = " and more: catalog_lineage" if len(urns) > NEIGHBORS_SHOWN else ""
    return [f"{direction}: {', '.join(_short(name, None) for name in shown)}{more}"]


def _insights(insights: Sequence[InsightResponse]) -> list[str]:
    lines = [
        f"insight, {insight['state']}: {_short(insight['insight_text'], MAX_INSIGHT)} "
        f"({insight['captured_by']}; {insight['created_at'][:10]}; {insight['id']})"
        for insight in insights[:INSIGHTS_SHOWN]
    ]
    return [*lines, "and more insights"] if len(insights) > INSIGHTS_SHOWN else lines


def _caveat(caveat: Mapping[str, Any]) -> str:
    parts = (caveat["created_by"], _short(caveat["why"], MAX_NOTE), caveat["id"])
    return f"caveat from upstream: {_short(caveat['content'], MAX_INSIGHT)} ({'; '.join(parts)})"


def _name(urn: str, names: Mapping[str, str]) -> str:
    return _short(names.get(urn) or entity_name(urn), MAX_NAME)


def _short(text: str, most: int | None) -> str:
    line = " ".join(text.split())
    return line if most is None or len(line) <= most else f"{line[: most - 1]}…"
