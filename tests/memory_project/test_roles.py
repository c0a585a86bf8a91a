"""The application's database role can read and write rows, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.apps import apps
from django.conf import settings
from django.db import connection

from memory_project.operating.doctor import database, facts
from memory_project.operating.postgres.roles import statements
from memory_project.operating.postgres.server import APPLICATION, DATABASE, OWNER, SUPERUSER, EmbeddedPostgres

pytestmark = pytest.mark.skipif(bool(settings.DATABASE_URL), reason="the embedded server’s roles")


@pytest.fixture
def application(db: None) -> Iterator[psycopg.Connection[Any]]:
    name = connection.settings_dict["NAME"]
    host = connection.settings_dict["HOST"]
    with psycopg.connect(host=host, user=SUPERUSER, dbname=name, autocommit=True) as owner:
        for statement in statements(APPLICATION, owner.info.server_version):  # `migrate` grants these as the owner role
            owner.execute(statement)
    with psycopg.connect(host=host, user=APPLICATION, dbname=name, autocommit=True) as direct:
        yield direct


def test_the_role_reads_every_table(application: psycopg.Connection[Any]) -> None:
    for model in apps.get_models(include_auto_created=True):
        application.execute(f'SELECT 1 FROM "{model._meta.db_table}" LIMIT 1')  # noqa: S608 - names of our own tables


def test_the_role_writes_rows(application: psycopg.Connection[Any]) -> None:
    with application.transaction(force_rollback=True):
        application.execute("INSERT INTO catalog_cursors (name, value, updated_at) VALUES ('x', '', now())")
        application.execute("DELETE FROM catalog_cursors WHERE name = 'x'")
        application.execute("SELECT nextval(pg_get_serial_sequence('entity_baselines', 'id'))")


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE memory_records",
        "ALTER TABLE memory_records ADD COLUMN x int",
        "CREATE TABLE mine (x int)",
        "TRUNCATE memory_records",
        "DELETE FROM django_migrations",
        "COPY memory_records TO PROGRAM 'cat'",
        "SELECT * FROM pg_authid",
        "SELECT pg_read_file('postgresql.conf')",
        f"SET ROLE {SUPERUSER}",
        f"SET ROLE {OWNER}",
        "CREATE ROLE friend SUPERUSER",
    ],
)
def test_the_role_may_do_nothing_else(application: psycopg.Connection[Any], statement: str) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        application.execute(statement)


def test_the_role_may_analyze_tables(application: psycopg.Connection[Any]) -> None:
    if application.info.server_version >= 170000:
        application.execute("ANALYZE ingested_records")


def test_tables_owned_by_the_superuser_are_moved_to_the_owner_role(db: None) -> None:
    server = EmbeddedPostgres(settings.COMMONPLACE_HOME)
    with server.connect(DATABASE) as direct:
        direct.execute("DROP TABLE IF EXISTS of_before")
        direct.execute("CREATE TABLE of_before (id int GENERATED ALWAYS AS IDENTITY)")
        server.ensure_roles()
        row = direct.execute("SELECT tableowner FROM pg_tables WHERE tablename = 'of_before'").fetchone()
        direct.execute("DROP TABLE of_before")
    assert row == (OWNER,)


def test_a_missing_owner_role_is_reported(db: None) -> None:
    finding = database.role(facts.read())  # the tests run as superuser
    assert "superuser" in str(finding.found)
    assert "DATABASE_OWNER_URL" in str(finding.fix)
