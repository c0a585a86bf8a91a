"""The Django permissions that have an effect, for the forms on which admins grant permissions.

Django creates four permissions for each model, most of which no page checks: services decide who may change rows, and
many lists are for admins only. A permission without an effect would only be misunderstood.
"""

from __future__ import annotations

from django.contrib.auth.models import Permission
from django.db.models import Q, QuerySet

from foundation.people.caller import CURATE, OPERATE

# Code names by app
EFFECTIVE_PERMISSIONS = {
    "memories": (
        "view_memoryrecord", "view_stalememory", "view_correction", "view_batch",
        "view_persona", "add_persona", "change_persona", "delete_persona",
        "view_purpose", "add_purpose", "change_purpose", "delete_purpose",
    ),
    "analysis": (
        "view_declaredsource", "add_declaredsource", "change_declaredsource", "delete_declaredsource",
    ),
    "knowledge": (
        CURATE, "view_insight", "view_changeset", "view_catalogentity", "view_catalogaspect", "view_entitybaseline",
    ),
    "memory_project": (
        OPERATE, "view_user", "view_apitoken", "view_auditevent",
        "view_webhook", "add_webhook", "change_webhook", "delete_webhook",
    ),
}  # fmt: skip


def effective_permissions() -> QuerySet[Permission]:
    rule = Q()
    for label, codenames in EFFECTIVE_PERMISSIONS.items():
        rule |= Q(content_type__app_label=label, codename__in=codenames)
    return Permission.objects.filter(rule).select_related("content_type")
