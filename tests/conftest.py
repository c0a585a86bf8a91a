"""Shared fixtures: Alice owns the memories, Bob is her colleague, Olga is an outsider, Ada is an admin.

Every test differs from an installation in these ways, without asking for it:

- Each function with a parameter `caller` that a test calls runs under the database identity of that caller, as it would
  behind a channel (tests/acting_callers.py). So row-level security applies to services that are called directly.
- A row of a domain table that is written by anything but a service fails the test (tests/write_guard.py).
- The embedding model is a deterministic stand-in (tests/settings.py), and no process-wide state outlives a test.
- No memory has a check until the test adds one, and a bulk action ends in its first slice.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from math import inf
from typing import Any

import pytest
from django.core.cache import caches
from django.db import connection
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from analysis.checks import presence
from foundation import embedding
from foundation.database import identity
from foundation.people.caller import Caller
from foundation.people.models import Persona, PersonaMembership
from foundation.people.permissions import build_caller
from memories import services
from memories.models import MemoryRecord
from memories.operations import Remember
from memories.writing import bulk_actions, bulk_preview
from memory_project.models import User
from memory_project.operating.postgres.roles import statements
from memory_project.web import rate_limits
from tests.acting_callers import wrap_services
from tests.migrated_template import migrated_template
from tests.pristine_database import kept_pristine
from tests.write_guard import services_alone_write

wrap_services()
# Each run tries the same examples. A busy machine may take any time for one, and one may use the rows of another.
hypothesis_settings.register_profile(
    "tests",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
hypothesis_settings.load_profile("tests")


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings: None, django_db_blocker: Any) -> None:
    with django_db_blocker.unblock():
        connection.settings_dict["TEST"]["TEMPLATE"] = migrated_template()


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """Grant the application's role its privileges, because tests assume it while they act as a person."""
    role = connection.settings_dict.get("IDENTITY_ROLE")
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        for statement in statements(role, connection.pg_version) if role else []:  # type: ignore[attr-defined]
            cursor.execute(statement)
    with ExitStack() as stack:
        with django_db_blocker.unblock():
            stack.enter_context(kept_pristine())
        yield


@pytest.fixture(autouse=True)
def own_model_slot() -> Iterator[None]:
    """Reset the process-wide embedding provider, so that no test uses the provider of another."""
    embedding.reset()
    yield
    embedding.reset()


@pytest.fixture(autouse=True)
def no_checks_yet() -> None:
    """Tell each test that no memory has a check until it adds one, so that recall needs no query to find out."""
    presence.reset(asked_until=inf)


@pytest.fixture(autouse=True)
def no_marked_days() -> None:
    """Forget which keys have called today, because another test may have counted them in a database that is gone."""
    rate_limits._marked_days.clear()


@pytest.fixture(autouse=True)
def empty_process_cache() -> None:
    """Forget counts that another test's pages have kept for a minute."""
    caches["process"].clear()


@pytest.fixture(autouse=True)
def own_identity() -> Iterator[None]:
    """Give each test a database identity of its own, because a request that a test makes by hand sets it."""
    with identity.scoped():
        yield


@pytest.fixture(autouse=True)
def services_alone() -> Iterator[None]:
    """Fail the test if something other than a service writes a row of a domain table."""
    with services_alone_write():
        yield


@pytest.fixture(autouse=True)
def patient_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a batch finish in its first slice, and a preview check all rows, even on a busy machine.

    Tests of slices set their own limit.
    """
    monkeypatch.setattr(bulk_actions, "SLICE_S", 60.0)
    monkeypatch.setattr(bulk_preview, "LIMIT_S", 60.0)


@pytest.fixture
def personas(db: None) -> dict[str, Persona]:
    # missing if an earlier test flushed the database
    Persona.objects.get_or_create(is_default=True, defaults={"name": "analyst"})
    return {name: Persona.objects.create(name=name, title=name.title()) for name in ("sales", "supply")}


def person(email: str, *personas: Persona, **fields: Any) -> User:
    user = User.objects.create_user(email, "a long password", **fields)
    for index, persona in enumerate(personas):
        PersonaMembership.objects.create(user=user, persona=persona, is_default=index == 0)
    return user


@pytest.fixture
def alice_user(personas: dict[str, Persona]) -> User:
    return person("alice@example.org", personas["sales"], name="Alice Arden")


@pytest.fixture
def bob_user(personas: dict[str, Persona]) -> User:
    return person("bob@example.org", personas["sales"])


@pytest.fixture
def olga_user(personas: dict[str, Persona]) -> User:
    return person("olga@example.org", personas["supply"])


@pytest.fixture
def ada_user(personas: dict[str, Persona]) -> User:
    return person("ada@example.org", personas["sales"], is_staff=True, is_superuser=True)


@pytest.fixture
def alice(alice_user: User) -> Caller:
    return build_caller(alice_user, channel="test")


@pytest.fixture
def bob(bob_user: User) -> Caller:
    return build_caller(bob_user, channel="test")


@pytest.fixture
def olga(olga_user: User) -> Caller:
    return build_caller(olga_user, channel="test")


@pytest.fixture
def ada(ada_user: User) -> Caller:
    return build_caller(ada_user, channel="test")


REFUNDS = "Revenue in the sales mart excludes refunds."


@pytest.fixture
def fact(alice: Caller) -> MemoryRecord:
    """A memory of Alice that her persona may read."""
    return services.remember(alice, Remember(content=REFUNDS)).record
