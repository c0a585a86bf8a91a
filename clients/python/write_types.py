"""Write commonplace_client/types/answers.py from the OpenAPI document: `python clients/python/write_types.py`."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
DOCUMENT = HERE.parent.parent / "tests/data/interface/openapi.json"
FILE = HERE / "commonplace_client/types/answers.py"
NOTICE = (
    '''"""Types of answers. Written by write_types.py from the OpenAPI document. Change that, and run it again."""'''
)
# The answers that methods return, and those of their parts that have another name in the document. A name in the
# document may have the name of a group of addresses before it, because names are unique there.
SCHEMAS = {
    "Account": "Account", "Answered": "Appeal", "Applied": "Applied", "Briefing": "Briefing", "Captured": "Capture",
    "ChangeState": "Change", "Changed": "MemoriesChanged", "Changeset": "Changeset", "Context": "Context",
    "Corrected": "Corrected", "Decided": "InsightsDecided", "Declined": "Declined", "Draft": "Synthesis",
    "Erased": "Erased", "FoundTurn": "Turn", "FoundTurns": "Results", "History": "History",
    "HistoryEntry": "MemoriesChange", "Insight": "Insight", "Memory": "Memory", "OneInsight": "Insight",
    "OneMemory": "OneMemory", "Plan": "ChangesetsPreview", "Recall": "Recall", "Refused": "Refused",
    "Remembered": "Kept", "Report": "MemoriesReport", "Reported": "Reported", "Reports": "Reports",
    "Revised": "Revised", "RolledBack": "RolledBack", "Stored": "Stored", "Turn": "ConversationsTurn",
}  # fmt: skip
VERSIONED = {"Changed", "Erased", "OneInsight", "OneMemory", "Revised"}  # the client adds the version of the object
# What the document doesn't say, because the same text would be in the list of tools, which agents read.
DESCRIPTIONS = {
    "Question": "A curator's question about an earlier insight of yours.",
    "Insight": "Keys that don't apply to the insight's state are left out.",
    "OneInsight": "An insight with the version that was read.",
    "Decided": "`errors` has the insights that were not decided, each with the reason.",
    "ChangeState": "A change of a changeset, with the catalog's value before and after.",
    "Plan": "A preview. Nothing has been written.",
    "Turn": "A message of a conversation (tier `stm`), or what was kept of several (tier `ltm`).",
    "Similar": "An existing memory with nearly the same meaning.",
    "Remembered": "`existing` is true if you had already stored this text, so that nothing was added. If the memory "
    "names no entity, `entity_candidates` has the likeliest ones, and `settle` says what to do.",
    "OneMemory": "`chain` has the corrections of the memory, oldest first. `omitted` counts history entries that did "
    "not fit.",
    "Changed": "`etag` is empty if the object is gone or no longer visible to you.",
    "Report": "`is_settled` is true if the memory was verified, or its text changed, since the report.",
    "Recall": "`degraded` is true if a part of the search, such as embeddings, was unavailable. `note` says what to "
    "try.",
}
PYTHON = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}


class Writer:
    """Collects the definitions that the answers need, each after those of its parts."""

    def __init__(self, schemas: Mapping[str, Any]) -> None:
        self.schemas = schemas
        self.names = {schema: name for name, schema in SCHEMAS.items() if name != "OneInsight"}
        self.definitions: dict[str, str] = {}

    def name_of(self, schema: str) -> str:
        name = self.names.get(schema, schema)
        self.define(name, schema)
        return name

    def define(self, name: str, schema: str) -> None:
        if name in self.definitions:
            return
        self.definitions[name] = ""  # a part may contain its whole
        found = self.schemas[schema]
        required = set(found.get("required", ()))
        bases = "Versioned, TypedDict" if name in VERSIONED else "TypedDict"
        lines = [f"class {name}({bases}{'' if required else ', total=False'}):"]
        if description := DESCRIPTIONS.get(name) or found.get("description"):
            quoted = f'"""{" ".join(description.split())}"""'
            lines += [*textwrap.wrap(quoted, 116, initial_indent="    ", subsequent_indent="    "), ""]
        for key, value in found["properties"].items():
            kind = self.type_of(value)
            lines.append(f"    {key}: {kind}" if key in required or not required else f"    {key}: NotRequired[{kind}]")
        del self.definitions[name]
        self.definitions[name] = "\n".join(lines)

    def type_of(self, schema: Mapping[str, Any]) -> str:
        if "$ref" in schema:
            return self.name_of(schema["$ref"].rpartition("/")[2])
        if "anyOf" in schema:
            return " | ".join(dict.fromkeys(self.type_of(option) for option in schema["anyOf"]))
        if isinstance(schema.get("type"), list):
            return " | ".join(self.type_of({**schema, "type": kind}) for kind in schema["type"])
        match schema.get("type"):
            case "array":
                return f"list[{self.type_of(schema.get('items', {}))}]"
            case "object":
                values = schema.get("additionalProperties")
                return f"dict[str, {self.type_of(values) if isinstance(values, dict) else 'Any'}]"
            case None:
                return "Any"
            case kind:
                return PYTHON[kind]


def written() -> str:
    """Return what the file should contain."""
    writer = Writer(json.loads(DOCUMENT.read_text())["components"]["schemas"])
    for name, schema in SCHEMAS.items():
        writer.define(name, schema)
    names = "".join(f'    "{name}",\n' for name in sorted(writer.definitions))
    body = "\n\n\n".join(writer.definitions.values())
    used = [name for name in ("Any", "NotRequired", "TypedDict") if re.search(rf"\b{name}\b", body)]
    return (
        f"{NOTICE}\n\nfrom __future__ import annotations\n\nfrom typing import {', '.join(used)}\n\n"
        "from commonplace_client.types.arguments import Versioned\n\n"
        f"__all__ = [\n{names}]\n\n\n{body}\n"
    )


if __name__ == "__main__":
    FILE.write_text(written())
