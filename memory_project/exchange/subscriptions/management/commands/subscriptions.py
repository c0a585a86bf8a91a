from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError

from foundation.operations.errors import DomainError
from foundation.people.caller import system_caller
from foundation.people.permissions import build_caller
from foundation.work import jobs
from memories.models import Visibility
from memory_project.exchange.subscriptions import operations, services
from memory_project.exchange.subscriptions.models import RunState, Subscription, SubscriptionKind, SubscriptionRun

SHOWN = 20  # lines of a run's report


class Command(BaseCommand):
    help = "Keep folders and git repositories of texts in step with memories. Without an action, list subscriptions."

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", metavar="ACTION")
        actions.add_parser("list", help="list all subscriptions with their last run")
        add = actions.add_parser("add", help="subscribe to a source")
        add.add_argument("location", help="absolute path of a folder, or https, ssh or file URL of a git repository")
        add.add_argument("--as", dest="email", required=True, help="e-mail address of the operator who will own it")
        add.add_argument("--name", default="", help="name in lists; by default the end of the location")
        add.add_argument("--branch", default="", help="branch of the repository; by default its default branch")
        add.add_argument("--subfolder", default="", help="read only files below this folder, for example docs/adr")
        add.add_argument("--persona", default="", help="persona of the memories; by default the owner's own")
        add.add_argument(
            "--visibility", choices=Visibility.values, default=Visibility.PERSONA, help="who may read them"
        )
        add.add_argument("--minutes", type=int, default=60, help="minutes between two runs")
        sync = actions.add_parser("sync", help="compare a source with its memories now")
        sync.add_argument("subscription", help="name or id")
        sync.add_argument("--plan", action="store_true", help="only show what would change")
        sync.add_argument("--removals", type=int, default=0, help="confirm that so many files may be missing")
        for action, text in (("pause", "stop the scheduled runs"), ("resume", "continue the scheduled runs")):
            actions.add_parser(action, help=text).add_argument("subscription", help="name or id")
        remove = actions.add_parser("remove", help="end a subscription")
        remove.add_argument("subscription", help="name or id")
        remove.add_argument("--forget", action="store_true", help="forget its memories, too; otherwise they stay")

    def handle(self, *, action: str | None, **options: Any) -> None:
        actions: dict[str, Callable[..., None]] = {
            "list": self.show, "add": self.add, "sync": self.sync, "pause": self.change, "resume": self.change,
            "remove": self.remove,
        }  # fmt: skip
        try:
            actions[action or "list"](action=action, **options)
        except DomainError as error:
            raise CommandError(error.message) from None

    def show(self, **options: Any) -> None:
        for row in Subscription.objects.all():
            last = row.runs.first()
            state = "paused" if row.is_paused else f"every {row.interval_min} min"
            self.stdout.write(f"{row.pk.hex}  {row.name}  {row.location}  {row.created_by}  {state}  {_summary(last)}")

    def add(self, *, email: str, location: str, minutes: int, name: str, **options: Any) -> None:
        person = get_user_model()._default_manager.filter(email=email.strip().lower()).first()
        if person is None:
            raise CommandError(f"There is no user {email!r}. The admin lists all users under People.")
        kind = SubscriptionKind.FOLDER if location.startswith("/") else SubscriptionKind.GIT
        names = ("branch", "subfolder", "persona", "visibility")
        values = {name: options[name] for name in names} | {"location": location, "kind": kind.value}
        values |= {"interval_min": minutes, "name": name or location.rstrip("/").rpartition("/")[2][:80]}
        caller = build_caller(person, channel="command")
        row = services.add(caller, operations.AddSubscription.read(values))
        self.stdout.write(f"Added {row.name} ({row.pk.hex}). A worker reads it soon; `subscriptions sync` does it now.")

    def sync(self, *, subscription: str, plan: bool, removals: int, **options: Any) -> None:
        values = {"id": _find(subscription).pk.hex, "plan": plan, "removals": removals}
        run = services.new_run(system_caller(), operations.RunSubscription.read(values))
        jobs.run_slices(services.SubscriptionJobs(), run, jobs.TURN_S)
        run.refresh_from_db()
        self.stdout.write(_summary(run))
        for line in run.report[:SHOWN]:
            why = f": {line['why']}" if line.get("why") else ""
            self.stdout.write(f"  {line['what']:<12}{line['text']}{why}")
        if len(run.report) > SHOWN:
            self.stdout.write("  The admin shows more, under Runs.")
        if run.state != RunState.DONE:
            raise CommandError(run.error)

    def change(self, *, subscription: str, action: str, **options: Any) -> None:
        values = {"id": _find(subscription).pk.hex, "is_paused": action == "pause"}
        services.change(system_caller(), operations.ChangeSubscription.read(values))

    def remove(self, *, subscription: str, forget: bool, **options: Any) -> None:
        values = {"id": _find(subscription).pk.hex, "memories": operations.FORGET if forget else operations.KEEP}
        count = services.remove(system_caller(), operations.RemoveSubscription.read(values))
        self.stdout.write(f"Removed. {count:,} memories were forgotten.")


def _find(text: str) -> Subscription:
    rows = list(Subscription.objects.filter(name=text)[:2])
    if not rows:
        try:
            rows = list(Subscription.objects.filter(pk=UUID(text)))
        except ValueError:
            rows = []
    if len(rows) != 1:
        problem = "Several subscriptions have the name" if rows else "There is no subscription"
        raise CommandError(f"{problem} {text!r}. `subscriptions list` shows the ids.")
    return rows[0]


def _summary(run: SubscriptionRun | None) -> str:
    if run is None:
        return "never run"
    counts = ", ".join(f"{count:,} {what}" for what, count in sorted(run.counts.items()))
    return f"{'plan, ' if run.is_plan else ''}{run.get_state_display().lower()}: {counts or run.error or 'nothing yet'}"
