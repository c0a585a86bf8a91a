"""Random stories of rights and stored results: whoever opens a file gets what they could export now, and nothing else.

People gain and lose the persona and the right to review, memories are shared, made private and erased, and exports are
started, written and opened, in an order by chance. The model is two lines: a file opens for its owner while they may
export its scope, and none of its memories is one that was erased or withdrawn from it.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Permission

from foundation.operations.errors import Conflict, DomainError, Forbidden
from foundation.people.models import PersonaMembership
from foundation.people.permissions import build_caller
from memories import services as memories
from memories.operations import Erase, Remember, Share
from memories.writing import erasure
from memory_project.exchange.exports import services
from memory_project.exchange.exports.models import Export
from memory_project.models import User
from tests.jobs import ExportJobs, work_off

pytestmark = pytest.mark.django_db
STEPS = 40
PERSONA = "sales"


class Company:
    """Alice writes. Bob and Ada export: Bob as a curator as long as he is one, Ada as an admin."""

    def __init__(self, alice: User, bob: User, ada: User, chance: random.Random) -> None:
        self.people = {"alice": alice, "bob": bob, "ada": ada}
        self.chance = chance
        self.persona = PersonaMembership.objects.get(user=bob).persona
        self.right = Permission.objects.get(content_type__app_label="knowledge", codename="curate")
        self.holds_persona = True
        self.may_review = False
        self.texts: dict[Any, str] = {}
        self.visibilities: dict[Any, str] = {}
        self.exports: list[tuple[str, Export]] = []

    def caller(self, name: str) -> Any:
        return build_caller(User.objects.get(pk=self.people[name].pk), channel="test")

    # -- steps ---------------------------------------------------------------------------------------------

    def remember(self) -> None:
        text = f"The plain fact with the number {len(self.texts)} and the word {self.chance.random():.12f}."
        visibility = self.chance.choice(("persona", "everyone"))
        saved = memories.remember(self.caller("alice"), Remember(content=text, visibility=visibility)).record
        self.texts[saved.pk] = text
        self.visibilities[saved.pk] = visibility

    def share(self) -> None:
        if self.visibilities:
            record_id = self.chance.choice(list(self.visibilities))
            self.visibilities[record_id] = self.chance.choice(("private", "persona", "everyone"))
            operation = Share(record_id=record_id, visibility=self.visibilities[record_id])
            memories.share(self.caller("alice"), operation)

    def erase(self) -> None:
        if self.visibilities:
            record_id = self.chance.choice(list(self.visibilities))
            del self.visibilities[record_id]
            erasure.erase(self.caller("alice"), Erase(record_id=record_id, confirm=True))

    def change_persona(self) -> None:
        membership = PersonaMembership.objects.filter(user=self.people["bob"], persona=self.persona)
        if self.holds_persona:
            membership.delete()
        else:
            PersonaMembership.objects.create(user=self.people["bob"], persona=self.persona)
        self.holds_persona = not self.holds_persona

    def change_right(self) -> None:
        rights = self.people["bob"].user_permissions
        (rights.remove if self.may_review else rights.add)(self.right)
        self.may_review = not self.may_review

    def export(self) -> None:
        name = self.chance.choice(("bob", "ada"))
        scope = self.chance.choice((("persona", PERSONA), ("installation", ""), ("person", "")))
        options = dict(zip(("scope", "persona"), scope, strict=True))
        try:
            export = services.start_export(self.caller(name), format="jsonl", **options)
        except Forbidden:
            assert not self.may_export(name, scope[0])
            return
        except DomainError:  # as many as there may be, or the same one is being written
            return
        assert self.may_export(name, scope[0])
        self.exports.append((name, export))

    def write(self) -> None:
        for _name, export in self.exports:
            work_off(ExportJobs(), export.pk)

    # -- the model -----------------------------------------------------------------------------------------

    def may_export(self, name: str, scope: str) -> bool:
        if scope == "person" or name == "ada":
            return True
        return scope == "persona" and self.holds_persona and self.may_review

    def compare(self) -> int:
        """Open every file as its owner, and as the other one. Return how many opened."""
        opened = 0
        for name, export in self.exports:
            with pytest.raises(DomainError):
                services.open_export(self.caller("ada" if name == "bob" else "bob"), export_id=export.pk)
            try:
                _export, file = services.open_export(self.caller(name), export_id=export.pk)
            except Forbidden:
                assert not self.may_export(name, export.scope)
                continue
            except Conflict:  # not written yet, or withdrawn
                continue
            assert self.may_export(name, export.scope)
            with file:
                content = file.read().decode()
            opened += 1
            for record_id, text in self.texts.items():
                is_allowed = record_id in self.visibilities and (
                    export.scope == "installation" or self.visibilities[record_id] != "private"
                )
                assert is_allowed or text not in content
        return opened


@pytest.mark.parametrize("seed", range(6))
def test_a_stored_result_is_worth_what_its_owner_may_read_now(
    alice_user: User, bob_user: User, ada_user: User, seed: int, tmp_path: Path, settings: Any,
    django_capture_on_commit_callbacks: Any,
) -> None:  # fmt: skip
    settings.COMMONPLACE_FILES = tmp_path
    company = Company(alice_user, bob_user, ada_user, random.Random(seed))
    steps = [company.remember, company.share, company.erase, company.change_persona, company.change_right]
    steps += [company.export, company.export, company.write]
    company.remember()
    opened = 0
    for _ in range(STEPS):
        with django_capture_on_commit_callbacks(execute=True):
            company.chance.choice(steps)()
        opened += company.compare()
    assert opened > 0
