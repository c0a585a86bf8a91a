"""An erased text in the audit and in backups."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from uuid import UUID

from django.db import transaction
from django.db.models import Q

from memory_project import backups
from memory_project.models import AuditEvent


class AuditCopies:
    """memories.extensions.Copies: the arguments that the audit keeps, and the backups that were made before."""

    def erase(self, record_id: UUID, texts: Sequence[str]) -> None:
        """The events stay, their arguments go; a list beside each backup says what a restore erases."""
        AuditEvent.objects.filter(record_ids__contains=[record_id]).update(arguments={"erased": True}, message="")
        transaction.on_commit(partial(backups.note_erased, record_id))

    def follow(self, record_ids: Sequence[UUID]) -> None:
        """Events are read by whom they are about and by admins, whoever reads the memory."""


def wipe_audit(owner: str, pseudonym: str) -> dict[str, int]:
    """Of a wiped person's calls it stays that they happened, and nothing of whom or what."""
    service, _, user = owner.partition("#")
    rule = Q(email=service, arguments__user_id=user) if user else Q(email=owner)
    emptied = AuditEvent.objects.filter(rule).update(
        email="", persona="", arguments={"wiped": True}, message="", record_ids=[]
    )
    return {"audit": emptied}
