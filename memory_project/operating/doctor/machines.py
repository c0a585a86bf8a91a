"""Checks of what the machines of an installation share: the secret key, files, the cache and the read replica."""

from __future__ import annotations

from django.conf import settings
from django.utils.translation import gettext_noop

from memory_project.operating.doctor.database import MAX_CLOCK_ERROR_S
from memory_project.operating.doctor.findings import HealthFinding, listed, ok, problem, text, warning
from memory_project.operating.doctor.registry import Reads, health_check
from memory_project.operating.doctor.table_facts import TableFacts
from memory_project.operating.replica import routing
from memory_project.operating.shared import secret_key_check, shared_cache, shared_files

REPLICA_PROBLEMS = {
    "behind": gettext_noop("it is %(seconds)s s behind; the primary is read instead"),
    "away": gettext_noop("it can't be reached; the primary is read instead"),
    "no replica": gettext_noop("DATABASE_REPLICA_URL names a server that is no replica of the database"),
}


@health_check("machines", gettext_noop("Key of the installation"), Reads.TABLES)
def installation_key(tables: TableFacts) -> HealthFinding:
    if secret_key_check.is_own(tables.key_fingerprint or ""):
        return ok(gettext_noop("this machine has the secret key of the installation"))
    found = gettext_noop(
        "This machine has another secret key than the database, so sessions and queued tasks would be lost."
    )
    fix = gettext_noop(
        "Set SECRET_KEY as on the other machines, or copy their COMMONPLACE_HOME/secret_key. To change the key on "
        "purpose, see `help change_key`."
    )
    return problem(text(found), text(fix))


@health_check("machines", gettext_noop("Shared files"), Reads.TABLES)
def files(tables: TableFacts) -> HealthFinding:
    try:
        shared_files.known_folder_id()
    except OSError as error:
        found = text(gettext_noop("the folder of COMMONPLACE_FILES can't be read: %(error)s"), error=str(error))
        return problem(found, text(gettext_noop("Check COMMONPLACE_FILES and the rights of this account.")))
    if not tables.other_folders:
        return ok(gettext_noop("all machines use one folder for files"))
    found = text(
        gettext_noop("other machines (%(hosts)s) keep their files elsewhere"), hosts=listed(tables.other_folders)
    )
    return warning(found, text(gettext_noop("Set COMMONPLACE_FILES to a shared folder.")))


@health_check("machines", gettext_noop("Models of the machines"), Reads.TABLES)
def models(tables: TableFacts) -> HealthFinding:
    if not tables.other_models:
        return ok(gettext_noop("all machines that have noted it use one embedding model"))
    found = gettext_noop("other machines (%(hosts)s) use another embedding model, so they don't find these texts")
    fix = gettext_noop("Set EMBEDDING_PROVIDER and EMBEDDING_MODEL alike, and copy the file of a calibration.")
    return problem(text(found, hosts=listed(tables.other_models)), text(fix))


@health_check("machines", gettext_noop("Clocks of the machines"), Reads.TABLES)
def clocks(tables: TableFacts) -> HealthFinding:
    wrong = [
        f"{host} ({seconds:+.0f} s)"
        for host, seconds in sorted(tables.clocks.items())
        if abs(seconds) > MAX_CLOCK_ERROR_S
    ]
    if not wrong:
        return ok(gettext_noop("no machine has noted a clock that differs from the database's"))
    found = gettext_noop("the clock of the database differs from those of %(hosts)s, so tokens expire wrongly")
    fix = gettext_noop("Synchronize the clocks, for example with chrony or systemd-timesyncd.")
    return problem(text(found, hosts=listed(wrong)), text(fix))


@health_check("machines", gettext_noop("Shared cache"), Reads.MACHINES)
def cache() -> HealthFinding:
    if failure := shared_cache.problem():
        found = gettext_noop(
            "the Redis of CACHE_URL does not answer (%(problem)s): PostgreSQL keeps the limits meanwhile"
        )
        return warning(text(found, problem=failure), text(gettext_noop("Check CACHE_URL and that its server runs.")))
    if not settings.CACHE_URL:
        return ok(gettext_noop("PostgreSQL keeps what processes share"))
    return ok(gettext_noop("the Redis of CACHE_URL answers"))


@health_check("machines", gettext_noop("Read replica"), Reads.MACHINES)
def replica() -> HealthFinding:
    if not settings.DATABASE_REPLICA_URL:
        return ok(gettext_noop("no read replica is configured"))
    state, seconds = routing.current_state()
    if state in REPLICA_PROBLEMS:
        found = text(REPLICA_PROBLEMS[state], seconds=f"{seconds:.1f}")
        return warning(found, text(gettext_noop("Check DATABASE_REPLICA_URL, and the replication of its server.")))
    return ok(gettext_noop("it is %(seconds)s s behind the primary"), seconds=f"{seconds:.1f}")
