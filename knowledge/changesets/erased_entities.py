"""Changesets that remove the texts of an erased insight from entities that its rolled-back changeset had created.

A rollback only marks such an entity as removed, or resolves an incident, so its text is still in the catalog. It is
removed by a changeset of its own, like any other write. The changeset is planned in the transaction that erases the
insight, and carried out after it. If the catalog is unavailable then, the next comparison with the catalog carries it
out.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django_q.tasks import async_task

from foundation.database import identity
from foundation.operations.errors import DomainError
from foundation.people.caller import Caller, system_caller
from knowledge.catalog.embedded import LocalCatalog
from knowledge.changesets import apply
from knowledge.changesets.delivery import ERASE, catalog_of
from knowledge.models import CatalogAspect, Change, ChangeOutcome, Changeset, ChangesetState

log = logging.getLogger(__name__)


def plan(caller: Caller, record_id: UUID, changeset: Changeset, changes: Sequence[Change]) -> None:
    """Plan the removal of aspects that the changeset has created. `before` of the changes must be free of texts."""
    erasing = Changeset.objects.create(
        persona=changeset.persona,
        personas=changeset.personas,
        catalog=changeset.catalog,
        insight_ids=[record_id.hex],
        applied_by=caller.email,
    )
    Change.objects.bulk_create(
        Change(
            changeset=erasing,
            position=position,
            request=0,
            change_type=ERASE,
            urn=change.urn,
            aspect=change.aspect,
            path=change.path,
            operation="remove",
            had_before=True,
            before=change.before,
            before_erased=True,
        )
        for position, change in enumerate(changes)
    )
    if settings.DATAHUB_GMS_URL:  # in a worker, so that erasing does not wait for DataHub
        transaction.on_commit(partial(async_task, "knowledge.tasks.erase_from_catalog", erasing.pk.hex))
    else:
        transaction.on_commit(partial(carry_out, erasing.pk), robust=True)


@identity.service("erasure")
def carry_out(changeset_id: UUID) -> str:
    """Carry out a planned removal. Return "" if it is complete, otherwise the reason."""
    changeset = Changeset.objects.get(pk=changeset_id)
    try:
        catalog_of(changeset)
        done = apply.resume(system_caller(), changeset_id=changeset_id).changeset
    except DomainError as error:
        log.warning("erased texts are still in the catalog, in changeset %s: %s", changeset_id.hex, error.message)
        return error.message
    _empty_past_versions(done)
    return done.error


def carry_out_open() -> int:
    """Carry out all planned removals. Return the number of those that are still open."""
    rows = Changeset.objects.filter(state__in=[ChangesetState.PLANNED, ChangesetState.PARTIAL])
    unfinished = [ChangeOutcome.PLANNED, ChangeOutcome.SENDING]
    open_ids = rows.filter(changes__change_type=ERASE, changes__outcome__in=unfinished).distinct()
    return sum(bool(carry_out(pk)) for pk in list(open_ids.values_list("pk", flat=True)))


def _empty_past_versions(changeset: Changeset) -> None:
    """Empty the past versions of the removed aspects, in the embedded catalog or in the copy of a DataHub."""
    stamp: dict[str, Any] = {"runId": changeset.run_id, "actor": changeset.applied_by}
    for change in changeset.changes.filter(outcome__in=[ChangeOutcome.LANDED, ChangeOutcome.NOOP]):
        LocalCatalog().put(change.urn, change.aspect, None, stamp)
        created = Change.objects.filter(urn=change.urn, aspect=change.aspect, creates=True)
        first = created.filter(changeset__insight_ids__contains=changeset.insight_ids).order_by("changeset__created_at")
        since = first.values_list("changeset__created_at", flat=True).first()
        if since:
            versions = CatalogAspect.objects.filter(urn=change.urn, aspect=change.aspect, created_at__gte=since)
            versions.filter(is_latest=False).update(value=None)
