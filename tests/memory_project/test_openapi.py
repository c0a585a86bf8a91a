"""Requests of every kind that the OpenAPI document allows or forbids, made up by schemathesis."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from drf_spectacular.generators import SchemaGenerator
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

from foundation.people.caller import system_caller
from memory_project.accounts.tokens import create_token
from memory_project.models import User
from tests.knowledge.conftest import small_catalog  # noqa: F401 - a fixture

# A schema can't say that a table must exist, or which fields need which others.
LEFT_OUT = [positive_data_acceptance]
EXAMPLES = 2  # of each mode for each operation; `make fuzz` tries many
DOCUMENT = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
SCHEMA = schemathesis.openapi.from_dict(DOCUMENT)
SCHEMA.app = get_wsgi_application()
OPERATIONS: list[Any] = [result.ok() for result in SCHEMA.get_all_operations()]  # type: ignore[union-attr]
TAGS = sorted({tag for operation in OPERATIONS for tag in operation.definition.raw["tags"]})


@pytest.fixture
def open_connection() -> Iterator[None]:
    """Let requests leave the test's connection open, as Django's test client does."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


def test_operations_are_named_and_described() -> None:
    operations = [operation for methods in DOCUMENT["paths"].values() for operation in methods.values()]
    names = [operation["operationId"] for operation in operations]
    assert sorted(set(names)) == sorted(names)
    assert all(operation["summary"] and operation["tags"] for operation in operations)
    assert all({"400", "401", "403", "404", "429"} <= set(operation["responses"]) for operation in operations)


@pytest.mark.parametrize("tag", TAGS)
def test_answers_are_as_documented(
    tag: str,
    ada_user: User,
    small_catalog: None,  # noqa: F811
    open_connection: None,
) -> None:
    token = create_token(system_caller(), user=ada_user, name="t", rights=["administer"])[1]
    headers = {"Authorization": f"Bearer {token}"}
    for operation in [operation for operation in OPERATIONS if tag in operation.definition.raw["tags"]]:
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):

            @given(case=operation.as_strategy(generation_mode=mode))
            @settings(
                max_examples=EXAMPLES,
                deadline=None,
                database=None,
                derandomize=True,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            def ask(case: Any) -> None:
                case.call_and_validate(headers=headers, excluded_checks=LEFT_OUT)

            ask()
