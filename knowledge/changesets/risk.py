"""The risk of a changeset, which decides how many curators must approve it.

A changeset is risky if its entities have many readers or many derived entities, or if it changes a sensitive tag or
term. The limits are those of the approval rule, which admins set.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from django.db.models import Count
from django.utils import timezone
from django.utils.translation import gettext, ngettext

from foundation.database import identity
from knowledge.catalog.current import get_readable_catalog
from knowledge.catalog.entity_view import short_name
from knowledge.catalog.lineage import MAX_HOPS
from knowledge.changesets.planning import Planned
from knowledge.models import ApprovalRule
from memories.models import Impression, MemoryRecord
from memories.models.impression import KEPT_DAYS
from memories.models.record import about_any

TAGS = ("urn:li:tag:", "urn:li:glossaryTerm:")
MAX_TAGS = 10  # maximum number of sensitive tags that are named

Risk = Mapping[str, Any]  # kind: readers or derived, with count and limit; or kind: tag, with urn


def rule() -> ApprovalRule:
    return ApprovalRule.objects.filter(pk=1).first() or ApprovalRule()


def assess(planned: Sequence[Planned]) -> list[Risk]:
    """Return why these writes need the approval of two curators, or [] if they don't.

    Raises CatalogUnavailable or CatalogRefused if the lineage of the entities can't be read.
    """
    limits = rule()
    writes = [change for change in planned if not change.is_noop]
    urns = sorted({change.step.write.urn for change in writes})
    risks: list[Risk] = [{"kind": "tag", "urn": urn} for urn in _sensitive(writes, limits.sensitive)[:MAX_TAGS]]
    if urns and limits.readers and (count := _count_readers(urns)) >= limits.readers:
        risks.append({"kind": "readers", "count": count, "limit": limits.readers})
    if urns and limits.derived and (count := _count_derived(urns, limits.derived)) >= limits.derived:
        risks.append({"kind": "derived", "count": count, "limit": limits.derived})
    return risks


def in_words(risks: Sequence[Risk]) -> list[str]:
    return [_sentence(risk) for risk in risks]


def _sentence(risk: Risk) -> str:
    if risk["kind"] == "tag":
        return gettext("changes the sensitive tag or term %(name)s") % {"name": short_name(risk["urn"])}
    values = {"n": risk["count"], "limit": risk["limit"]}
    if risk["kind"] == "readers":
        text = ngettext(
            "%(n)s person was shown memories about its entities in the last 30 days (limit %(limit)s)",
            "%(n)s people were shown memories about its entities in the last 30 days (limit %(limit)s)",
            risk["count"],
        )
    else:
        text = ngettext(
            "at least %(n)s entity is derived from its entities (limit %(limit)s)",
            "at least %(n)s entities are derived from its entities (limit %(limit)s)",
            risk["count"],
        )
    return text % values


@identity.service("promotion")
def _count_readers(urns: Sequence[str]) -> int:
    """Count the people to whom memories about the entities were attached. Who they are is not read."""
    about = MemoryRecord.objects.filter(about_any(urns)).values("pk")
    since = timezone.now() - timedelta(days=KEPT_DAYS)
    people = Impression.objects.filter(record__in=about, at__gt=since).order_by()
    return int(people.aggregate(count=Count("to", distinct=True))["count"])


def _count_derived(urns: Sequence[str], limit: int) -> int:
    """Count the entities downstream of these, as far as `limit` needs."""
    catalog = get_readable_catalog()
    derived = set[str]()
    for urn in urns:
        nodes = catalog.lineage(urn, direction="downstream", hops=MAX_HOPS, limit=limit)
        derived.update(node.urn for node in nodes if node.urn not in urns)
        if len(derived) >= limit:
            break
    return len(derived)


def _sensitive(writes: Sequence[Planned], words: Sequence[str]) -> list[str]:
    """Return the tags and terms that the writes add, remove or define and whose names have one of the words."""
    wanted = {word.strip().casefold() for word in words} - {""}
    found: dict[str, None] = {}
    for change in writes:
        write = change.step.write
        texts = _strings([write.urn, list(write.path), write.value, change.before])
        found.update(dict.fromkeys(text for text in texts if text.startswith(TAGS)))
    return sorted(urn for urn in found if wanted & _words(urn))


def _words(urn: str) -> set[str]:
    name = urn.rpartition(":")[2]
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+", name)  # also those of camelCase
    return {part.casefold() for part in parts} | {name.casefold()}


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _strings(key)
            yield from _strings(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _strings(item)
