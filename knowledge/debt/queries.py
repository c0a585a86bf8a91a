"""Reads of knowledge debt. The rows are those of the caller's personas, and those for everyone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import ExpressionWrapper, F, FloatField, Max, Min, Q, QuerySet, Sum, Value
from django.db.models.functions import Cast, Ln
from django.utils.translation import gettext

from foundation.operations.errors import Forbidden, Invalid
from foundation.operations.paging import invalid_cursor
from foundation.people.caller import Caller
from knowledge.models import DebtReason, EntityDebt
from knowledge.models.debt import EVERYONE

SIZE = 20  # entities on a page
MAX_DOMAINS = 50  # domains to choose from
# The weight of each reason. Numbers count by their logarithm: the tenth stale memory adds less than the first.
WEIGHTS = {"contested": 3.0, "unanswered": 3.0, "stale": 2.0, "questions": 1.0, "no_description": 1.0}
USES = ("calls", "recalled")


@dataclass(frozen=True)
class Debt:
    """The debt of one entity, as far as the caller may read it.

    `calls`, `recalled` and `unanswered` are 0 unless enough different people made these calls.
    """

    urn: str
    name: str
    entity_type: str
    domain: str
    calls: int
    recalled: int
    unanswered: int
    memories: int
    stale: int
    stale_since: datetime | None
    contested: int
    questions: int
    no_description: int
    answers: int
    score: float

    @property
    def reasons(self) -> list[str]:
        """Return the reasons for which an interview asks about the entity, the most urgent first."""
        return [reason.value for reason in DebtReason if getattr(self, reason.value)]


@dataclass(frozen=True)
class DebtFilter:
    persona: str = ""
    domain: str = ""
    text: str = ""  # part of the name
    reason: str = ""

    def params(self) -> dict[str, str]:
        values = {"persona": self.persona, "domain": self.domain, "q": self.text, "reason": self.reason}
        return {name: value for name, value in values.items() if value}


@dataclass(frozen=True)
class DebtPage:
    rows: Sequence[Debt]
    after: str = ""  # cursor of the next page; empty on the last page


def require_curator(caller: Caller) -> None:
    if not caller.is_curator:
        raise Forbidden(gettext("only curators can see the knowledge debt"))


def debts(caller: Caller, chosen: DebtFilter = DebtFilter()) -> QuerySet[EntityDebt, dict[str, Any]]:
    """Return the entities with debt as rows of values, the largest debt first.

    Their names are read afterwards, for the rows that are shown: comparing texts would take most of the time.
    """
    rows = EntityDebt.objects.filter(_scope(caller, chosen.persona))
    if chosen.domain:
        rows = rows.filter(domain=chosen.domain)
    if chosen.text:
        rows = rows.filter(name__icontains=chosen.text)
    numbers = {name: Sum(name) for name in (*USES, *WEIGHTS, "memories")}
    grouped: Any = rows.values("urn").annotate(
        since=Min("stale_since"),
        answered=Max("answers"),
        **{f"sum_{name}": total for name, total in numbers.items()},
    )
    weight: Any = sum((weight * _log(f"sum_{name}") for name, weight in WEIGHTS.items()), start=Value(0.0))
    use = 1.0 + Ln(1.0 + Cast(F("sum_calls") + F("sum_recalled"), FloatField()))
    score = ExpressionWrapper(weight * use / (1.0 + Cast(F("answered"), FloatField())), FloatField())
    with_score: Any = grouped.annotate(score=score).filter(score__gt=0)
    if chosen.reason:
        with_score = with_score.filter(**{f"sum_{chosen.reason}__gt": 0})
    ordered: QuerySet[EntityDebt, dict[str, Any]] = with_score.order_by("-score", "urn")
    return ordered


def debt_page(caller: Caller, chosen: DebtFilter, after: str = "", *, size: int = SIZE) -> DebtPage:
    """Return the page after the cursor `after`. Raises Forbidden unless the caller is a curator, and Invalid."""
    require_curator(caller)
    if chosen.reason and chosen.reason not in WEIGHTS:
        raise Invalid(gettext("is unknown"), field="reason", allowed=", ".join(WEIGHTS))
    if chosen.persona and chosen.persona != EVERYONE and not caller.can_review_for(chosen.persona):
        raise Invalid(gettext("is none of your personas"), field="persona", allowed=", ".join(sorted(caller.personas)))
    rows = debts(caller, chosen)
    if after:
        score, _, urn = after.partition("~")
        try:
            rows = rows.filter(Q(score__lt=float(score)) | Q(score=float(score), urn__gt=urn))
        except ValueError:
            raise invalid_cursor() from None
    found = _debts(rows[: size + 1])
    if len(found) <= size:
        return DebtPage(found)
    last = found[size - 1]
    return DebtPage(found[:size], f"{last.score!r}~{last.urn}")


def debts_of(caller: Caller, urns: Sequence[str]) -> dict[str, Debt]:
    """Return the debts of these entities by URN, as far as the caller's personas may read them."""
    return {debt.urn: debt for debt in _debts(debts(caller).filter(urn__in=urns))}


def domains(caller: Caller) -> list[str]:
    """Return the URNs of the domains that entities with debt have."""
    rows = EntityDebt.objects.filter(_scope(caller)).exclude(domain="").order_by("domain")
    return list(rows.values_list("domain", flat=True).distinct()[:MAX_DOMAINS])


def _scope(caller: Caller, persona: str = "") -> Q:
    if persona:
        return Q(persona=persona)
    return Q() if caller.is_admin else Q(persona__in=[EVERYONE, *sorted(caller.personas)])


def _log(name: str) -> Ln:
    return Ln(1.0 + Cast(F(name), FloatField()))


def _debts(found: Iterable[dict[str, Any]]) -> list[Debt]:
    rows = list(found)
    named = EntityDebt.objects.filter(urn__in=[row["urn"] for row in rows]).order_by("urn", "pk").distinct("urn")
    by_urn = {entity.urn: entity for entity in named}
    return [_debt(row, by_urn[row["urn"]]) for row in rows if row["urn"] in by_urn]


def _debt(row: dict[str, Any], entity: EntityDebt) -> Debt:
    return Debt(
        urn=row["urn"],
        name=entity.name,
        entity_type=entity.entity_type,
        domain=entity.domain,
        stale_since=row["since"],
        answers=row["answered"],
        score=row["score"],
        **{name: row[f"sum_{name}"] for name in (*USES, *WEIGHTS, "memories")},
    )
