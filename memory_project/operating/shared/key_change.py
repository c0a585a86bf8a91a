"""Change of the secret key: everything in the database that depends on it is encrypted and signed anew."""

from __future__ import annotations

from typing import Any

from allauth.mfa.models import Authenticator
from django.conf import settings
from django.db import transaction
from django_q.models import OrmQ

from foundation.database import sealing
from foundation.operations.errors import Invalid
from memory_project.accounts import second_factor
from memory_project.notifications.webhooks.models import Endpoint
from memory_project.operating.shared import secret_key_check, task_queue


def change_key() -> dict[str, int]:
    """Replace the key that the database knows by SECRET_KEY, in one transaction.

    Processes may run meanwhile. What they still encrypt and sign with an earlier key is changed by the next call.
    Returns the numbers of rows by what they are. Raises Invalid if SECRET_KEY is the database's key already and there
    are no earlier ones, if SECRET_KEY is the key before the last change, or if SECRET_KEY_FALLBACKS does not contain
    the database's key.
    """
    earlier = [str(key) for key in settings.SECRET_KEY_FALLBACKS]
    known = secret_key_check.stored()
    if known and not secret_key_check.is_own(known):
        raise Invalid("does not contain the earlier key of this database", field="SECRET_KEY_FALLBACKS")
    if known and not earlier:
        raise Invalid("is the key of this database already; set the new one first", field="SECRET_KEY")
    if secret_key_check.is_earlier(str(settings.SECRET_KEY)):
        raise Invalid("was replaced by the key in SECRET_KEY_FALLBACKS: exchange the two", field="SECRET_KEY")
    with transaction.atomic():
        changed = {
            "second factors": sum(map(_second_factors, earlier)),
            "credentials for upstream servers": sum(map(_credentials, earlier)),
            "queued tasks": _tasks(),
        }
        secret_key_check.replace(str(settings.SECRET_KEY))
    return changed | {"webhook endpoints whose secret must be rotated": Endpoint.objects.count()}


def _second_factors(old: str) -> int:
    count = 0
    for row in Authenticator.objects.select_for_update():
        data = {name: second_factor.encrypted_anew(value, old) for name, value in row.data.items()}
        if data != row.data:
            Authenticator.objects.filter(pk=row.pk).update(data=data)
            count += 1
    return count


def _credentials(old: str) -> int:
    count = 0
    for model, column in sealing.sealed_columns():
        rows: Any = model._default_manager.select_for_update()
        for row in rows:
            if (values := sealing.unseal(getattr(row, column), old)) is not None:
                model._default_manager.filter(pk=row.pk).update(**{column: sealing.seal(values)})
                count += 1
    return count


def _tasks() -> int:
    count = 0
    for row in OrmQ.objects.select_for_update():
        try:
            payload = task_queue.signed_with_own_key(row.payload)
        except Exception:  # signed with a third key, or unreadable: it stays as it is, and System reports it
            continue
        if payload != row.payload:
            OrmQ.objects.filter(pk=row.pk).update(payload=payload)
            count += 1
    return count
