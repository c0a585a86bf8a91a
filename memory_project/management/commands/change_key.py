from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from memory_project.operating.shared import key_change


class Command(BaseCommand):
    help = (
        "Make SECRET_KEY the key of the database. First restart all processes with the new key in "
        "SECRET_KEY_FALLBACKS. Then set SECRET_KEY to the new key and SECRET_KEY_FALLBACKS to the earlier one, run "
        "this, restart all processes with these settings, and run it again."
    )
    requires_system_checks = ()  # they would report the other key

    def handle(self, **options: Any) -> None:
        for name, count in key_change.change_key().items():
            self.stdout.write(f"{name}: {count}")
        self.stdout.write(
            "Restart all processes with the same SECRET_KEY and SECRET_KEY_FALLBACKS, and repeat this command for what "
            "they have encrypted meanwhile."
        )
