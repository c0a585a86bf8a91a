"""Callers that are kept between calls: any change of what they may do ends that at once, in every process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from typing import Any

import httpx2
import psycopg
import pytest
from django.conf import settings
from django.contrib.auth.models import Group, Permission
from django.test import Client
from django.utils import timezone

from foundation.database.pg_notify import direct_parameters
from foundation.operations.errors import Forbidden
from foundation.people.caller import Caller, system_caller
from foundation.people.models import Persona, PersonaMembership
from foundation.people.permissions import build_caller
from memory_project.accounts.tokens import create_token, find_token, revoke_token
from memory_project.mcp.auth import caller_for_token
from memory_project.mcp.caller_cache import CallerCache
from memory_project.mcp.gateway import registry
from memory_project.models import ApiToken, ConnectedApp, User
from tests.mcp_client import content_of, over_http
from tests.oauth_client import browser, client_id, connected
from tests.other_processes import until

__all__ = ["browser", "client_id"]
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def long_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "TOKEN_CACHE_S", 600)  # so that no entry ends by its age


@pytest.fixture
def cache() -> Iterator[CallerCache]:
    """A cache that follows changes as another process than the one that makes them: over its own connection."""
    cache = CallerCache()
    with cache.following_changes():
        assert until(lambda: cache.is_on)
        yield cache


@pytest.fixture
def text(alice_user: User) -> str:
    return create_token(system_caller(), user=alice_user, name="test")[1]


def found(cache: CallerCache, text: str) -> Caller | None:
    return cache.find(text, registry.current())


def lost(cache: CallerCache, text: str) -> bool:
    return found(cache, text) is None


def kept(cache: CallerCache, text: str) -> Caller | None:
    """Read the caller, and return what the cache has of it then, after the messages of earlier changes."""

    def is_kept() -> bool:
        caller_for_token(text, cache=cache)
        return found(cache, text) is not None

    assert until(is_kept)
    return found(cache, text)


def by_hand(statement: str) -> None:
    with psycopg.connect(**direct_parameters(), autocommit=True) as other:
        other.execute(statement)


def allow_curating(user: User) -> None:
    user.user_permissions.add(Permission.objects.get(codename="curate"))


def join_curators(user: User) -> None:
    group = Group.objects.create(name="Guests")
    group.permissions.add(Permission.objects.get(codename="curate"))
    user.groups.add(group)


CHANGES: dict[str, Callable[[User, ApiToken], object]] = {
    "revoked": lambda user, token: revoke_token(system_caller(), token_id=token.pk),
    "another expiry": lambda user, token: ApiToken.objects.update(expires_at=timezone.now() - timedelta(days=1)),
    "other rights": lambda user, token: ApiToken.objects.update(rights=["wipe"]),
    "deleted by hand": lambda user, token: by_hand("DELETE FROM memory_project_apitoken"),
    "disabled": lambda user, token: User.objects.filter(pk=user.pk).update(is_active=False),
    "an admin": lambda user, token: by_hand("UPDATE memory_project_user SET is_superuser = true"),
    "a group": lambda user, token: join_curators(user),
    "a permission of a group": lambda user, token: by_hand("DELETE FROM auth_group_permissions"),
    "a permission": lambda user, token: allow_curating(user),
    "a persona's limit": lambda user, token: Persona.objects.filter(name="sales").update(writes_per_day=1),
    "a lost persona": lambda user, token: PersonaMembership.objects.filter(user=user).delete(),
    "a persona": lambda user, token: PersonaMembership.objects.create(
        user=user, persona=Persona.objects.get(name="supply")
    ),
    "emptied": lambda user, token: by_hand("TRUNCATE memories_personamembership CASCADE"),
}


def test_any_change_ends_what_is_kept(cache: CallerCache, alice_user: User) -> None:
    for name, change in CHANGES.items():
        User.objects.update(is_active=True, is_superuser=False)
        token, text = create_token(system_caller(), user=alice_user, name=name)
        before = kept(cache, text)
        change(alice_user, token)
        assert until(partial(lost, cache, text)), name
        assert _read(text) != before, name


def _read(text: str) -> Caller | str | None:
    try:
        return caller_for_token(text)
    except Forbidden as error:
        return error.message


def test_use_of_a_token_and_signing_in_change_nothing(cache: CallerCache, text: str, alice_user: User) -> None:
    kept(cache, text)
    generation = cache.generation()
    ApiToken.objects.update(last_used_at=timezone.now())
    User.objects.update(last_login=timezone.now())
    ApiToken.objects.update(name="another name")  # arrives after the others would have
    assert until(lambda: cache.generation() > generation)
    assert cache.generation() == generation + 1


def test_an_expired_token_is_not_found(cache: CallerCache, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ApiToken.objects.update(expires_at=timezone.now() + timedelta(hours=1))
    assert kept(cache, text)
    later = timezone.now() + timedelta(hours=2)
    monkeypatch.setattr(timezone, "now", lambda: later)
    assert found(cache, text) is None
    assert caller_for_token(text, cache=cache) is None


def test_a_connected_app_ends_with_its_access_token(
    cache: CallerCache, browser: Client, client_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = connected(browser, client_id)
    token, seconds = answer["access_token"], answer["expires_in"]
    assert kept(cache, token)
    later = timezone.now() + timedelta(seconds=seconds + 1)
    assert later < ConnectedApp.objects.get().expires_at
    with monkeypatch.context() as patched:
        patched.setattr(timezone, "now", lambda: later)
        assert found(cache, token) is None
    assert kept(cache, token)
    ConnectedApp.objects.update(revoked_at=timezone.now())
    assert until(lambda: found(cache, token) is None)


def test_nothing_is_kept_or_found_while_messages_may_be_missing(cache: CallerCache, text: str) -> None:
    assert kept(cache, text)
    assert cache._subscription is not None
    cache._subscription._connects = 0  # as after a loss, before the listener has told of it
    assert found(cache, text) is None
    cache.forget()
    caller_for_token(text, cache=cache)
    assert cache._entries == {}


def test_what_was_read_before_a_change_is_not_kept(
    cache: CallerCache, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = build_caller

    def read_and_change(*arguments: Any, **options: Any) -> Caller:
        caller = real(*arguments, **options)
        generation = cache.generation()
        by_hand("UPDATE memories_persona SET writes_per_day = 7")
        assert until(lambda: cache.generation() > generation)
        return caller

    monkeypatch.setattr("memory_project.mcp.auth.build_caller", read_and_change)
    assert caller_for_token(text, cache=cache)
    assert found(cache, text) is None


def test_without_a_server_and_with_no_age_nothing_is_kept(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = CallerCache()
    caller_for_token(text, cache=cache)
    assert cache._entries == {}
    monkeypatch.setattr(settings, "TOKEN_CACHE_S", 0)
    with cache.following_changes():
        assert not cache.is_on


def test_calls_over_http_need_no_query_to_know_their_caller_until_the_token_is_revoked(
    http: str, text: str, olga_user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    from memory_project import asgi

    cache = asgi.mcp_server.caller_cache
    reads: list[str] = []

    def counted(text: str) -> object:
        reads.append(text)
        return find_token(text)

    monkeypatch.setattr("memory_project.mcp.auth.find_token", counted)
    monkeypatch.setattr(registry, "REFRESH_S", 600.0)
    assert until(lambda: cache.is_on)
    outsider = create_token(system_caller(), user=olga_user, name="test")[1]
    fact = {"command": "remember", "content": "Refunds are booked on Fridays."}
    over_http(http, text, lambda client: client.call_tool("memory_manage", fact))

    def owners(token: str) -> list[str]:
        response = over_http(http, token, lambda client: client.call_tool("memory_recall", {"query": "Fridays"}))
        return [memory["created_by"] for memory in response.structured_content["memories"]]

    assert until(lambda: owners(text) and found(cache, text))
    reads.clear()
    assert owners(text) == ["alice@example.org"]
    assert owners(outsider) == []
    assert owners(text) == ["alice@example.org"]
    assert text not in reads
    Persona.objects.filter(name="sales").update(tools_deny=["memory_manage"])
    assert until(lambda: found(cache, text) is None)
    refused = over_http(http, text, lambda client: client.call_tool("memory_manage", fact))
    assert content_of(refused)["code"] == "forbidden"
    assert until(lambda: owners(text) and found(cache, text))
    revoke_token(system_caller(), token_id=ApiToken.objects.get(user__email="alice@example.org").pk)
    assert until(lambda: found(cache, text) is None)
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    headers = {"Authorization": f"Bearer {text}"}
    assert httpx2.post(f"{http}/mcp", json=body, headers=headers, timeout=60).status_code == 401
