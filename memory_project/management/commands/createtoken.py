from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from memories.contract.errors import DomainError
from memories.identity.caller import system_caller
from memory_project.accounts.tokens import DEFAULT_DAYS, RIGHTS, create_token, expiry
from memory_project.arguments import between
from memory_project.models import User


class Command(BaseCommand):
    help = "Makes an API token for a person and prints it, once."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("email")
        parser.add_argument("--name", default="made on the command line")
        parser.add_argument("--persona", default="")
        parser.add_argument(
            "--days",
            type=between(0, 36_500),
            default=DEFAULT_DAYS,
            help="days until it expires; 0: never",
        )
        parser.add_argument("--right", action="append", default=[], help=f"one of {', '.join(RIGHTS)}")
        parser.add_argument("--graph", default="", help="a persona whose knowledge graph it has")
        parser.add_argument("--calls-per-minute", type=int, help="the most that it may call; no limit unless given")
        parser.add_argument("--writes-per-day", type=int, help="of those, calls that keep or change something")

    def handle(self, *, email: str, name: str, persona: str, days: int, right: list[str], **options: Any) -> None:
        user = User.objects.filter(email=email.strip().lower()).first()
        if user is None:
            raise CommandError(
                f"There is no person {email!r}: make one in the admin or with `manage.py createsuperuser`."
            )
        try:
            token, text = create_token(
                caller=system_caller(),
                user=user,
                name=name,
                persona=persona,
                rights=right,
                expires_at=expiry(days),
                graph=options["graph"],
                calls_per_minute=options["calls_per_minute"],
                writes_per_day=options["writes_per_day"],
            )
        except DomainError as error:
            raise CommandError(error.message) from None
        self.stderr.write(f"{token}: shown once, expires {token.expires_at or 'never'}")
        self.stdout.write(text)
