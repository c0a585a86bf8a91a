"""The debt of each entity, computed by a worker from memories, reviews, the catalog and counts of calls.

The table is replaced as a whole. Private memories don't count, because their numbers would tell that there are some.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import connection, transaction
from django.db.models import Exists, Q
from django.utils import timezone

from foundation.database.queryset_sql import CompiledQuery
from knowledge.catalog.entity_view import DESCRIPTIONS
from knowledge.contradictions import queries as contradictions
from knowledge.debt import closing, uses
from knowledge.models import (
    CatalogCursor,
    Contradiction,
    DebtReason,
    EntityDebt,
    Insight,
    InsightState,
    InterviewQuestion,
)
from knowledge.models import QuestionState as State
from knowledge.models.debt import EVERYONE
from memories.models import IN_USE, MemoryRecord, Visibility
from memories.queries import doubted, unresolved_marks

COMPUTED = "debt: computed"  # name of the cursor with the time of the last run
ANSWERS_COUNT = timedelta(days=90)  # after an answer, the debt is lower for as long
UNDESCRIBED = [kind for kind in DESCRIPTIONS if kind != "tag"]  # types of entities that should have a description

# used: counts of calls, as far as enough different people made them
# facts: memories by entity and by who may read them
# open_questions: insights whose authors have not answered a curator yet; curators of the persona see these
# undescribed: entities of the catalog without a description
# missing: entities about which anything is missing; the others would only make the table larger
# The last SELECT joins them by entity and persona. Entities that were removed from the catalog have no debt.
COMPUTE = """
    , used AS (
        SELECT urn, persona,
            CASE WHEN count(DISTINCT owner) FILTER (WHERE calls > 0) >= %s THEN sum(calls) ELSE 0 END AS calls,
            CASE WHEN count(DISTINCT owner) FILTER (WHERE recalled > 0) >= %s THEN sum(recalled) ELSE 0 END AS recalled,
            CASE WHEN count(DISTINCT owner) FILTER (WHERE unanswered > 0) >= %s THEN sum(unanswered) ELSE 0 END
                AS unanswered
        FROM entity_uses GROUP BY urn, persona
    ), facts AS (
        SELECT urn, scope AS persona, count(*) FILTER (WHERE status = 'active') AS memories,
            count(*) FILTER (WHERE status = 'stale') AS stale, min(stale_at) FILTER (WHERE status = 'stale') AS since,
            count(*) FILTER (WHERE is_contested) AS contested
        FROM (
            SELECT status, stale_at, entity_urns || detected_urns AS urns, contested.id IS NOT NULL AS is_contested,
                CASE visibility WHEN 'everyone' THEN %s ELSE persona END AS scope
            FROM {facts} fact (id, status, stale_at, entity_urns, detected_urns, visibility, persona)
            LEFT JOIN {contested} contested (id) ON contested.id = fact.id
        ) scoped CROSS JOIN LATERAL (SELECT DISTINCT unnest(urns) AS urn) about
        GROUP BY urn, scope
    ), open_questions AS (
        SELECT urn, persona, count(*) AS questions
        FROM {questions} question (persona, entity_urns) CROSS JOIN LATERAL unnest(entity_urns) AS urn
        GROUP BY urn, persona
    ), undescribed AS (
        SELECT urn, %s AS persona, 1 AS no_description FROM catalog_entities
        WHERE description = '' AND NOT removed AND entity_type = ANY(%s)
    ), answered AS (
        SELECT urn, count(*) AS answers FROM {answers} answer (urn) GROUP BY urn
    ), missing AS (
        SELECT urn FROM facts WHERE stale > 0 OR contested > 0 UNION SELECT urn FROM used WHERE unanswered > 0
        UNION SELECT urn FROM open_questions UNION SELECT urn FROM undescribed
    ), scopes AS (
        SELECT urn, persona FROM used WHERE calls + recalled + unanswered > 0 UNION SELECT urn, persona FROM facts
        UNION SELECT urn, persona FROM open_questions UNION SELECT urn, persona FROM undescribed
    )
    SELECT scopes.urn, scopes.persona,
        left(coalesce(nullif(entity.qualified_name, ''), entity.name, scopes.urn), 500),
        coalesce(entity.entity_type, ''), left(coalesce(aspect.value -> 'domains' ->> 0, ''), 500),
        coalesce(used.calls, 0), coalesce(used.recalled, 0), coalesce(used.unanswered, 0),
        coalesce(facts.memories, 0), coalesce(facts.stale, 0), facts.since, coalesce(facts.contested, 0),
        coalesce(open_questions.questions, 0), coalesce(undescribed.no_description, 0), coalesce(answered.answers, 0)
    FROM scopes
    LEFT JOIN used USING (urn, persona) LEFT JOIN facts USING (urn, persona)
    LEFT JOIN open_questions USING (urn, persona) LEFT JOIN undescribed USING (urn, persona)
    LEFT JOIN catalog_entities entity ON entity.urn = scopes.urn
    LEFT JOIN catalog_aspects aspect
        ON aspect.urn = scopes.urn AND aspect.aspect = 'domains' AND aspect.is_latest
    LEFT JOIN answered ON answered.urn = scopes.urn
    WHERE entity.removed IS NOT TRUE AND scopes.urn IN (SELECT urn FROM missing)
"""
COLUMNS = (
    "urn, persona, name, entity_type, domain, calls, recalled, unanswered, memories, stale, stale_since, contested, "
    "questions, no_description, answers"
)


def compute() -> str:
    """Replace the debts, close questions that nobody needs, and return a summary for the operator."""
    uses.add_impressions()
    uses.delete_old()
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended('entity_debts', 0))")
        EntityDebt.objects.all().delete()
        count = _insert()
        now = timezone.now()
        CatalogCursor.objects.update_or_create(pk=COMPUTED, defaults={"value": now.isoformat(), "updated_at": now})
        closed = _close_questions()
    return f"{count} rows of debt; {closed} questions closed"


def computed_at() -> datetime | None:
    """Return when the debts were computed, or None if they never were."""
    row = CatalogCursor.objects.filter(pk=COMPUTED).first()
    return row.updated_at if row else None


def _insert() -> int:
    facts = MemoryRecord.objects.facts().filter(status__in=IN_USE).exclude(visibility=Visibility.PRIVATE).order_by()
    corrected = Insight.objects.filter(state=InsightState.PENDING, record__status__in=IN_USE, replaces__isnull=False)
    is_contested = Q(Exists(unresolved_marks())) | Q(pk__in=doubted()) | Q(pk__in=corrected.values("replaces"))
    is_contested |= Q(pk__in=_contradicted("first")) | Q(pk__in=_contradicted("second"))
    questions = Insight.objects.filter(question_at__isnull=False, record__status__in=IN_USE).order_by()
    answers = InterviewQuestion.objects.filter(
        state=State.ANSWERED, record__status__in=IN_USE, decided_at__gt=timezone.now() - ANSWERS_COUNT
    )
    statement = CompiledQuery()
    sql = COMPUTE.format(
        facts=statement.table(
            facts.values_list("pk", "status", "stale_at", "entity_urns", "detected_urns", "visibility", "persona")
        ),
        contested=statement.table(facts.filter(is_contested).values_list("pk")),
        questions=statement.table(questions.values_list("record__persona", "record__entity_urns")),
        answers=statement.table(answers.order_by().values_list("urn")),
    )
    least = settings.DEBT_MIN_PEOPLE
    params: list[Any] = [least, least, least, EVERYONE, EVERYONE, UNDESCRIBED]
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO entity_debts ({COLUMNS}) WITH {', '.join(statement.tables)} {sql}",
            [*statement.params, *params],
        )
        return int(cursor.rowcount)


def _contradicted(side: str) -> Any:
    """Return the ids of memories on one side of an open contradiction between texts that are not private."""
    rows = contradictions.open_pairs(Contradiction.objects.all()).order_by()
    rows = rows.exclude(first__visibility=Visibility.PRIVATE).exclude(second__visibility=Visibility.PRIVATE)
    return rows.filter(**{f"{side}__isnull": False}).values(side)


def _close_questions() -> int:
    """Close open questions of disabled accounts and about removed entities, and those whose reason is gone."""
    active = get_user_model().objects.filter(is_active=True).values("email")
    closed = closing.close_all(InterviewQuestion.objects.exclude(owner__in=active))
    open_questions = InterviewQuestion.objects.filter(state=State.OPEN)
    wanted: dict[str, set[str]] = {}
    for row in EntityDebt.objects.filter(urn__in=open_questions.values("urn")):
        wanted.setdefault(row.urn, set()).update(reasons_of(row))
    gone = [
        question.pk
        for question in open_questions
        # What a colleague has asked stays, as long as anything is missing about the entity. Memories that contradict
        # each other are found when the question is asked, and not counted.
        if question.urn not in wanted
        or (
            question.reason not in wanted[question.urn]
            and question.asked_by == question.owner
            and len(question.record_ids) < 2
        )
    ]
    return closed + closing.close_all(InterviewQuestion.objects.filter(pk__in=gone))


def reasons_of(row: EntityDebt) -> list[str]:
    """Return the reasons for questions that a row has, the most urgent first."""
    numbers = {
        DebtReason.CONTESTED: row.contested,
        DebtReason.UNANSWERED: row.unanswered,
        DebtReason.STALE: row.stale,
        DebtReason.NO_DESCRIPTION: row.no_description,
    }
    return [reason.value for reason, number in numbers.items() if number]
