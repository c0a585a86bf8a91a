"""Rules that assign new insights to curators, by catalog entity, domain or category.

The most specific rule whose curator can review the insight applies: a rule is skipped while its curator is inactive,
is no longer a curator of the persona, or is the author. Assignment excludes nobody: each curator of the persona can
still decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated

from django.db import IntegrityError, transaction
from django.utils.translation import gettext
from pydantic import Field

from foundation.operations.errors import Conflict, Forbidden, Invalid, NotFound
from foundation.operations.fields import EntityUrn, Text
from foundation.operations.operation import Operation
from foundation.people.caller import Caller
from knowledge.insights import queries
from knowledge.insights.lifecycle import require_curator
from knowledge.insights.reviewers import reviewer, reviewing, without_assignee
from knowledge.models import AssignmentRule, CatalogAspect, Insight
from knowledge.operations import InsightCategory

MAX_RULES = 500  # per persona
MAX_TARGET_DAYS = 365


class SaveRule(Operation):
    """Assign new insights that meet all conditions to a curator"""

    persona: Annotated[str, Text(1, 60)]
    assignee: Annotated[str, Text(3, 254)]
    entity_urn: EntityUrn | None = None
    domain_urn: EntityUrn | None = None
    category: InsightCategory | None = None
    target_days: Annotated[int, Field(ge=1, le=MAX_TARGET_DAYS)] | None = None
    rule_id: int | None = None  # of the rule to change; empty for a new one


def rules_of(caller: Caller) -> Sequence[AssignmentRule]:
    """Return the rules of the personas whose insights the caller reviews, the most specific first."""
    require_curator(caller)
    rows = AssignmentRule.objects.all()
    if not caller.is_admin:
        rows = rows.filter(persona__in=caller.personas)
    return sorted(rows, key=lambda rule: (rule.persona, *rule.rank))


def save_rule(caller: Caller, operation: SaveRule) -> tuple[AssignmentRule, int]:
    """Save a rule, and assign waiting insights that nobody is assigned to by it.

    Returns the rule and the number of insights assigned. Raises Forbidden unless the caller reviews the insights of
    the persona, and Invalid if the assignee does not.
    """
    _require_reviewer(caller, operation.persona)
    values = {
        "persona": operation.persona, "entity_urn": operation.entity_urn or "",
        "domain_urn": operation.domain_urn or "", "category": operation.category or "",
        "target_days": operation.target_days,
    }  # fmt: skip
    if not any(values[name] for name in ("entity_urn", "domain_urn", "category")):
        raise Invalid(gettext("is missing: choose an entity, a domain or a category"), field="category")
    if values["domain_urn"] and not str(values["domain_urn"]).startswith("urn:li:domain:"):
        raise Invalid(gettext("is not a domain"), field="domain_urn", allowed=gettext("a domain of the catalog"))
    colleague = reviewer(operation.assignee, operation.persona)
    if colleague is None:
        raise Invalid(
            gettext("%(assignee)r can't review insights of the persona %(persona)s")
            % {"assignee": operation.assignee[:80], "persona": operation.persona},
            field="assignee",
            allowed=gettext("a curator who holds the persona, or an admin"),
        )
    with transaction.atomic():
        rule = AssignmentRule(created_by=caller.email)
        if operation.rule_id is not None:
            rule = get_rule(caller, operation.rule_id, lock=True)
        elif AssignmentRule.objects.filter(persona=operation.persona).count() >= MAX_RULES:
            raise Conflict(
                gettext("has %(max_rules)s rules, the most there may be: change one of them")
                % {"max_rules": MAX_RULES},
                field="persona",
            )
        for name, value in values.items():
            setattr(rule, name, value)
        rule.assignee = colleague.email
        try:
            with transaction.atomic():
                rule.save()
        except IntegrityError:
            raise Conflict(gettext("has a rule with the same conditions already"), field="persona") from None
        return rule, _assign_waiting(caller, rule)


def delete_rule(caller: Caller, *, rule_id: int) -> AssignmentRule:
    """Delete a rule. Insights that it has assigned stay assigned."""
    with transaction.atomic():
        rule = get_rule(caller, rule_id, lock=True)
        AssignmentRule.objects.filter(pk=rule.pk).delete()
    return rule


def get_rule(caller: Caller, rule_id: int, *, lock: bool = False) -> AssignmentRule:
    rows = AssignmentRule.objects.select_for_update() if lock else AssignmentRule.objects.all()
    rule = rows.filter(pk=rule_id).first()
    if rule is None:
        raise NotFound(gettext("no such rule"), field="rule_id")
    _require_reviewer(caller, rule.persona)
    return rule


def assign(insight: Insight) -> None:
    """Set the assignee and the target age of a new insight that has not been saved yet."""
    record = insight.record
    rules = list(AssignmentRule.objects.filter(persona=record.persona))
    if not rules:
        return
    domains = domains_of(record.entity_urns) if any(rule.domain_urn for rule in rules) else frozenset()
    for rule in sorted(rules, key=lambda rule: rule.rank):
        if _matches(rule, record.category, record.entity_urns, domains) and _is_in_effect(rule, record.created_by):
            insight.assignee = rule.assignee
            insight.target_days = rule.target_days
            return


def without_effect(rules: Sequence[AssignmentRule]) -> set[int]:
    """Return the ids of the rules whose curators can't review insights of the persona any more, in one query."""
    pairs = reviewing(rule.assignee for rule in rules)
    return {rule.pk for rule in rules if not {(rule.assignee, rule.persona), (rule.assignee, "")} & pairs}


def domains_of(urns: Iterable[str]) -> frozenset[str]:
    """Return the domains of these entities, as the catalog's copy in the database has them."""
    rows = CatalogAspect.objects.filter(urn__in=list(urns), aspect="domains", is_latest=True, value__isnull=False)
    return frozenset(str(domain) for row in rows for domain in (row.value or {}).get("domains", []))


def _require_reviewer(caller: Caller, persona: str) -> None:
    require_curator(caller)
    if not caller.can_review_for(persona):
        raise Forbidden(
            gettext("belongs to the persona %(persona)s: only its curators can change its rules")
            % {"persona": persona},
            field="persona",
        )


def _matches(rule: AssignmentRule, category: str, urns: Sequence[str], domains: frozenset[str]) -> bool:
    return (
        rule.entity_urn in ("", *urns)
        and (not rule.domain_urn or rule.domain_urn in domains)
        and rule.category in ("", category)
    )


def _is_in_effect(rule: AssignmentRule, author: str) -> bool:
    colleague = reviewer(rule.assignee, rule.persona)
    return colleague is not None and (colleague.email != author or colleague.is_admin)


def _assign_waiting(caller: Caller, rule: AssignmentRule) -> int:
    """Assign waiting insights without an assignee by the rule that applies to them, if this is `rule`."""
    rows = queries.waiting(caller).filter(record__persona=rule.persona)
    if rule.entity_urn:
        rows = rows.filter(record__entity_urns__contains=[rule.entity_urn])
    if rule.category:
        rows = rows.filter(record__category=rule.category)
    if not reviewer(rule.assignee, rule.persona).is_admin:  # type: ignore[union-attr]  # save_rule has checked it
        rows = rows.exclude(record__created_by=rule.assignee)
    found = list(without_assignee(rows).values_list("pk", "record__entity_urns"))
    if rule.domain_urn:
        found = [(pk, urns) for pk, urns in found if rule.domain_urn in domains_of(urns)]
    ids = [pk for pk, _ in found]
    return Insight.objects.filter(pk__in=ids).update(assignee=rule.assignee, target_days=rule.target_days)
