"""Stores the fingerprint of the secret key, once, after migrations."""

from __future__ import annotations

from typing import Any

from django.db.models.signals import post_migrate
from django.dispatch import receiver

from memory_project.operating.shared import secret_key_check


@receiver(post_migrate)
def store_fingerprint(sender: Any, **extra: Any) -> None:
    # with a target of migrations before the table was created, there is nowhere to store it
    if sender.label == "memory_project" and secret_key_check.has_table():
        secret_key_check.store()
