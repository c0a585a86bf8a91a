from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from foundation.operations.errors import DomainError
from foundation.people.caller import system_caller
from memory_project.accounts.tokens import DEFAULT_DAYS, RIGHTS, create_token, expiry
from memory_project.management.arguments import between
from memory_project.models import User

MAX_CALLS = 2_147_483_647  # the largest number that the column can hold


class Command(BaseCommand):
    help = "Create an API token for a person and print it. It can't be shown again."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("email", help="address of the person whom the token acts for")
        parser.add_argument("--name", default="created on the command line", help="name in the list of tokens")
        parser.add_argument("--persona", default="", help="the active persona; default: the person's default")
        parser.add_argument(
            "--days",
            type=between(0, 36_500),
            default=DEFAULT_DAYS,
            help="days until the token expires; 0: never",
        )
        parser.add_argument("--right", action="append", default=[], help=f"{' or '.join(RIGHTS)}; may be repeated")
        parser.add_argument("--graph", default="", help="use the knowledge graph of this persona")
        parser.add_argument(
            "--calls-per-minute", type=between(0, MAX_CALLS), help="maximum number of calls; default: no limit"
        )
        parser.add_argument(
            "--writes-per-day", type=between(0, MAX_CALLS), help="maximum number of calls that write; default: no limit"
        )
        parser.add_argument("--json", action="store_true", help="print token, name, email and expires_at as JSON")

    def handle(self, *, email: str, name: str, persona: str, days: int, right: list[str], **options: Any) -> None:
        user = User.objects.filter(email=email.strip().lower()).first()
        if user is None:
            raise CommandError(
                f"There is no account {email!r}: create one on the People page or with the command `createsuperuser`."
            )
        try:
            token, text = create_token(
                system_caller(),
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
        if options["json"]:
            expires = token.expires_at.isoformat() if token.expires_at else None
            entry = {"token": text, "name": token.name, "email": user.email, "expires_at": expires}
            self.stdout.write(json.dumps(entry))
            return
        self.stderr.write(f"{token}: expires {token.expires_at or 'never'}. Copy it now: it is not shown again.")
        self.stdout.write(text)
