"""Prompts that the server offers: how to capture well, and those that curators have added."""

from __future__ import annotations

from django.db import close_old_connections
from mcp.server.mcpserver.prompts import Prompt
from mcp.types import GetPromptResult, PromptMessage, TextContent
from mcp.types import Prompt as OfferedPrompt

from knowledge.queries import curated_prompts


def capture_guidance() -> str:
    """When to capture an insight, when not to, and when to ask first."""
    return (
        "While you work with data, watch for what a colleague would need to know and the data does not say by itself: "
        "what a column really means, which rows to leave out, what replaced what, why a number looks wrong.\n\n"
        "Capture it with capture_insight when it is about company data, holds beyond today, and you can say where you "
        "know it from. Name the entities and columns, and suggest the change to the catalog if there is one.\n"
        "Use memory_manage remember instead for preferences and for what only this team needs.\n\n"
        "Do not capture what the catalog says already (look with catalog_entity), results of a single query, guesses, "
        "secrets, or personal data. If what you learned contradicts what is remembered, correct it with supersede "
        "instead of adding a second truth. If you are not sure, ask the person before you capture."
    )


def capture_this(topic: str = "") -> str:
    """Capture what we have just found out."""
    about = f" about {topic}" if topic else ""
    return (
        f"Look back over this conversation and pick what we found out{about} that colleagues should know. "
        "For each fact: check with memory_recall and catalog_entity what is known already; then show me the text "
        "you would capture, with its category, entities and suggested action; and capture it with capture_insight "
        "once I agree."
    )


BUILT_IN = [
    Prompt.from_function(capture_guidance, title="When to capture an insight"),
    Prompt.from_function(capture_this, title="Capture this"),
]


def offered() -> list[OfferedPrompt]:
    """The curated prompts, as they are advertised."""
    close_old_connections()
    try:
        return [
            OfferedPrompt(name=name, title=title, description="Added by a curator.")
            for name, (title, _) in sorted(curated_prompts().items())
        ]
    finally:
        close_old_connections()


def answer(name: str) -> GetPromptResult | None:
    """A curated prompt as a message of the user; None if there is none by that name."""
    close_old_connections()
    try:
        found = curated_prompts().get(name)
    finally:
        close_old_connections()
    if found is None:
        return None
    message = PromptMessage(role="user", content=TextContent(type="text", text=found[1]))
    return GetPromptResult(description=found[0], messages=[message])
