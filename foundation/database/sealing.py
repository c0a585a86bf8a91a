"""Encryption of credentials in the database, with a key that is derived from SECRET_KEY.

A model names its encrypted column in `sealed_column`, so that a change of the key finds it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from typing import Any

from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.apps import apps
from django.conf import settings
from django.db.models import Model

PURPOSE = "commonplace upstream credentials"  # another text would make stored values unreadable


def seal(values: Mapping[str, Any]) -> str:
    return cipher(PURPOSE, str(settings.SECRET_KEY)).encrypt(json.dumps(values).encode()).decode()


def unseal(text: str, key: str = "") -> dict[str, Any] | None:
    """Return the values, decrypted with `key`, by default with whichever of secret_keys() fits; None if none does."""
    for each in [key] if key else secret_keys():
        try:
            values: dict[str, Any] = json.loads(cipher(PURPOSE, each).decrypt(text.encode()))
        except InvalidToken:
            continue
        return values
    return None


def secret_keys() -> list[str]:
    """Return SECRET_KEY and its fallbacks. While the key is changed, some processes have the new one, some the old."""
    return [str(settings.SECRET_KEY), *map(str, settings.SECRET_KEY_FALLBACKS)]


def sealed_columns() -> Iterator[tuple[type[Model], str]]:
    """Yield the encrypted column of each model that has one."""
    for model in apps.get_models():
        if column := getattr(model, "sealed_column", ""):
            yield model, column


def cipher(purpose: str, key: str) -> Fernet:
    """Return a cipher whose key is derived from `key`, another one for each purpose (HKDF, RFC 5869)."""
    derived = HKDF(SHA256(), 32, salt=None, info=purpose.encode()).derive(key.encode())
    return Fernet(base64.urlsafe_b64encode(derived))
