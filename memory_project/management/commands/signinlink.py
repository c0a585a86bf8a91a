from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from foundation.operations.errors import NotFound
from memory_project.accounts import sign_in_links


class Command(BaseCommand):
    help = "Print a link that signs a person in once, within 15 minutes."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("email", help="e-mail address of the person")

    def handle(self, *args: Any, email: str, **options: Any) -> None:
        try:
            self.stdout.write(sign_in_links.create(email))
        except NotFound as error:
            raise CommandError(error.message) from None
