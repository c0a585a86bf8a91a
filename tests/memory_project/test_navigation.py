"""The navigation: its sections, what is below the one that a person is in, and what a new account sees."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from memory_project.models import User
from tests.pages import browser


def page_of(user: User, route: str) -> str:
    return " ".join(browser(user).get(reverse(route)).content.decode().split())


def navigation_of(user: User, route: str) -> str:
    return page_of(user, route).partition('<nav aria-label="Main">')[2].partition("</nav>")[0]


def entries(navigation: str) -> list[str]:
    """Return the titles of the sections, which have icons, without those of the administration."""
    return re.findall(r"</svg><span>([^<]+)</span>", navigation.partition("<details")[0])


FOR_EVERYONE = ["Home", "Memories", "Catalog", "Insights", "Analyses", "Conversations"]


def test_an_analyst_has_six_entries_and_a_curator_two_more(alice_user: User, cora_user: User) -> None:
    assert entries(navigation_of(alice_user, "analyses")) == FOR_EVERYONE
    assert entries(navigation_of(cora_user, "analyses")) == [*FOR_EVERYONE, "Review", "Gaps"]


@pytest.mark.parametrize(
    ("route", "pages", "current"),
    [
        ("inbox", ["This week", "Inbox", "Notifications"], "Inbox"),
        ("my-knowledge", ["My Knowledge", "Ask", "Citations"], "My Knowledge"),
        ("create-memory", ["My Knowledge", "Ask", "Citations"], "My Knowledge"),
        ("graph", ["Entities", "Graph"], "Graph"),
        ("cached-answers", ["Conversations", "Decisions", "Cached answers"], "Cached answers"),
        ("analyses", [], "Analyses"),
        ("activity", [], ""),
    ],
)
def test_the_pages_of_a_section_are_below_it(alice_user: User, route: str, pages: list[str], current: str) -> None:
    navigation = navigation_of(alice_user, route)
    below = navigation.partition('<ul class="pages">')[2].partition("</ul>")[0]
    assert re.findall(r"<span>([^<]+)</span>", below) == pages
    marked = re.findall(r'aria-current="page">(?:<svg.*?</svg>)?<span>([^<]+)</span>', navigation)
    assert marked == ([current] if current else [])


def test_administration_is_folded_outside_of_the_admin(ada_user: User) -> None:
    assert '<details class="group">' in navigation_of(ada_user, "my-knowledge")
    assert '<details class="group" open>' in navigation_of(ada_user, "admin:index")


def test_get_started_is_shown_on_the_first_day(alice_user: User) -> None:
    User.objects.filter(pk=alice_user.pk).update(date_joined=timezone.now())
    assert 'class="panel first-run"' in page_of(alice_user, "my-knowledge")
    User.objects.filter(pk=alice_user.pk).update(date_joined=timezone.now() - timedelta(days=2))
    assert 'class="panel first-run"' not in page_of(alice_user, "my-knowledge")
