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
LABELS = {  # key of the answer → what its line begins with
    "owners": "owners",
    "domains": "domains",
    "products": "products",
    "tags": "tags",
    "glossary_terms": "terms",
}


def entity_text(response: Mapping[str, Any], *, columns_from: int, columns_shown: int | None) -> str:
    """Render the answer of catalog_entity. If `columns_shown` is None, columns and texts are cut."""
    entity = response["entity"]
    names = entity.get("names", {})
    is_cut = columns_shown is None
    shown = entity.get("columns", [])[: COLUMNS_SHOWN if is_cut else columns_shown]
    lines = [
        f"{_short(entity['name'], MAX_NAME)} ({entity['urn']})",
        *_description(entity, is_cut=is_cut),
        *_labels(entity, names),
        *_columns(shown, columns_from, entity["columns_total"]),
    ]
    lines += [_column(column, names, MAX_COLUMN if is_cut else None) for column in shown]
    for direction in ("upstream", "downstream"):
        lines += _neighbors(direction, entity.get(direction, []))
    lines += _insights(response["insights"])
    lines += [_caveat(caveat) for caveat in response.get("caveats", [])]
    if entity.get("degraded"):
        lines.append(f"degraded: {_short(entity['note'], None)}")
    return "\n".join([*lines, response["about"]])


def _description(entity: Mapping[str, Any], *, is_cut: bool) -> list[str]:
    """Return the description, whether the entity is deprecated, and the text of a document."""
    lines = [_short(entity["description"], MAX_DESCRIPTION if is_cut else None) or "no description"]
    if entity["deprecated"]:
        lines.append(f"deprecated: {_short(entity['deprecation_note'], MAX_NOTE) or 'yes'}")
    if entity.get("text"):
        lines.append(f"text: {_short(entity['text'], MAX_DOCUMENT if is_cut else None)}")
    return lines


def _labels(entity: Mapping[str, Any], names: Mapping[str, str]) -> list[str]:
    """Return lines for owners, tags and the like, for links, and for properties."""
    lines = []
    for key, label in LABELS.items():
        if urns := entity.get(key):
            lines.append(f"{label}: {', '.join(_name(urn, names) for urn in urns)}")
    for link in entity.get("links", []):
        lines.append(f"link: {_short(' '.join(link.values()), MAX_NOTE)}")
    for urn, values in entity.get("structured_properties", {}).items():
        lines.append(f"property {_name(urn, names)}: {_short(', '.join(map(str, values)), MAX_NOTE)}")
    return lines


def _columns(shown: Sequence[Any], columns_from: int, total: int) -> list[str]:
    """Return the line above the columns, which says how to get the others."""
    if not shown:
        return []
    last = columns_from + len(shown)
    place = f"columns {columns_from + 1} to {last} of {total}"
    if last < total:
        return [f"{place}, go on with columns_from {last}:"]
    return [f"{place}:"]


def _column(column: Mapping[str, Any], names: Mapping[str, str], most: int | None) -> str:
    line = f"  {_short(column['column'], None)}"
    if kind := _short(column.get("type") or "", MAX_NAME):
        line += f" {kind}"
    if not column.get("nullable", True):
        line += " not null"
    if text := _short(column.get("description") or "", most):
        line += f": {text}"
    if labels := [_name(urn, names) for urn in [*column.get("tags", []), *column.get("terms", [])]]:
        line += f" [{', '.join(labels)}]"
    return line


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
    if len(insights) > INSIGHTS_SHOWN:
        lines.append("and more insights")
    return lines


def _caveat(caveat: Mapping[str, Any]) -> str:
    parts = (caveat["created_by"], _short(caveat["why"], MAX_NOTE), caveat["id"])
    return f"caveat from upstream: {_short(caveat['content'], MAX_INSIGHT)} ({'; '.join(parts)})"


def _name(urn: str, names: Mapping[str, str]) -> str:
    return _short(names.get(urn) or entity_name(urn), MAX_NAME)


def _short(text: str, most: int | None) -> str:
    """Return a text on one line, cut to so many characters."""
    line = " ".join(text.split())
    if most is None or len(line) <= most:
        return line
    return f"{line[: most - 1]}…"
