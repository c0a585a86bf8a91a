"""Context for agents' sessions, which hooks ask for: a briefing at the start, memories for prompts and tool calls.

A hook holds up the agent, so each service gives up after HOOK_S, or twice that at the start, and returns nothing then.
Within a session, a memory is brought once, until it changes or the agent's context is emptied.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Annotated
from uuid import UUID

from django.conf import settings
from django.db import OperationalError, transaction
from django.utils.translation import gettext
from pydantic import AfterValidator, Field
from typing_extensions import TypedDict

from foundation.operations.fields import URN_LENGTH, URN_PATTERN, Text, validation_error
from foundation.operations.operation import Operation
from foundation.people.caller import Caller
from foundation.tools.budget import estimated_tokens
from foundation.tools.declaration import Call
from knowledge.context import briefing, uses
from knowledge.context.attached_memories import is_unchanged, knowledge_about, version
from knowledge.context.briefing import Briefing, BriefingSubject
from knowledge.context.call_match import MAX_ATTACHED
from knowledge.context.prompt_match import memories_for_prompt
from knowledge.context.time_limit import is_canceled, set_timeout
from knowledge.entities import entity_linking
from memories.models import MemoryRecord
from memories.rendering import entity_name
from memories.use import attachments
from memories.use.attachments import LastImpression
from memory_project.agents.briefing import page_of
from memory_project.agents.embedded_sql import statements_in
from memory_project.agents.quotations import ABOUT, CLOSING, OPENING, fitting, framed, plain, quoted, source
from memory_project.agents.recent_work import last_day_before_today, recent_entities

MAX_PROMPT = 100_000  # characters
MAX_STATEMENT = 100_000  # characters
MAX_ENTITIES = 50
START_TOKENS = 1_500  # maximum size of a briefing, which keeps it below 8,000 characters, too
HOOK_S = 0.7  # seconds after which a hook of an agent gets no memories
START_PATIENCE = 2.0  # factor of HOOK_S at the start of a session, where nobody waits for an answer yet
MAX_TOKENS, MAX_CHARACTERS = 500, 1_500  # maximum size of what a prompt or a tool call brings
PROMPT_MEMORIES = 3  # maximum number of memories for a prompt
MAX_TEXT = 280  # characters that are quoted of a memory
MAX_REASON = 80
RESUMED = "resume"  # source of a session that continues with its context
PROMPT, TOOL = "hooks/prompt", "hooks/tool"
REPOSITORY = re.compile(r"[^\s,/]+(?:/[^\s,/]+)+")


class HookResponse(TypedDict):
    """`text` is "" if there is nothing to say. Otherwise its first and last line are tags."""

    text: str
    memory_ids: list[str]
    tokens: int


def _repository(text: str) -> str:
    name = text.strip("/").removesuffix(".git")
    if name and not REPOSITORY.fullmatch(name):
        raise validation_error(
            gettext("%(name)r is not a repository") % {"name": name[:80]}, gettext("host/owner/name")
        )
    return name


Repository = Annotated[str, Text(0, 300), AfterValidator(_repository)]
# Names that the catalog does not know are ignored: a program's configuration may be older than the catalog.
Entities = Annotated[list[Annotated[str, Text(1, URN_LENGTH)]], Field(max_length=MAX_ENTITIES)]


class StartSession(Operation):
    """Brief an agent at the start of a session"""

    session: Annotated[str, Text(1, 200)] = Field(description="The program's name of the session.")
    program: Annotated[str, Text(1, 60)] = Field(description="The agent's program.")
    source: Annotated[str, Text(0, 40)] = Field(
        "", description="Why it starts. With `resume`, what was brought before is left out."
    )
    repository: Repository | None = Field(None, description="The git remote, as host/owner/name.")
    entities: Entities = Field([], description="Entities that the session is about, by URN or name.")
    persona: Annotated[str, Text(0, 60)] | None = Field(
        None, description="Only memories of this persona, and those for everyone."
    )


class ReadPrompt(Operation):
    """Bring memories that match a prompt"""

    session: Annotated[str, Text(1, 200)]
    program: Annotated[str, Text(1, 60)]
    repository: Repository | None = None
    entities: Entities = Field([], description="Among memories that match, those about these come first.")
    prompt: Annotated[str, Text(0, MAX_PROMPT)]


class SeeTool(Operation):
    """Bring memories about the tables of SQL that an agent is about to run"""

    session: Annotated[str, Text(1, 200)]
    program: Annotated[str, Text(1, 60)]
    repository: Repository | None = None
    tool: Annotated[str, Text(0, 200)] = Field("", description="The agent's tool.")
    statement: Annotated[str, Text(0, MAX_STATEMENT)] = Field(
        description="SQL, or a command line that contains SQL, such as psql -c."
    )


def start_session(caller: Caller, operation: StartSession) -> HookResponse:
    """Return a briefing on the repository and the entities, or if none are given, on what the caller worked on lately.

    The persona only narrows the briefing. Of one that the caller does not hold, there is nothing to read.
    """
    return _in_time(caller, lambda deadline: _start(caller, operation, deadline), patience=START_PATIENCE)


def _start(caller: Caller, operation: StartSession, deadline: float) -> HookResponse:
    caller = attachments.in_session(caller, operation.program, operation.session)
    with transaction.atomic():
        set_timeout(deadline)
        since = last_day_before_today(caller)
        repository = operation.repository or ""
        urns = _urns(operation.entities)
        if not repository and not urns:
            urns = recent_entities(caller)
        found = briefing.brief(caller, BriefingSubject(urns, repository, operation.persona or ""), since)
        is_resumed = operation.source == RESUMED
        recent = attachments.recent_impressions(caller) if is_resumed else {}
        response, records = _page(found, since, recent)
        tool = f"{attachments.SESSION_START} {RESUMED}" if is_resumed else attachments.SESSION_START
        _record(caller, tool, records)
    return response


def _page(
    found: Briefing, since: datetime, recent: Mapping[UUID, LastImpression]
) -> tuple[HookResponse, Iterable[MemoryRecord]]:
    records = [point.record for points in found.points.values() for point in points]
    unchanged = frozenset(record.pk for record in records if is_unchanged(record, recent) or not record.is_attached)
    room = START_TOKENS - estimated_tokens(f"{OPENING}\n{ABOUT}\n{CLOSING}\n")
    page = page_of(found, since, max_tokens=room, leave_out=unchanged)
    return _response(framed(page.text.splitlines()), page.records), page.records.values()


def read_prompt(caller: Caller, operation: ReadPrompt) -> HookResponse:
    """Return at most PROMPT_MEMORIES memories that match the prompt and were not brought in this session."""
    return _in_time(caller, lambda deadline: _prompt(caller, operation, deadline))


def _prompt(caller: Caller, operation: ReadPrompt, deadline: float) -> HookResponse:
    matching = memories_for_prompt(caller, operation.prompt, deadline) if operation.prompt else []
    if not matching:
        return nothing()
    caller = attachments.in_session(caller, operation.program, operation.session)
    with transaction.atomic():
        set_timeout(deadline)
        urns = set(_urns(operation.entities))
        tags = set(BriefingSubject(repository=operation.repository).tags) if operation.repository else set()
        # A stable sort: within both groups, the best match comes first.
        matching.sort(key=lambda record: urns.isdisjoint(record.entity_urns) and tags.isdisjoint(record.tags))
        whys = {record.pk: _about(record) for record in matching}
        return _bring(caller, PROMPT, _not_shown(caller, matching)[:PROMPT_MEMORIES], whys)


def see_tool(caller: Caller, operation: SeeTool) -> HookResponse:
    """Return the memories that our own SQL tool would attach to these statements, unless the session has had them."""
    statements = statements_in(operation.statement)
    if not statements:
        return nothing()
    return _in_time(caller, lambda deadline: _tool(caller, operation, statements, deadline))


def _tool(caller: Caller, operation: SeeTool, statements: Sequence[str], deadline: float) -> HookResponse:
    call = Call("query_sql", {f"sql{number}": sql for number, sql in enumerate(statements)}, {})
    limit_ms = max(round(1000 * (deadline - time.monotonic())), 1)
    knowledge = knowledge_about(caller, call, {}, limit_ms=limit_ms)
    entries = [*knowledge.best_first, *knowledge.neighbors]
    caller = attachments.in_session(caller, operation.program, operation.session)
    with transaction.atomic():
        set_timeout(deadline)
        whys = {entry.record.pk: entry.why for entry in entries}
        recent = attachments.recent_impressions(caller)
        uses.note_uses(recent, knowledge.subject)
        records = [entry.record for entry in entries]
        fresh = [record for record in records if not is_unchanged(record, recent)][:MAX_ATTACHED]
        return _bring(caller, TOOL, fresh, whys, uses.terms_beyond(fresh, knowledge.subject))


def nothing() -> HookResponse:
    return {"text": "", "memory_ids": [], "tokens": 0}


def _in_time(caller: Caller, work: Callable[[float], HookResponse], *, patience: float = 1.0) -> HookResponse:
    """Do the work until the deadline that it gets, unless the installation or the persona wants no memories unasked."""
    if not settings.MEMORY_CONTEXT or not caller.wants_context:
        return nothing()
    try:
        return work(time.monotonic() + patience * HOOK_S)
    except OperationalError as error:
        if not is_canceled(error):
            raise
    return nothing()


def _urns(names: Sequence[str]) -> list[str]:
    resolved = entity_linking.resolve([name for name in names if not URN_PATTERN.fullmatch(name)])
    urns = (name if URN_PATTERN.fullmatch(name) else resolved.get(name, "") for name in names)
    return list(dict.fromkeys(filter(None, urns)))


def _about(record: MemoryRecord) -> str:
    names = [entity_name(urn) for urn in record.entity_urns[:2]]
    return f"about {', '.join(names)}" if names else ""


def _not_shown(caller: Caller, records: Sequence[MemoryRecord]) -> list[MemoryRecord]:
    recent = attachments.recent_impressions(caller)
    return [record for record in records if not is_unchanged(record, recent)]


def _bring(
    caller: Caller,
    tool: str,
    records: Sequence[MemoryRecord],
    whys: Mapping[UUID, str],
    terms: Mapping[UUID, Sequence[int]] | None = None,
) -> HookResponse:
    lines = [_line(record, whys[record.pk]) for record in records]
    count = fitting(lines, characters=MAX_CHARACTERS, tokens=MAX_TOKENS)
    _record(caller, tool, records[:count], terms)
    return _response(framed(lines[:count]), {record.pk: record for record in records[:count]})


def _line(record: MemoryRecord, why: str) -> str:
    cited = [source(record.byline, record.created_at), record.pk.hex, *([plain(why, MAX_REASON)] if why else [])]
    return f"- {quoted(record.content, MAX_TEXT)} ({'; '.join(cited)})"


def _record(
    caller: Caller,
    tool: str,
    records: Iterable[MemoryRecord],
    terms: Mapping[UUID, Sequence[int]] | None = None,
) -> None:
    versions = {record.pk: version(record) for record in records}
    if versions:
        attachments.record_impressions(caller, tool, versions, terms)


def _response(text: str, records: Mapping[UUID, MemoryRecord]) -> HookResponse:
    return {"text": text, "memory_ids": [pk.hex for pk in records], "tokens": estimated_tokens(text)}
