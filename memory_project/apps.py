from __future__ import annotations

import gc
from typing import TYPE_CHECKING

from django.apps import AppConfig
from django.contrib.admin.apps import AdminConfig as DjangoAdminConfig

if TYPE_CHECKING:
    from memories.extensions import PersonalDataColumn


class MemoryProjectConfig(AppConfig):
    name = "memory_project"
    verbose_name = "Access and audit"

    def ready(self) -> None:
        """Plugs into the apps below. Imported here, since models come first."""
        from knowledge.review import events  # noqa: PLC0415
        from memories import extensions  # noqa: PLC0415
        from memory_project import checks, receivers  # noqa: F401, PLC0415 - they register themselves
        from memory_project.audit.copies import AuditCopies, wipe_audit  # noqa: PLC0415
        from memory_project.notifications import NOTIFIERS, inbox  # noqa: PLC0415
        from memory_project.notifications.mail import Mail, on_overturned  # noqa: PLC0415

        extensions.COPIES.register("audit and backups", AuditCopies())
        extensions.TRACES.register("memory_project", traces)
        extensions.WIPES.register("audit", wipe_audit)
        extensions.COPIES.register("inbox", inbox.InboxCopies())
        NOTIFIERS.register("mail", Mail())
        events.ON_OVERTURN.register("notices", on_overturned)
        events.LISTENERS.register("inbox", inbox.on_review_event)
        extensions.STALE_LISTENERS.register("inbox", inbox.on_stale)
        extensions.GROUNDS.register("mentions", inbox.notify_mentions)
        gc.freeze()  # the apps after this one import more, and a collection need not look at what is here already
        gc.enable()


def traces() -> list[PersonalDataColumn]:
    """An account with its tokens and memberships is access, which admins give and take; it stays."""
    from memories.extensions import PersonalDataColumn  # noqa: PLC0415 - models first
    from memory_project.models import Notification, SavedView  # noqa: PLC0415 - the same

    return [
        PersonalDataColumn(Notification, "person__email"),
        PersonalDataColumn(Notification, "by", stays=True),
        PersonalDataColumn(SavedView, "person__email"),
    ]


class AdminConfig(DjangoAdminConfig):
    default_site = "memory_project.admin_site.CommonplaceAdminSite"
