from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand
from tqdm import tqdm

from foundation.people.permissions import build_caller
from memory_project.operating import demo
from memory_project.operating.demo import talk, warehouse


class Command(BaseCommand):
    help = "Load the demo content: a fictional retailer and its people. A second run adds only what is missing."

    def handle(self, *, verbosity: int = 1, **options: Any) -> None:
        people = demo.make_people()
        demo.load_demo_catalog()
        new = sum(
            tqdm(demo.make_memories(people), unit="memories", total=144, disable=verbosity < 1 or None, leave=False)
        )
        proposed = demo.make_insights(people)
        demo.make_analyses(people)
        for login in ("maya", "sam"):
            caller = build_caller(people[login], channel="demo")
            talk.make_conversation(caller)
        for login in ("maya", "jonas"):
            talk.make_graph(build_caller(people[login], channel="demo"), login)
        warehouse.make(demo.FOLDER / "catalog.json")
        if proposed:
            demo.mark_old_notifications_read(people)
        self.stdout.write(f"{new} memories and {proposed} insights added for {len(people)} people. Sign in as:")
        for login, (name, _, part) in demo.PEOPLE.items():
            self.stdout.write(f"  {demo.address(login):<24} {name}, {part}")
        self.stdout.write(f"  password of all four: {demo.PASSWORD}")
