from __future__ import annotations

import gc
from typing import TYPE_CHECKING

from django.apps import AppConfig
from django.contrib.admin.apps import AdminConfig as DjangoAdminConfig

if TYPE_CHECKING:
    from memories.plugs import Trace


class MemoryProjectConfig(AppConfig):
    name = "memory_project"
    verbose_name = "Access and audit"

    def ready(self) -> None:
        """Plugs into the apps below. Imported here, since models come first."""
        from knowledge import news  # noqa: PLC0415
        from memories import plugs  # noqa: PLC0415
        from memory_project import checks, receivers  # noqa: F401, PLC0415 - they register themselves
        from memory_project.audit.copies import AuditCopies, wipe_audit  # noqa: PLC0415
        from memory_project.mail import Mail, overturned  # noqa: PLC0415
        from memory_project.notices import NOTIFIERS, inbox  # noqa: PLC0415

        plugs.COPIES.register("audit and backups", AuditCopies())
        plugs.TRACES.register("memory_project", traces)
        plugs.WIPES.register("audit", wipe_audit)
        plugs.COPIES.register("inbox", inbox.InboxCopies())
        NOTIFIERS.register("mail", Mail())
        news.ON_OVERTURN.register("notices", overturned)
        news.LISTENERS.register("inbox", inbox.hear_review)
        plugs.STALE_LISTENERS.register("inbox", inbox.hear_stale)
        plugs.GROUNDS.register("mentions", inbox.hear_mentions)
        gc.freeze()  # the apps after this one import more, and a collection need not look at what is here already
        gc.enable()


def traces() -> list[Trace]:
    """An account with its tokens and memberships is access, which admins give and take; it stays."""
    from memories.plugs import Trace  # noqa: PLC0415 - models first
    from memory_project.models import Notification, SavedView  # noqa: PLC0415 - the same

    return [
        Trace(Notification, "person__email"),
        Trace(Notification, "by", stays=True),
        Trace(SavedView, "person__email"),
    ]


class AdminConfig(DjangoAdminConfig):
    default_site = "memory_project.admin_site.CommonplaceAdminSite"
