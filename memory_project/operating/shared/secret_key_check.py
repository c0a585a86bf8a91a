"""The fingerprint of the secret key in the database.

Sessions and queued tasks are signed with the secret key, and credentials are encrypted with it. All machines must
therefore have the same key. The first `migrate` stores a fingerprint of it, and processes with another key don't start.
"""

from __future__ import annotations

import hmac

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError, connection
from django.utils import timezone
from django.utils.crypto import salted_hmac
from django_q.conf import Conf

from foundation.database import sealing
from memory_project.operating.shared.models import InstallationFact

FACT = "key_fingerprint"
EARLIER_FACT = "earlier_key_fingerprint"  # of the key before the last change
# Goes into the fingerprint. It was the name of a module once and never changes, because fingerprints are stored.
SALT = "memory_project.machines.key"
OTHER_SALT = "memory_project.operating.shared.key"  # of fingerprints that were stored in the last days of November 2026


class OtherKey(ImproperlyConfigured):
    """This process has another secret key than the installation. The message is one line for the operator."""


def fingerprint(key: str, salt: str = SALT) -> str:
    """Return a keyed hash, from which the key can't be computed."""
    return salted_hmac(salt, FACT, secret=key, algorithm="sha256").hexdigest()


def has_table() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass('public.installation_facts') IS NOT NULL")
        return bool(cursor.fetchone()[0])


def stored() -> str:
    """Return the stored fingerprint, or "" if there is none yet, because the database is empty or was not migrated."""
    if not has_table():
        return ""
    return InstallationFact.objects.filter(pk=FACT).values_list("value", flat=True).first() or ""


def is_own(found: str) -> bool:
    """Return whether this process has the key, if only among its fallbacks: then the key is being changed."""
    return not found or _key_of(found) is not None


def key_of_database() -> str:
    """Return the key that the database's rows are encrypted with, which may be a fallback of this process."""
    return _key_of(stored()) or str(settings.SECRET_KEY)


def _key_of(found: str) -> str | None:
    """Return the key of this process with this fingerprint."""
    for key in sealing.secret_keys():
        if any(hmac.compare_digest(found, fingerprint(key, salt)) for salt in (SALT, OTHER_SALT)):
            return key
    return None


def refuse_other_key() -> None:
    """Raise OtherKey if the database belongs to an installation with another key, and DatabaseError if it is away."""
    if not is_own(stored()):
        raise OtherKey(message())


def refuse_other_key_at_start() -> None:
    """Do the same, but let the process start if the database is away: /healthz compares the keys later, too."""
    try:
        refuse_other_key()
    except DatabaseError:
        return


def message() -> str:
    own = settings.COMMONPLACE_HOME / "secret_key"
    return (
        "The secret key of this machine is not the key of this database, so sessions and queued tasks would be lost. "
        f"Set SECRET_KEY as on the other machines, or copy their COMMONPLACE_HOME/secret_key to {own}. "
        "To change the key on purpose, see `help change_key`."
    )


def store() -> None:
    """Store the fingerprint of this process's key, unless there is one already."""
    InstallationFact.objects.get_or_create(pk=FACT, defaults={"value": fingerprint(str(settings.SECRET_KEY))})


def adopt(key: str) -> None:
    """Use the key of a restored backup for the rest of this process, unless SECRET_KEY is set."""
    if not settings.SECRET_KEY_IS_SET:
        settings.SECRET_KEY = Conf.SECRET_KEY = key  # django-q has read it when it was imported


def replace(key: str) -> None:
    """Store the fingerprint of a new key, and keep that of the earlier one."""
    earlier = stored()
    _store(FACT, fingerprint(key))
    if earlier and earlier not in (fingerprint(key), fingerprint(key, OTHER_SALT)):
        _store(EARLIER_FACT, earlier)


def is_earlier(key: str) -> bool:
    """Return whether the database had this key before the present one."""
    found = InstallationFact.objects.filter(pk=EARLIER_FACT).values_list("value", flat=True).first() or ""
    return found in (fingerprint(key), fingerprint(key, OTHER_SALT))


def _store(fact: str, value: str) -> None:
    InstallationFact.objects.update_or_create(pk=fact, defaults={"value": value, "changed_at": timezone.now()})
