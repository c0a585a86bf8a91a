"""The doctor: each check tells a sound installation from a broken one, names the fix, and reveals no secret."""

from __future__ import annotations

import json
import os
import smtplib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.core import checks as django_checks
from django.db import DatabaseError, connection
from django.urls import reverse
from django.utils import timezone, translation
from django_q.models import OrmQ, Schedule

from analysis.models import SourceCheck
from foundation.embedding import e5
from memories.models import MemoryRecord
from memory_project.mcp.gateway.models import UpstreamStatus
from memory_project.models import User
from memory_project.operating.backups.models import Backup
from memory_project.operating.doctor import (
    database,
    examination,
    machine_facts,
    machines,
    recall,
    storage,
    systems,
    table_facts,
    tasks,
    web,
    work,
)
from memory_project.operating.doctor.facts import Facts, read
from memory_project.operating.doctor.findings import FindingState, HealthFinding, text, warning
from memory_project.operating.doctor.registry import CHECKS, Reads, of_kinds
from memory_project.operating.examinations.models import Examination
from memory_project.operating.observability import installation_metrics
from memory_project.operating.postgres.server import APPLICATION
from memory_project.operating.shared import secret_key_check, shared_files
from memory_project.operating.shared.models import InstallationFact
from tests.conftest import person
from tests.http_servers import QuietHandler, serving
from tests.other_processes import WITHIN_S
from tests.pages import browser

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.django_db


@pytest.fixture
def facts(db: None) -> Facts:
    return read()


def state_and_fix(finding: HealthFinding) -> tuple[FindingState, bool]:
    return finding.state, bool(str(finding.fix))


SOUND = (FindingState.OK, False)
BROKEN = (FindingState.PROBLEM, True)
DOUBTFUL = (FindingState.WARNING, True)


def test_a_sound_database_has_no_problems(facts: Facts) -> None:
    checks = [check.run for check in of_kinds(Reads.FACTS)]
    sound = [check(facts) for check in checks if check not in (database.role, database.row_security)]
    sound += [database.migrations(), database.dimension()]
    assert {state_and_fix(finding) for finding in sound} == {SOUND}, sound
    # tests connect as a superuser, which is not sound
    assert state_and_fix(database.role(facts)) == state_and_fix(database.row_security(facts)) == DOUBTFUL


@pytest.mark.parametrize(
    ("check", "change", "expected"),
    [
        (database.server, {"server_version": 150004}, BROKEN),
        (database.primary, {"is_replica": True}, BROKEN),
        (database.primary, {"is_read_only": True}, BROKEN),
        (database.role, {"is_superuser": False, "owns_tables": True}, DOUBTFUL),
        (database.role, {"is_superuser": False, "owns_tables": False}, SOUND),
        (database.row_security, {"bypasses_policies": False, "unprotected": ["insights"]}, BROKEN),
        (database.extension, {"vector_available": None}, BROKEN),
        (database.extension, {"vector_installed": "0.7.4"}, BROKEN),
        (database.extension, {"vector_installed": None, "may_create": False}, BROKEN),
        (database.text_search, {"search_configurations": ["simple"]}, BROKEN),
        (database.pooler, {"announced_backend": -1}, SOUND),
        (database.clock, {"clock_error_s": 60.0}, BROKEN),
        (database.clock, {"clock_error_s": 6.0, "clock_tolerance_s": 2.0}, SOUND),
        (database.connections, {"connections": 12, "used_by_others": 0}, BROKEN),
        (database.connections, {"connections": 90, "used_by_others": 85}, BROKEN),
        (database.connections, {"connections": 90, "used_by_others": 0, "role_limit": 5}, BROKEN),
    ],
)
def test_a_broken_database_is_recognized(
    facts: Facts, settings: Any, check: Any, change: dict[str, Any], expected: tuple[FindingState, bool]
) -> None:
    settings.DATABASE_POOL_SIZE = 16
    assert state_and_fix(check(replace(facts, **change))) == expected


def test_a_pooler_that_settings_deny_is_reported(facts: Facts, settings: Any) -> None:
    settings.DATABASE_POOLER = "none"
    assert state_and_fix(database.pooler(facts)) == SOUND
    assert state_and_fix(database.pooler(replace(facts, announced_backend=-1))) == BROKEN


def test_pools_of_many_processes_do_not_fit(facts: Facts, settings: Any) -> None:
    settings.DATABASE_POOL_SIZE = 16
    enough = replace(facts, connections=97, used_by_others=0)
    assert database.connections(replace(enough, web_processes=5)).state == FindingState.OK
    finding = database.connections(replace(enough, web_processes=6))
    assert finding.state == FindingState.PROBLEM
    assert "100 connections" in str(finding.found)


@pytest.mark.skipif(bool(django_settings.DATABASE_URL), reason="the embedded server’s roles")
def test_a_missing_grant_and_an_invalid_index_are_named() -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"REVOKE INSERT, DELETE ON insights FROM {APPLICATION}")
        cursor.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'insights_pkey'::regclass")
        cursor.execute(f"SET LOCAL ROLE {APPLICATION}")
        facts = read()
        cursor.execute("RESET ROLE")
    assert "insights (INSERT, DELETE)" in str(database.grants(facts).found)
    assert "`migrate`" in str(database.grants(facts).fix)
    index = database.indexes(facts)
    assert index.state == FindingState.PROBLEM
    assert "insights_pkey" in str(index.fix)


def test_migrations_that_are_missing_or_newer_are_named() -> None:
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM django_migrations WHERE app = 'knowledge' AND name LIKE '0003%'")
        assert "knowledge.0003" in str(database.migrations().found)
        ids = [message.id for message in django_checks.run_checks(databases=["default"])]
        assert "commonplace.W017" in ids
        cursor.execute("INSERT INTO django_migrations (app, name, applied) VALUES ('memories', '9999_new', now())")
    finding = database.migrations()
    assert (finding.state, "memories.9999_new" in str(finding.found)) == (FindingState.PROBLEM, True)


def test_vectors_of_another_model_of_the_same_dimension_are_noticed(fact: MemoryRecord) -> None:
    assert recall.stored_vectors(table_facts.read()).state == FindingState.OK
    MemoryRecord.objects.filter(pk=fact.pk).update(embedding_model="another-384")
    finding = recall.stored_vectors(table_facts.read())
    assert state_and_fix(finding) == BROKEN
    assert "another-384" in str(finding.found)


def test_memories_in_other_languages_lead_to_another_model(fact: MemoryRecord, settings: Any) -> None:
    settings.EMBEDDING_PROVIDER = "minilm"
    MemoryRecord.objects.filter(pk=fact.pk).update(language="en")
    assert state_and_fix(recall.languages(table_facts.read())) == SOUND
    MemoryRecord.objects.filter(pk=fact.pk).update(language="de")
    finding = recall.languages(table_facts.read())
    assert (finding.state, "EMBEDDING_PROVIDER=e5" in str(finding.fix)) == (FindingState.WARNING, True)
    settings.EMBEDDING_PROVIDER = "e5"
    assert state_and_fix(recall.languages(table_facts.read())) == SOUND


def test_a_missing_worker_and_old_tasks_are_noticed() -> None:
    Schedule.objects.update(next_run=timezone.now())  # the tests' database may have been made a while ago
    state = table_facts.read()
    checks = [check for check in of_kinds(Reads.TABLES) if check.group == "work"]
    states = {check.name: check.run(state).state for check in checks}
    assert states.pop("queue_growth") == FindingState.UNKNOWN  # there are no readings yet
    assert list(states.values()) == [FindingState.OK] * 6
    late = timezone.now() - timedelta(hours=2)
    Schedule.objects.create(func="memories.tasks.close_gaps", name="late", next_run=late, schedule_type="I", minutes=5)
    OrmQ.objects.create(key="commonplace", payload="x", lock=late)
    state = table_facts.read()
    assert (work.worker(state).state, work.queue(state).state) == (FindingState.PROBLEM, FindingState.PROBLEM)
    assert "120 minutes" in str(work.queue(state).found)
    Schedule.objects.filter(name="late").update(repeats=0)  # a schedule that is paused is never overdue
    assert work.worker(table_facts.read()).state == FindingState.OK


@pytest.mark.parametrize(
    ("check", "values", "state"),
    [
        (web.address, {"COMMONPLACE_URL": "https://commonplace.example.org"}, FindingState.OK),
        (web.address, {"COMMONPLACE_URL": "http://commonplace.example.org"}, FindingState.WARNING),
        (web.address, {"COMMONPLACE_URL": "https://commonplace.example.org", "DEBUG": True}, FindingState.PROBLEM),
        (web.proxies, {"COMMONPLACE_URL": "https://commonplace.example.org"}, FindingState.WARNING),
        (
            web.proxies,
            {"COMMONPLACE_URL": "https://commonplace.example.org", "TRUSTED_PROXIES": ["10.0.0.1"]},
            FindingState.OK,
        ),
        (web.hosts, {"ALLOWED_HOSTS": ["*"]}, FindingState.WARNING),
        (web.hosts, {"ALLOWED_HOSTS": ["commonplace.example.org"]}, FindingState.OK),
    ],
)
def test_the_address_and_proxies(settings: Any, check: Any, values: dict[str, Any], state: FindingState) -> None:
    for name, value in values.items():
        setattr(settings, name, value)
    finding = check()
    assert (finding.state, bool(str(finding.fix))) == (state, state != FindingState.OK)


def test_disks_and_backups(settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.COMMONPLACE_HOME = tmp_path
    tables = table_facts.read()
    assert storage.last_backup(tables).state == FindingState.WARNING
    assert storage.restore_test(tables).state == FindingState.UNKNOWN
    backup = Backup.objects.create(path=str(tmp_path / "monday.backup"), host=socket.gethostname())
    tables = table_facts.read()
    assert (storage.last_backup(tables).state, storage.backup_disk(tables).state) == (FindingState.OK, FindingState.OK)
    backup.verified_at = timezone.now()
    backup.save()
    assert storage.restore_test(table_facts.read()).state == FindingState.OK
    backup.verification_problem = "the table memory_records lacks 3 rows"
    backup.save()
    assert storage.restore_test(table_facts.read()).state == FindingState.PROBLEM
    monkeypatch.setattr(storage, "FULL_BYTES", 10**18)
    assert state_and_fix(storage.data_disk()) == BROKEN


# -- other systems ---------------------------------------------------------------------------------------------


@contextmanager
def answering(status: int, body: bytes = b"[]") -> Iterator[str]:
    """Serve a system that answers every request with this status and body."""

    class Handler(QuietHandler):
        def do_POST(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST

    with serving(Handler) as url:
        yield url


@pytest.fixture
def dead_port() -> Iterator[int]:
    with socket.socket() as bound:  # without listen()
        bound.bind(("127.0.0.1", 0))
        yield int(bound.getsockname()[1])


@pytest.mark.parametrize(
    ("status", "state", "hint"), [(200, "ok", ""), (401, "problem", "DATAHUB_GMS_TOKEN"), (500, "problem", "GMS")]
)
def test_datahub_and_its_token(settings: Any, status: int, state: str, hint: str) -> None:
    with answering(status) as settings.DATAHUB_GMS_URL:
        settings.DATAHUB_GMS_TOKEN = "secret-token"
        finding = systems.catalog()
    assert (str(finding.state), hint in str(finding.fix)) == (state, True)
    assert "secret-token" not in json.dumps(finding.as_json())


def test_a_server_that_is_degraded_or_refuses_its_own_name(settings: Any) -> None:
    with answering(200, b'{"status": "ok", "degraded": true, "embeddings": "away"}') as settings.COMMONPLACE_URL:
        degraded = web.public_address()
    assert (degraded.state, "embeddings: away" in str(degraded.found)) == (FindingState.WARNING, True)
    with answering(400) as settings.COMMONPLACE_URL:
        refused = web.public_address()
    assert (refused.state, "ALLOWED_HOSTS" in str(refused.fix)) == (FindingState.PROBLEM, True)


def test_systems_that_are_down_are_problems_and_reach_djangos_checks(settings: Any, dead_port: int) -> None:
    settings.DATAHUB_GMS_URL = f"http://127.0.0.1:{dead_port}"
    settings.EMAIL_HOST, settings.EMAIL_PORT, settings.EMAIL_HOST_PASSWORD = "127.0.0.1", dead_port, "secret-password"
    settings.COMMONPLACE_URL = f"http://127.0.0.1:{dead_port}"
    assert {check().state for check in (systems.catalog, systems.mail)} == {FindingState.PROBLEM}
    assert web.public_address().state == FindingState.WARNING
    assert "commonplace.W019" in [message.id for message in django_checks.run_checks(databases=["default"])]
    assert "commonplace.W019" not in [message.id for message in django_checks.run_checks()]


def test_a_refused_mail_password_is_a_problem_that_does_not_show_it(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refusing:
        def __init__(self, *address: Any, **options: Any) -> None: ...
        def __enter__(self) -> Refusing:
            return self

        def __exit__(self, *error: object) -> None: ...
        def starttls(self, **options: Any) -> None: ...
        def login(self, user: str, password: str) -> None:
            raise smtplib.SMTPAuthenticationError(535, f"no {password}".encode())

    monkeypatch.setattr(smtplib, "SMTP", Refusing)
    settings.EMAIL_HOST, settings.EMAIL_HOST_USER, settings.EMAIL_HOST_PASSWORD = "mail.example", "me", "hunter-two"
    finding = systems.mail()
    assert (finding.state, "EMAIL_HOST_PASSWORD" in str(finding.fix)) == (FindingState.PROBLEM, True)
    assert "hunter-two" not in json.dumps(finding.as_json())


# -- the page and the command ------------------------------------------------------------------------------------


def test_the_system_page_shows_the_checks_and_what_a_worker_found(
    ada_user: User, alice_user: User, settings: Any, dead_port: int, django_assert_max_num_queries: Any
) -> None:
    settings.EMAIL_HOST, settings.EMAIL_PORT, settings.COMMONPLACE_URL = "127.0.0.1", dead_port, "http://127.0.0.1:1"
    before = browser(ada_user).get(reverse("admin:system")).content.decode()
    assert "no worker has checked it yet" in before
    assert f"port {dead_port}, does not answer" not in before
    tasks.check_health()
    after = browser(ada_user).get(reverse("admin:system")).content.decode()
    assert f"port {dead_port}, does not answer" in after
    assert "the role reads and writes rows only" in after  # a page runs with the application's role
    assert browser(alice_user).get(reverse("admin:system")).status_code == 302
    with django_assert_max_num_queries(7):
        examination.for_page()
    with translation.override("de"):
        stored = examination.for_page()
    assert {result.name for result in stored} == set(CHECKS)
    assert Examination.objects.count() == len(CHECKS)


def test_the_command_answers_while_the_database_is_down(tmp_path: Path, dead_port: int) -> None:
    url = f"postgres://commonplace:hunter-two@127.0.0.1:{dead_port}/commonplace"
    done, seconds = run_doctor("--json", DATABASE_URL=url, COMMONPLACE_HOME=str(tmp_path))
    assert done.returncode == 1
    report = json.loads(done.stdout)
    server = next(check for check in report["checks"] if check["name"] == "server")
    assert (report["state"], server["state"], "DATABASE_URL" in server["fix"]) == ("problem", "problem", True)
    assert len(report["checks"]) == len(CHECKS)
    assert "hunter-two" not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert seconds < WITHIN_S


def test_a_database_that_never_answers_does_not_hold_the_command_up(tmp_path: Path) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"postgres://commonplace@127.0.0.1:{silent.getsockname()[1]}/commonplace"
        done, _ = run_doctor(DATABASE_URL=url, COMMONPLACE_HOME=str(tmp_path))
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    assert "The database does not answer: " in done.stdout


def run_doctor(*arguments: str, **environment: str) -> tuple[subprocess.CompletedProcess[str], float]:
    started = time.monotonic()
    settings = {"DJANGO_SETTINGS_MODULE": "memory_project.settings", "EMBEDDING_PROVIDER": "deterministic"}
    command = [sys.executable, str(ROOT / "manage.py"), "doctor", *arguments]
    done = subprocess.run(command, env={**os.environ, **settings, **environment}, capture_output=True, text=True)
    return done, time.monotonic() - started


def test_warnings_fail_only_if_they_should(monkeypatch: pytest.MonkeyPatch) -> None:
    from django.core.management import call_command

    only = examination.ExaminationResult(CHECKS["hosts"], warning(text("found"), text("fix")))
    monkeypatch.setattr(examination, "everything", lambda **options: [only])
    call_command("doctor")
    with pytest.raises(SystemExit):
        call_command("doctor", "--strict")


def test_numbers_are_unique_and_a_broken_check_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = [check.number for check in CHECKS.values() if check.number]
    assert len(set(numbers)) == len(numbers) > 15

    def broken() -> HealthFinding:
        raise RuntimeError("no such thing")

    monkeypatch.setitem(CHECKS, "hosts", replace(CHECKS["hosts"], run=broken))
    results = {result.name: result.finding for result in examination.for_page()}
    assert (results["hosts"].state, "no such thing" in str(results["hosts"].found)) == (FindingState.PROBLEM, True)
    assert set(results) == set(CHECKS)


def test_looking_creates_no_file_and_a_folder_that_cannot_be_read_hides_no_other_check(
    settings: Any, tmp_path: Path
) -> None:
    settings.COMMONPLACE_FILES = tmp_path / "files"
    examination.for_page()
    assert not (tmp_path / "files").exists()
    settings.COMMONPLACE_FILES = tmp_path / "file"
    (tmp_path / "file").mkdir()
    (tmp_path / "file" / shared_files.ID_FILE).mkdir()  # so that reading it fails, also for root
    results = {result.name: result.finding for result in examination.for_page()}
    assert (results["files"].state, "can't be read" in str(results["files"].found)) == (FindingState.PROBLEM, True)
    assert results["queue"].state == FindingState.OK


def test_failures_of_systems_count_for_a_week(settings: Any) -> None:
    now = timezone.now()
    for name, days in (("late", 1), ("removed", 8)):
        failed_at = now - timedelta(days=days)
        SourceCheck.objects.create(name=name, error="away", failed_at=failed_at)
        UpstreamStatus.objects.create(name=name, error="away", failed_at=failed_at)
    tables = table_facts.read()
    assert (tables.failing_sources, tables.failing_upstreams) == (["late"], ["late"])
    assert {systems.sources(tables).state, systems.upstreams(tables).state} == {FindingState.WARNING}


def test_a_model_without_its_package_is_a_problem(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.EMBEDDING_PROVIDER = "e5"
    assert state_and_fix(recall.models_installed()) == SOUND
    monkeypatch.setattr(e5, "find_spec", lambda name: None)
    finding = recall.models_installed()
    assert (finding.state, "commonplace[e5]" in str(finding.fix)) == (FindingState.PROBLEM, True)


def test_another_key_is_noticed_though_tables_are_missing(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    secret_key_check.store()
    settings.SECRET_KEY = "another key"
    assert "commonplace.E021" in [message.id for message in django_checks.run_checks(databases=["default"])]

    def missing() -> None:
        raise DatabaseError("relation does not exist")

    monkeypatch.setattr(examination, "read_tables", missing)
    assert "commonplace.E021" in [message.id for message in django_checks.run_checks(databases=["default"])]


def test_metrics_tell_the_states_that_a_worker_has_stored(settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["*"]
    tasks.check_health()
    rows = dict(Examination.objects.values_list("name", "finding__state"))
    assert rows["hosts"] == "warning"
    with connection.cursor() as cursor:
        cursor.execute(installation_metrics.CHECKS)
        states = {name: installation_metrics.STATES[state] for name, state in cursor.fetchall()}
    assert (states["hosts"], states["server"], set(states)) == (1, 0, set(CHECKS))


def test_an_outsider_gets_no_checks(olga_user: User) -> None:
    other = person("otto@example.org", is_staff=True)
    for user in (olga_user, other):
        assert "no worker has checked" not in browser(user).get(reverse("admin:system")).content.decode()


# -- what grows, and what differs between machines -----------------------------------------------------------


def hourly(*values: float, step_s: float = 3_600) -> list[list[float]]:
    """Return readings that end now."""
    now = time.time()
    return [[now - (len(values) - 1 - index) * step_s, value] for index, value in enumerate(values)]


def note(name: str, value: object) -> None:
    InstallationFact.objects.update_or_create(pk=name, defaults={"value": json.dumps(value)})


@pytest.mark.parametrize(
    ("lost_an_hour_gb", "state"),
    [(0.0, FindingState.OK), (-1.0, FindingState.OK), (0.2, FindingState.WARNING), (1.0, FindingState.PROBLEM)],
)
def test_a_disk_that_fills_is_noticed_days_before(db: None, lost_an_hour_gb: float, state: FindingState) -> None:
    free = [(90 - lost_an_hour_gb * hour) * 10**9 for hour in range(49)]
    note(f"{machine_facts.DISK}{machine_facts.machine()}", hourly(*free))
    assert storage.growth(table_facts.read()).state == state


def test_a_disk_is_not_judged_by_a_few_hours(db: None) -> None:
    note(f"{machine_facts.DISK}{machine_facts.machine()}", hourly(9e9, 8e9, 7e9))
    assert storage.growth(table_facts.read()).state == FindingState.UNKNOWN


@pytest.mark.parametrize(
    ("lengths", "state"),
    [
        ((5, 10, 20, 200, 300, 400), FindingState.WARNING),
        ((500, 20, 510, 25, 505, 500), FindingState.OK),  # it swings
        ((1, 2, 4, 8, 16, 32), FindingState.OK),  # it is short
        ((900, 800, 700, 600, 500, 400), FindingState.OK),
        ((1, 200), FindingState.UNKNOWN),
    ],
)
def test_a_queue_that_grows_is_noticed(db: None, lengths: tuple[int, ...], state: FindingState) -> None:
    note(machine_facts.QUEUE, hourly(*lengths, step_s=600))
    assert work.queue_growth(table_facts.read()).state == state


def test_workers_note_readings_and_keep_the_latest(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_facts, "MAX_QUEUE_READINGS", 3)
    for _ in range(4):
        tasks.check_health()
    machine_facts.note_machine()
    read = table_facts.read()
    assert [length for _, length in read.queue_readings] == [0, 0, 0]
    assert len(read.disk_readings) == 1
    assert abs(read.clocks[machine_facts.machine()]) < 2


def test_a_machine_with_another_model_or_clock_is_named(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    machine_facts.note_machine()
    assert machines.models(table_facts.read()).state == FindingState.OK
    assert machines.clocks(table_facts.read()).state == FindingState.OK
    monkeypatch.setattr(machine_facts, "machine", lambda: "north")
    monkeypatch.setattr(machine_facts, "configured_model", lambda: "another-model")
    monkeypatch.setattr(machine_facts, "clock_error_s", lambda: -42.0)
    machine_facts.note_machine()
    monkeypatch.undo()
    model, clock = machines.models(table_facts.read()), machines.clocks(table_facts.read())
    assert (model.state, "north" in str(model.found)) == (FindingState.PROBLEM, True)
    assert (clock.state, "north (-42 s)" in str(clock.found)) == (FindingState.PROBLEM, True)
    old = timezone.now() - machine_facts.KNOWN - timedelta(hours=1)
    InstallationFact.objects.filter(pk__endswith=" of north").update(changed_at=old)
    assert machines.models(table_facts.read()).state == FindingState.OK
    machine_facts.note_machine()
    assert not InstallationFact.objects.filter(pk__endswith=" of north").exists()
