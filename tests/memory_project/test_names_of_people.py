"""Pages name people by name."""

from __future__ import annotations

from typing import Any

from django.template import Context, Template

from memories.models import MemoryRecord
from memory_project.accounts import names
from memory_project.models import User
from tests.conftest import person

PAGE = Template("{% load portal %}{% for email in people %}{{ email|person }};{% endfor %}")


def rendered(*emails: str | None) -> str:
    return PAGE.render(Context({"people": emails}))


def test_people_have_their_names_and_others_their_address(alice_user: User, bob_user: User) -> None:
    names_and_addresses = rendered("alice@example.org", "bob@example.org", "gone-1@former.example", "", None)
    assert names_and_addresses == "Alice Arden;bob@example.org;gone-1@former.example;;;"


def test_people_of_the_same_name_are_told_apart(alice_user: User) -> None:
    person("other@example.org", name="alice  Arden")
    text = rendered("alice@example.org", "other@example.org")
    assert text == "Alice Arden (alice@example.org);alice  Arden (other@example.org);"


def test_names_are_escaped_and_hide_no_characters(db: None) -> None:
    person("eve@example.org", name="<b>Eve\u202e")
    assert rendered("eve@example.org") == "&lt;b&gt;Eve⟦U+202E⟧;"


def test_a_page_reads_the_names_once(alice_user: User, bob_user: User, django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(1), names.read_once():
        rendered("alice@example.org", "bob@example.org", "nobody@example.org")
        rendered("alice@example.org")


def test_the_byline_names_the_author_and_the_editor(fact: MemoryRecord) -> None:
    page = Template("{% load portal %}{{ record|byline }}")
    assert page.render(Context({"record": fact})) == "Alice Arden"
    fact.metadata = {**fact.metadata, "edited_by": "bob@example.org"}
    assert page.render(Context({"record": fact})) == "Alice Arden, reworded by bob@example.org"
