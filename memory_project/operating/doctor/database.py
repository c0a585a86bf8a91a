"""Checks of the database: the server, the role and its rights, the schema, and connections."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import cast

import psycopg
from django.apps import apps
from django.conf import settings
from django.db import ProgrammingError
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.utils.translation import gettext_noop

from foundation.database import owner
from memories.retrieval import indexing
from memory_project.operating.doctor.facts import Facts
from memory_project.operating.doctor.findings import HealthFinding, listed, ok, problem, text, unknown, warning
from memory_project.operating.doctor.registry import Reads, health_check
from memory_project.operating.doctor.table_facts import TableFacts

MIN_POSTGRES = 160000
MIN_PGVECTOR = (0, 8)
MAX_CLOCK_ERROR_S = 5.0
PACKAGES = ("memory_project", "knowledge", "analysis", "memories")
# What is lost without a setting of DATABASE_SEARCH.
EFFECTS = {
    "ivfflat.probes": gettext_noop("searches of large scopes find fewer memories"),
    "ivfflat.iterative_scan": gettext_noop("searches among the memories of few people may find none"),
    "work_mem": gettext_noop("counting facets writes to the disk"),
    "random_page_cost": gettext_noop("queries may not use their indexes"),
}
HELPERS = 3  # processes of a worker that have a connection beside those that run tasks


def unreachable(error: Exception | str) -> HealthFinding:
    first_line = (str(error).strip() or type(error).__name__).splitlines()[0]
    found = text(gettext_noop("The database does not answer: %(error)s"), error=first_line)
    if settings.DATABASE_URL:
        fix = text(
            gettext_noop("Check DATABASE_URL and that its server runs, or unset it to use the embedded PostgreSQL.")
        )
    else:
        fix = text(
            gettext_noop("Start it with the command `db start`. COMMONPLACE_HOME/postgres/server.log has the reason.")
        )
    return problem(found, fix)


@health_check("database", gettext_noop("Server"), Reads.FACTS, number="E002")
def server(facts: Facts) -> HealthFinding:
    if facts.server_version < MIN_POSTGRES:
        found = text(gettext_noop("PostgreSQL is older than 16."))
        return problem(found, text(gettext_noop("Upgrade it, or unset DATABASE_URL.")))
    version = f"{facts.server_version // 10_000}.{facts.server_version % 10_000}"
    return ok(gettext_noop("PostgreSQL %(version)s answers, role %(role)s"), version=version, role=facts.role)


@health_check("database", gettext_noop("Primary server"), Reads.FACTS, number="E011")
def primary(facts: Facts) -> HealthFinding:
    if facts.is_replica:
        found = text(gettext_noop("DATABASE_URL names a read-only replica."))
        return problem(found, text(gettext_noop("Name the primary server in DATABASE_URL.")))
    if facts.is_read_only:
        found = text(gettext_noop("The database is read-only (default_transaction_read_only)."))
        fix = text(gettext_noop("Turn default_transaction_read_only off for the server, the database and the role."))
        return problem(found, fix)
    return ok(gettext_noop("the server accepts writes"))


@health_check("database", gettext_noop("Role"), Reads.FACTS, number="W002")
def role(facts: Facts) -> HealthFinding:
    fix = text(
        gettext_noop(
            "An SQL injection could therefore alter or drop tables. Create a role without privileges for DATABASE_URL, "
            "put the current role into DATABASE_OWNER_URL, and run the command `migrate`."
        )
    )
    if facts.is_superuser:
        return warning(text(gettext_noop("The application's database role is a PostgreSQL superuser.")), fix)
    if facts.owns_tables:
        return warning(text(gettext_noop("The application's database role owns the tables.")), fix)
    return ok(gettext_noop("the role reads and writes rows only"))


@health_check("database", gettext_noop("Privileges"), Reads.FACTS, number="W012")
def grants(facts: Facts) -> HealthFinding:
    if not facts.missing_grants:
        return ok(gettext_noop("the role may read and write every table"))
    found = text(
        gettext_noop("The role %(role)s lacks privileges: %(tables)s"),
        role=facts.role,
        tables=listed(facts.missing_grants),
    )
    return problem(
        found, text(gettext_noop("Run the command `migrate`, which grants them as the owner of the tables."))
    )


@health_check("database", gettext_noop("pgvector"), Reads.FACTS, number="E003")
def extension(facts: Facts) -> HealthFinding:
    if facts.vector_available is None:
        fix = text(gettext_noop("Install the package pgvector for this PostgreSQL (≥ 0.8), or unset DATABASE_URL."))
        return problem(text(gettext_noop("The extension pgvector is not available.")), fix)
    version = facts.vector_installed or facts.vector_available
    if tuple(int(part) for part in version.split(".")[:2]) < MIN_PGVECTOR:
        fix = text(gettext_noop("Install pgvector ≥ 0.8, then ALTER EXTENSION vector UPDATE."))
        return problem(text(gettext_noop("pgvector is %(version)s, older than 0.8."), version=version), fix)
    if facts.vector_installed is None and not facts.may_create:
        fix = text(gettext_noop("Let a superuser run CREATE EXTENSION vector in this database once."))
        return problem(text(gettext_noop("This role is not allowed to install pgvector.")), fix)
    if facts.vector_installed and facts.vector_installed != facts.vector_available:
        message = gettext_noop("pgvector %(version)s; ALTER EXTENSION vector UPDATE would make it %(available)s")
        return ok(message, version=version, available=facts.vector_available)
    return ok(gettext_noop("pgvector %(version)s"), version=version)


@health_check("database", gettext_noop("Row-level security"), Reads.FACTS, number="W003")
def row_security(facts: Facts) -> HealthFinding:
    fix = text(gettext_noop("docs/security.md names the privileges of the role, and how to enable it for a table."))
    if facts.bypasses_policies:
        found = gettext_noop("Row-level security is off: the application's role is a superuser or has BYPASSRLS.")
        return warning(text(found), fix)
    if facts.unprotected:
        found = gettext_noop("Row-level security is off: it is disabled or not forced for %(tables)s.")
        return problem(text(found, tables=listed(facts.unprotected)), fix)
    return ok(gettext_noop("PostgreSQL checks who reads a row"))


# -- schema ----------------------------------------------------------------------------------------------------


@cache
def _on_disk() -> frozenset[tuple[str, str]]:
    """Return the migrations of this version, by their files. Importing all of them would take seconds."""
    found = set()
    for label in {config.label for config in apps.get_app_configs()}:
        module, _ = MigrationLoader.migrations_module(label)
        spec = find_spec(module) if module else None
        if spec is not None and spec.submodule_search_locations:
            files = iter_modules(list(spec.submodule_search_locations))
            found |= {(label, file.name) for file in files if not file.ispkg and file.name[0] not in "_~"}
    return frozenset(found)


def pending_migrations() -> tuple[list[str], list[str]]:
    """Return the migrations that are not applied, and ours that a newer version has applied. Raises DatabaseError.

    Django records a squashed migration together with those that it replaces, so names can be compared.
    """
    ours = {config.label for config in apps.get_app_configs() if config.name.partition(".")[0] in PACKAGES}
    try:
        applied = set(MigrationRecorder.Migration.objects.values_list("app", "name"))
    except ProgrammingError as error:
        if not isinstance(error.__cause__, psycopg.errors.UndefinedTable):
            raise
        applied = set()  # the database is empty
    newer = [key for key in applied - _on_disk() if key[0] in ours]
    return [".".join(key) for key in sorted(_on_disk() - applied)], [".".join(key) for key in sorted(newer)]


@health_check("database", gettext_noop("Migrations"), Reads.DATABASE, number="W017")
def migrations() -> HealthFinding:
    unapplied, newer = pending_migrations()
    if newer:
        found = text(gettext_noop("The database was migrated by a newer version: %(names)s"), names=listed(newer))
        return problem(found, text(gettext_noop("Install that version, or restore an earlier backup.")))
    if unapplied:
        found = text(
            gettext_noop("%(count)s migrations are not applied: %(names)s"),
            count=len(unapplied),
            names=listed(unapplied),
        )
        return problem(found, text(gettext_noop("Run the command `migrate`.")))
    return ok(gettext_noop("all migrations are applied"))


@health_check("database", gettext_noop("Vector dimensions"), Reads.DATABASE, number="E006")
def dimension() -> HealthFinding:
    if description := indexing.dimension_problem():
        return problem(
            text("%(description)s", description=description),
            text(gettext_noop("Run the command `embed --dimension N`, or set EMBEDDING_DIMENSIONS back.")),
        )
    return ok(
        gettext_noop("vectors have %(count)s dimensions, as EMBEDDING_DIMENSIONS says"),
        count=settings.EMBEDDING_DIMENSIONS,
    )


@health_check("database", gettext_noop("Text search"), Reads.FACTS, number="E008")
def text_search(facts: Facts) -> HealthFinding:
    name = settings.TEXT_SEARCH_CONFIG
    if name in facts.search_configurations:
        return ok(gettext_noop("PostgreSQL has the text search of TEXT_SEARCH_CONFIG=%(name)s"), name=name)
    found = text(gettext_noop("TEXT_SEARCH_CONFIG='%(name)s' is unknown."), name=name)
    choices = ", ".join(sorted(facts.search_configurations))
    return problem(found, text(gettext_noop("Set it to one of: %(choices)s."), choices=choices))


@health_check("database", gettext_noop("Indexes"), Reads.FACTS, number="W013")
def indexes(facts: Facts) -> HealthFinding:
    if not facts.invalid_indexes:
        return ok(gettext_noop("all indexes are valid"))
    found = text(
        gettext_noop("Indexes are invalid, and searches do not use them: %(names)s"),
        names=listed(facts.invalid_indexes),
    )
    fix = text(
        gettext_noop(
            "As the owner of the tables, run REINDEX INDEX CONCURRENTLY %(name)s, or drop it if its "
            "name ends in _ccnew or _next."
        ),
        name=facts.invalid_indexes[0],
    )
    return problem(found, fix)


# -- connections -----------------------------------------------------------------------------------------------


@health_check("database", gettext_noop("Pooler"), Reads.FACTS, number="W014")
def pooler(facts: Facts) -> HealthFinding:
    if facts.backend == facts.announced_backend:
        return ok(gettext_noop("connections go to PostgreSQL directly"))
    if settings.DATABASE_POOLER == "none":
        found = gettext_noop("A pooler stands in front of PostgreSQL, but DATABASE_POOLER=none denies it.")
        fix = gettext_noop("Remove DATABASE_POOLER, unless the pooler assigns connections per session.")
        return problem(text(found), text(fix))
    return ok(gettext_noop("a pooler stands in front of PostgreSQL, and each transaction brings its settings"))


@health_check("database", gettext_noop("Settings of searches"), Reads.TABLES, number="E020")
def search_settings(tables: TableFacts) -> HealthFinding:
    """Compare the settings of a transaction with those that the engine sends with it."""
    found_values = tables.search_settings
    wrong = {name: wanted for name, wanted in settings.DATABASE_SEARCH.items() if found_values.get(name) != wanted}
    if not wrong:
        return ok(gettext_noop("transactions have the settings of searches"))
    names = [f"{name} ({found_values.get(name) or '–'} instead of {wanted})" for name, wanted in wrong.items()]
    effects = "; ".join(str(text(EFFECTS[name])) for name in wrong)
    found = text(
        gettext_noop("Transactions lack settings, so that %(effects)s: %(names)s"), names=listed(names), effects=effects
    )
    fix = gettext_noop(
        "Does the pooler assign connections per statement? It must assign them per transaction or per session."
    )
    return problem(found, text(fix))


@health_check("database", gettext_noop("Address of the owner"), Reads.SYSTEMS, number="W020")
def owner_connection() -> HealthFinding:
    """Look whether the owner's connection leads through a pooler. Other machines need not reach its address."""
    if not settings.DATABASE_URL:
        return ok(gettext_noop("the embedded server is reached directly"))
    try:
        if not owner.leads_to_pooler():
            return ok(gettext_noop("the owner of the tables connects to PostgreSQL directly"))
    except psycopg.Error:
        return unknown(gettext_noop("the address of DATABASE_OWNER_URL can't be reached from this machine"))
    fix = gettext_noop(
        "Set DATABASE_OWNER_URL to PostgreSQL's own address. Otherwise no backup can be written, and the vector index "
        "is built with the server's maintenance_work_mem, which is too little for large ones."
    )
    return warning(text(gettext_noop("DATABASE_OWNER_URL leads through a pooler.")), text(fix))


@health_check("database", gettext_noop("Connections"), Reads.FACTS, number="W015")
def connections(facts: Facts) -> HealthFinding:
    """Compare the connections that web processes and a worker may open with those that PostgreSQL has."""
    pool = settings.DATABASE_POOL_SIZE or settings.CALLS_IN_ALL
    workers = cast(int, settings.Q_CLUSTER["workers"]) + HELPERS
    limits = [facts.connections - facts.used_by_others, facts.role_limit, facts.database_limit]
    available = min(limit for limit in limits if limit >= 0) if limits[0] >= 0 else 0
    needed = facts.web_processes * pool + workers
    values: dict[str, int] = {"processes": facts.web_processes, "needed": needed, "pool": pool, "available": available}
    if needed > available:
        found = gettext_noop(
            "%(processes)s web processes and a worker may open %(needed)s connections, and PostgreSQL"
            " has %(available)s for them."
        )
        fix = text(
            gettext_noop("Raise max_connections, lower DATABASE_POOL_SIZE (%(pool)s), or put a pooler in between."),
            **values,
        )
        return problem(text(found, **values), fix)
    most = (available - workers) // pool
    message = gettext_noop(
        "%(processes)s web processes and a worker may open %(needed)s of %(available)s "
        "connections: enough for %(most)s processes"
    )
    return ok(message, **values, most=most)


@health_check("database", gettext_noop("Clock"), Reads.FACTS, number="W016")
def clock(facts: Facts) -> HealthFinding:
    seconds = round(facts.clock_error_s, 1)
    if abs(facts.clock_error_s) <= MAX_CLOCK_ERROR_S + facts.clock_tolerance_s:
        return ok(
            gettext_noop("the clocks of this machine and of the database differ by %(seconds)s s"), seconds=abs(seconds)
        )
    found = text(
        gettext_noop(
            "The clock of the database differs from this machine's by %(seconds)s s, so that tokens "
            "and links expire too early or too late."
        ),
        seconds=seconds,
    )
    return problem(found, text(gettext_noop("Synchronize both clocks, for example with chrony or systemd-timesyncd.")))
