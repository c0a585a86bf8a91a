"""Secrets of endpoints, and the signature headers of Standard Webhooks."""

from __future__ import annotations

import base64
import hashlib
import secrets
from datetime import datetime, timedelta

from django.conf import settings
from django.utils.crypto import salted_hmac
from standardwebhooks import Webhook

from foundation.database import sealing
from memory_project.notifications.webhooks.models import Endpoint

# Goes into each secret. It was the name of a module once and never changes, because owners keep the secrets.
SALT = "memory_project.webhooks.secret"
OVERLAP = timedelta(days=1)  # after a rotation, requests are signed with the previous secret, too


def new_nonce() -> str:
    return secrets.token_hex(32)


def secret_of(nonce: str, key: str = "") -> str:
    """Return the secret that is computed from the nonce and a key, by default SECRET_KEY."""
    digest = salted_hmac(SALT, nonce, secret=key or str(settings.SECRET_KEY), algorithm="sha256").digest()
    return f"whsec_{base64.b64encode(digest).decode()}"


def digest_of(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def is_known(endpoint: Endpoint) -> bool:
    """Return whether the owner's secret can still be computed. It can't when the key that it needs is gone."""
    return _key_of(endpoint) is not None


def _key_of(endpoint: Endpoint) -> str | None:
    keys = sealing.secret_keys()
    return next((key for key in keys if digest_of(secret_of(endpoint.nonce, key)) == endpoint.secret_digest), None)


def headers(endpoint: Endpoint, message_id: str, body: str, now: datetime) -> dict[str, str]:
    nonces = [endpoint.nonce]
    if endpoint.previous_nonce and endpoint.rotated_at and now - endpoint.rotated_at < OVERLAP:
        nonces.append(endpoint.previous_nonce)
    key = _key_of(endpoint) or ""
    signatures = [Webhook(secret_of(nonce, key)).sign(message_id, now, body) for nonce in nonces]
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": " ".join(signatures),
    }
