"""Bearer tokens as texts, without a look-up of whose they are."""

from __future__ import annotations

import hashlib

PREFIX = "cpl_"


def digest(text: str) -> str:
    # a plain hash suffices: a token has 256 random bits, so guessing is hopeless, unlike with a password
    return hashlib.sha256(text.encode()).hexdigest()


def bearer(header: bytes | str) -> str:
    text = header.decode("latin-1") if isinstance(header, bytes) else header
    scheme, _, token = text.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
