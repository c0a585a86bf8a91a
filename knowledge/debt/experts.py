"""People who might know about an entity: its owners in the catalog, authors of memories about it, and frequent users.

An author is named only if the reader may read a shared memory of theirs, and a frequent user only if the installation
allows it (DEBT_FREQUENT_CALLS).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.conf import settings
from django.contrib.auth import get_user_model
from django.db.models import Count, F, Func, Sum, TextField
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

from foundation.database import identity
from foundation.people.caller import Caller
from knowledge.models import CatalogAspect, EntityUse
from memories.models import IN_USE, MemoryRecord, Visibility

MAX_EXPERTS = 3  # people named for an entity
OWNER, AUTHOR, USER = "owner", "author", "user"
LABELS: Mapping[str, str | Promise] = {
    OWNER: gettext_lazy("owner"),
    AUTHOR: gettext_lazy("author"),
    USER: gettext_lazy("frequent user"),
}
MAX_READ = 2_000  # memories in which authors are looked for
CORPUSER = "urn:li:corpuser:"


@dataclass(frozen=True)
class Expert:
    email: str
    why: str  # OWNER, AUTHOR or USER

    @property
    def label(self) -> str | Promise:
        return LABELS[self.why]


def experts(caller: Caller, urns: Sequence[str]) -> dict[str, list[Expert]]:
    """Return at most MAX_EXPERTS people for each entity, owners first, then the busiest authors and users.

    Only active accounts are returned.
    """
    found: dict[str, dict[str, Expert]] = {urn: {} for urn in urns}
    for urn, email, why in (*owners(urns), *_authors(caller, urns), *_frequent_users(urns)):
        if email and urn in found:
            found[urn].setdefault(email, Expert(email, why))
    active = active_accounts({email for people in found.values() for email in people})
    return {
        urn: [expert for expert in people.values() if expert.email in active][:MAX_EXPERTS]
        for urn, people in found.items()
    }


def owners(urns: Sequence[str]) -> list[tuple[str, str, str]]:
    """Return (entity, e-mail address, OWNER) for the owners that the catalog names by their address."""
    rows = CatalogAspect.objects.filter(urn__in=urns, aspect="ownership", is_latest=True, value__isnull=False)
    return [
        (urn, str(owner.get("owner", "")).removeprefix(CORPUSER).lower(), OWNER)
        for urn, value in rows.order_by("urn").values_list("urn", "value")
        for owner in (value or {}).get("owners", [])
        if isinstance(owner, dict) and "@" in str(owner.get("owner", ""))
    ]


def _authors(caller: Caller, urns: Sequence[str]) -> list[tuple[str, str, str]]:
    # private memories of others count for nobody, not even for admins
    rows = MemoryRecord.objects.visible_to(caller).facts().filter(entity_urns__overlap=list(urns), status__in=IN_USE)
    rows = rows.exclude(visibility=Visibility.PRIVATE).order_by()
    each = Func(F("entity_urns"), function="unnest", output_field=TextField())
    # Of an entity with thousands of memories, some tell its authors as well as all.
    rows = MemoryRecord.objects.visible_to(caller).filter(pk__in=rows.values("pk")[:MAX_READ])
    people = rows.annotate(about=each).values("about", "created_by").annotate(n=Count("pk"))
    people = people.order_by("-n", "created_by")
    return [(row["about"], row["created_by"], AUTHOR) for row in people if row["about"] in set(urns)]


def _frequent_users(urns: Sequence[str]) -> list[tuple[str, str, str]]:
    if not settings.DEBT_FREQUENT_CALLS:
        return []
    with identity.service("debt"):
        rows = EntityUse.objects.filter(urn__in=urns).values("urn", "owner").annotate(n=Sum("calls"))
        frequent = rows.filter(n__gte=settings.DEBT_FREQUENT_CALLS).order_by("-n", "owner")
        return [(row["urn"], row["owner"], USER) for row in frequent]


def active_accounts(emails: set[str]) -> set[str]:
    return set(get_user_model().objects.filter(email__in=emails, is_active=True).values_list("email", flat=True))
