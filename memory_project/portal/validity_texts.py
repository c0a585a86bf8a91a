"""Texts about the time in which a memory is true."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone
from django.utils.translation import gettext, ngettext

from memories.models import MemoryRecord
from memories.models.validity import EXPIRED, NOT_YET
from memory_project.web import locale

SOON = timedelta(days=7)  # before the end of a memory, when pages say how many days are left


def valid_text(record: MemoryRecord) -> str:
    """Return in words when a memory is true, or "" if it has no bounds."""
    ends = [end for end in (record.valid_until, record.condition_ended_at) if end]
    if record.validity == EXPIRED:
        return gettext("Not valid since %(day)s") % {"day": locale.day(min(ends))}
    if record.validity == NOT_YET and record.valid_from:
        return gettext("Not valid before %(day)s") % {"day": locale.day(record.valid_from)}
    if not record.valid_until:
        return gettext("Since %(day)s") % {"day": locale.day(record.valid_from)} if record.valid_from else ""
    left = record.valid_until - timezone.now()
    values = {"day": locale.day(record.valid_until), "count": left.days}
    if left > SOON:
        return gettext("Valid until %(day)s") % values
    text = ngettext("Valid until %(day)s, in %(count)s day", "Valid until %(day)s, in %(count)s days", left.days)
    return text % values


def ends_soon(record: MemoryRecord) -> bool:
    end = record.valid_until
    return end is not None and timezone.now() < end <= timezone.now() + SOON
