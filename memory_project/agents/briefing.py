"""The briefing: a page of what an agent should know before it begins, made by extraction from memories and reviews."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, NotRequired
from uuid import UUID

from django.conf import settings
from django.utils import timezone
from django.utils.translation import gettext
from pydantic import Field
from typing_extensions import TypedDict

from foundation.cases.kinds import kinds_for
from foundation.links import url_for
from foundation.operations.errors import Invalid
from foundation.operations.fields import StartMoment, Urns
from foundation.operations.operation import Operation
from foundation.people.caller import Caller
from foundation.tools.budget import estimated_tokens
from knowledge.context import briefing
from knowledge.context.briefing import Briefing, BriefingPoint, BriefingSubject
from knowledge.debt.responses import HOW_TO_ANSWER, InterviewQuestionResponse, interview
from knowledge.news.analyst import CatalogChange
from memories.models import MemoryRecord
from memories.queries import MAX_BADGE, capped_counts
from memories.rendering import entity_name
from memories.responses import QUOTED
from memory_project.agents.quotations import plain, quoted, source
from memory_project.agents.recent_work import last_day_before_today, recent_entities

MIN_TOKENS, MAX_TOKENS = 200, 1_500
MAX_TEXT = 240  # characters that are quoted of a memory
MAX_REASON = 120  # characters that are quoted of a question or of a reason
ENTITIES_SHOWN = 2
CATALOG, WAITING, CASES = "catalog", "waiting", "cases"
# In the order of the text. The points of all kinds take turns until the room is used up.
HEADINGS = {
    briefing.ASKED: "Asked of you (answer the question; verify the memory if it still holds, supersede it if not):",
    briefing.DECIDED: "Decided on your proposals since {since}:",
    WAITING: "",
    CASES: "For the person to decide, in the inbox:",
    briefing.CHANGED: "Corrected or outdated since {since}:",
    CATALOG: "Changed in the catalog since {since}:",
    briefing.CONTESTED: "Contested:",
    briefing.UPSTREAM: "Caveats from upstream:",
    briefing.CERTAIN: "Certain (verified, or applied to the catalog):",
    briefing.REPOSITORY: "About this repository:",
    briefing.NEW: "New from colleagues since {since}:",
}
INTERVIEW = "Missing about entities that the person may know:"
NOTHING = (
    "Nothing is certain, changed, contested or asked of you about this yet. Try other entities, an earlier `since`, or "
    "memory_recall with a question."
)


class BriefMe(Operation):
    """Brief me on entities"""

    entities: Urns = Field([], description="By URN or name. If none, those you worked with lately.")
    since: StartMoment | None = Field(None, description="If none, your last call before today, at most 14 days ago.")
    interview: bool = Field(False, description="Also questions for the person.")
    max_tokens: Annotated[int, Field(ge=MIN_TOKENS, le=MAX_TOKENS, description="room for the briefing")] = MAX_TOKENS


class BriefingResponse(TypedDict):
    """`text` has one line for each point. `omitted` counts the points that did not fit."""

    text: str
    memory_ids: list[str]
    tokens: int
    since: str
    entities: list[str]
    omitted: NotRequired[int]
    questions: NotRequired[list[InterviewQuestionResponse]]
    about: str


@dataclass(frozen=True)
class BriefingLine:
    kind: str
    text: str
    records: Sequence[MemoryRecord] = ()  # the memories that it quotes


@dataclass(frozen=True)
class BriefingPage:
    """The lines of a briefing that fit, in the order of the text, without their headings."""

    lines: Sequence[BriefingLine]
    since: datetime
    omitted: int = 0

    @property
    def text(self) -> str:
        return "\n".join(_with_headings(self.lines, self.since, self.omitted))

    @property
    def records(self) -> dict[UUID, MemoryRecord]:
        return {record.pk: record for line in self.lines for record in line.records}


def brief_me(caller: Caller, operation: BriefMe) -> BriefingResponse:
    """Return the briefing of the caller. Raises Invalid if `since` is in the future."""
    since = operation.since or last_day_before_today(caller)
    if since > timezone.now():
        raise Invalid(gettext("is in the future"), field="since", allowed=gettext("an earlier time"))
    urns = operation.entities or recent_entities(caller)
    found = briefing.brief(caller, BriefingSubject(urns), since)
    page = page_of(found, since, max_tokens=operation.max_tokens, cases=_waiting_cases(caller))
    text = page.text or NOTHING
    response: BriefingResponse = {
        "text": text,
        "memory_ids": [pk.hex for pk in page.records],
        "tokens": estimated_tokens(text),
        "since": since.isoformat(timespec="seconds"),
        "entities": [entity_name(urn) for urn in urns],
        "about": QUOTED,
    }
    if page.omitted:
        response["omitted"] = page.omitted
    if operation.interview and (questions := interview(caller)):
        response["questions"] = questions
        lines = [f"- {plain(each['question'], MAX_TEXT)} (question_id {each['question_id']})" for each in questions]
        response["text"] = "\n".join([text, INTERVIEW, *lines, HOW_TO_ANSWER])
        response["tokens"] = estimated_tokens(response["text"])
    return response


def _waiting_cases(caller: Caller) -> str:
    """Return the numbers of cases that wait for the caller, and where they are. "" if none waits."""
    rows = {str(kind.title): kind.waiting(caller) for kind in kinds_for(caller) if kind.is_counted}
    counts = capped_counts(dict.fromkeys(rows, MAX_BADGE), **rows)
    parts = [f"{title}: {_up_to_badge(count)}" for title, count in counts.items() if count]
    return f"{', '.join(parts)} ({settings.COMMONPLACE_URL}{url_for('inbox', '')})" if parts else ""


def _up_to_badge(count: int) -> str:
    return str(count) if count <= MAX_BADGE else f"{MAX_BADGE}+"


def page_of(
    found: Briefing, since: datetime, *, max_tokens: int, leave_out: frozenset[UUID] = frozenset(), cases: str = ""
) -> BriefingPage:
    """Return as much of a briefing as fits. The memories in `leave_out` are left out and not counted.

    `cases` says what waits for the person in the inbox.
    """
    all_lines = _lines(found)
    if cases:
        all_lines[CASES] = [BriefingLine(CASES, f"- {cases}")]
    kinds = {kind: [line for line in lines if not leave_out & _ids(line)] for kind, lines in all_lines.items()}
    turns = itertools.zip_longest(*kinds.values())
    by_turn = [line for turn in turns for line in turn if line is not None]
    order = list(HEADINGS)
    chosen: list[BriefingLine] = []
    for line in by_turn:
        longer = sorted([*chosen, line], key=lambda line: order.index(line.kind))
        if estimated_tokens(BriefingPage(longer, since, len(by_turn)).text) <= max_tokens:
            chosen = longer
    return BriefingPage(chosen, since, len(by_turn) - len(chosen))


def _ids(line: BriefingLine) -> frozenset[UUID]:
    return frozenset(record.pk for record in line.records)


def _lines(found: Briefing) -> dict[str, list[BriefingLine]]:
    lines = {kind: [_line(kind, point) for point in points] for kind, points in found.points.items()}
    if found.catalog:
        lines[CATALOG] = [_catalog_line(change) for change in found.catalog]
    if found.waiting:
        count = "1 insight waits" if found.waiting == 1 else f"{found.waiting} insights wait"
        lines[WAITING] = [
            BriefingLine(WAITING, f"- {count} for your review: apply_knowledge with the action bulk_review")
        ]
    return lines


def _line(kind: str, point: BriefingPoint) -> BriefingLine:
    record = point.record
    other = point.other
    parts = [f"{quoted(record.content, MAX_TEXT)} ({_citation(record)})"]
    if point.note:
        reason = f" ({quoted(point.quote, MAX_REASON)})" if point.quote else ""
        parts.append(f"{plain(point.note, MAX_TEXT)}{reason}")
    if other is not None:
        verb = "now" if kind == briefing.CHANGED else "against"
        parts.append(f"{verb}: {quoted(other.content, MAX_TEXT)} ({_citation(other)})")
    return BriefingLine(kind, f"- {'; '.join(parts)}", [record, *([other] if other is not None else [])])


def _citation(record: MemoryRecord) -> str:
    names = [plain(entity_name(urn), MAX_REASON) for urn in record.entity_urns[:ENTITIES_SHOWN]]
    return "; ".join([source(record.byline, record.created_at), record.pk.hex, *names])


def _catalog_line(change: CatalogChange) -> BriefingLine:
    parts = ", ".join(str(part) for part in change.parts)
    return BriefingLine(CATALOG, f"- {plain(entity_name(change.urn), MAX_REASON)}: {parts} ({change.at:%Y-%m-%d})")


def _with_headings(lines: Sequence[BriefingLine], since: datetime, omitted: int) -> Iterator[str]:
    for kind, group in itertools.groupby(lines, key=lambda line: line.kind):
        if heading := HEADINGS[kind].format(since=f"{since:%Y-%m-%d}"):
            yield heading
        yield from (line.text for line in group)
    if omitted and lines:
        yield f"{omitted} more points did not fit."
