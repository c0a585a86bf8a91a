"""Several machines with one database: keys, tasks that a worker can't read, shared limits and shared files."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
import yaml
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import TOTP, format_hotp_value, hotp_value, yield_hotp_counters_from_time
from django.conf import settings as django_settings
from django.core.cache import caches
from django.core.management import call_command, get_commands
from django.db import OperationalError, connections
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from django_q.conf import Conf
from django_q.models import OrmQ
from django_q.signing import SignedPackage
from django_q.tasks import async_task

from foundation.database import sealing
from foundation.operations.errors import Invalid, NotFound
from foundation.people.caller import Caller
from memories.models import MemoryRecord
from memory_project.accounts.second_factor import SecondFactorAdapter
from memory_project.exchange.exports import files, services
from memory_project.exchange.exports.models import Export, ExportState
from memory_project.exchange.imports import staging
from memory_project.exchange.imports.models import Import
from memory_project.mcp.gateway.models import StoredCredential
from memory_project.models import User
from memory_project.notifications.webhooks import signing
from memory_project.operating.doctor import table_facts
from memory_project.operating.shared import key_change, secret_key_check, shared_cache, shared_files, task_queue
from memory_project.operating.shared.migration_lock import single_migration
from memory_project.operating.shared.models import CacheEntry, InstallationFact
from memory_project.operating.shared.task_queue import UNKNOWN_KEPT, KeepingBroker
from tests.jobs import ExportJobs, ImportJobs, work_off

pytestmark = pytest.mark.django_db
SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"


def use(key: str, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.SECRET_KEY = key
    monkeypatch.setattr(Conf, "SECRET_KEY", key)


@pytest.fixture
def first_key(settings: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    use("the first key", settings, monkeypatch)
    secret_key_check.replace("the first key")
    return "the first key"


# -- the secret key ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["serve", "qcluster", "migrate"])
def test_a_machine_with_another_key_does_not_start(
    command: str, first_key: str, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    use("another key", settings, monkeypatch)
    with pytest.raises(Exception, match=r"Set SECRET_KEY as on the other machines, or copy") as refusal:
        call_command(command)
    assert first_key not in str(refusal.value)


def test_a_server_that_started_while_the_database_was_away_is_not_healthy_with_another_key(settings: Any) -> None:
    assert Client().get("/healthz").status_code == 200
    settings.SECRET_KEY = "another key"
    response = Client().get("/healthz")
    assert (response.status_code, response.json()["status"]) == (503, "this machine has another secret key")


def test_what_earlier_versions_have_stored_is_recognized(settings: Any) -> None:
    settings.SECRET_KEY = "the first key"
    stored = "105ac38549d5570d978975d22a059c8950ee8fb47082228db525162e11c23df7"
    assert secret_key_check.fingerprint("the first key") == stored
    assert secret_key_check.is_own(stored)
    assert signing.secret_of("nonce") == "whsec_0Y7OivyyIK8aZeKZg9Nur6YYA5QvPCP07jviA+exhUw="


def test_the_fingerprint_does_not_contain_the_key_and_is_set_once(first_key: str, settings: Any) -> None:
    settings.SECRET_KEY = "another key"
    secret_key_check.store()
    assert secret_key_check.stored() == secret_key_check.fingerprint(first_key)
    assert first_key not in secret_key_check.stored()


def test_a_change_of_the_key_encrypts_and_signs_anew(
    first_key: str, alice_user: User, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    TOTP.activate(alice_user, SECRET)
    owned = {"upstream": "wiki", "owner": "alice@example.org", "stored_by": "alice@example.org"}
    StoredCredential.objects.create(**owned, origin="https://wiki.example.org", sealed=sealing.seal({"secret": "abc"}))
    OrmQ.objects.all().delete()
    async_task("memories.tasks.close_gaps")
    use("the second key", settings, monkeypatch)

    with pytest.raises(Invalid) as refusal:
        key_change.change_key()
    assert refusal.value.field == "SECRET_KEY_FALLBACKS"
    assert sealing.unseal(StoredCredential.objects.get().sealed, first_key) == {"secret": "abc"}  # nothing has changed

    settings.SECRET_KEY_FALLBACKS = ["an older key", first_key]
    changed = key_change.change_key()
    assert list(changed.values()) == [1, 1, 1, 0]
    secret = Authenticator.objects.get(type="totp").data["secret"]
    assert SecondFactorAdapter().decrypt(secret) == SECRET
    assert sealing.unseal(StoredCredential.objects.get().sealed) == {"secret": "abc"}
    assert [row.task["func"] for row in OrmQ.objects.all()] == ["memories.tasks.close_gaps"]
    secret_key_check.refuse_other_key()
    assert list(key_change.change_key().values()) == [0, 0, 0, 0]
    settings.SECRET_KEY_FALLBACKS = []
    with pytest.raises(Invalid) as refusal:
        key_change.change_key()
    assert refusal.value.field == "SECRET_KEY"


def test_what_a_process_with_the_other_key_encrypts_while_the_key_is_changed_is_read_and_changed_later(
    first_key: str, alice_user: User, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    OrmQ.objects.all().delete()
    use("the second key", settings, monkeypatch)
    settings.SECRET_KEY_FALLBACKS = [first_key]
    key_change.change_key()
    # a process that was told of the new key, but still signs with the first one
    use(first_key, settings, monkeypatch)
    settings.SECRET_KEY_FALLBACKS = ["the second key"]
    secret_key_check.refuse_other_key()
    assert secret_key_check.key_of_database() == "the second key"  # which backups contain
    with pytest.raises(Invalid) as refusal:
        key_change.change_key()
    assert (refusal.value.field, "exchange the two" in refusal.value.message) == ("SECRET_KEY", True)
    TOTP.activate(alice_user, SECRET)
    sealed = sealing.seal({"secret": "abc"})
    async_task("memories.tasks.close_gaps")

    use("the second key", settings, monkeypatch)
    settings.SECRET_KEY_FALLBACKS = [first_key]
    assert sealing.unseal(sealed) == {"secret": "abc"}
    secret = Authenticator.objects.get(type="totp").data["secret"]
    assert SecondFactorAdapter().decrypt(secret) == SECRET
    [(_, payload)] = KeepingBroker().dequeue() or []
    assert SignedPackage.loads(payload)["func"] == "memories.tasks.close_gaps"
    assert list(key_change.change_key().values()) == [1, 0, 1, 0]
    settings.SECRET_KEY_FALLBACKS = []
    secret = Authenticator.objects.get(type="totp").data["secret"]
    assert SecondFactorAdapter().decrypt(secret) == SECRET


# -- migrations --------------------------------------------------------------------------------------------


def test_a_second_migration_waits_for_the_first() -> None:
    lines: list[str] = []
    order: list[str] = []

    def second() -> None:
        try:
            with single_migration(lines.append):
                order.append("second")
        finally:
            connections.close_all()

    with single_migration(lines.append):
        thread = threading.Thread(target=second)
        thread.start()
        while not lines:
            time.sleep(0.01)
        order.append("first")
    thread.join()
    assert (order, lines) == (["first", "second"], ["Another process is migrating this database: waiting for it."])


# -- queued tasks ------------------------------------------------------------------------------------------


class OfNewerVersion:
    """A class that is deleted before a worker unpickles it."""


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> KeepingBroker:
    OrmQ.objects.all().delete()
    monkeypatch.setattr(Conf, "POLL", 0)
    return KeepingBroker()


def test_a_task_that_a_worker_can_not_read_waits_for_another_worker(
    broker: KeepingBroker, first_key: str, ada_user: User, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async_task("memories.tasks.close_gaps")
    use("another key", settings, monkeypatch)
    async_task("memories.tasks.delete_closed_jobs")
    ours = OrmQ.objects.order_by("pk").last()
    assert ours is not None
    use(first_key, settings, monkeypatch)

    right = KeepingBroker()
    use("another key", settings, monkeypatch)
    assert broker.dequeue() == []  # it finds the first one, and leaves it
    assert [pk for pk, _ in broker.dequeue() or []] == [ours.pk]
    assert broker.dequeue() is None
    browser = Client()
    browser.force_login(ada_user)
    page = browser.get(reverse("admin:system")).content.decode()
    assert "1 queued tasks can&#x27;t be read by any worker" in page
    assert "is signed with another secret key" in page

    use(first_key, settings, monkeypatch)
    ((pk, payload),) = right.dequeue() or []
    assert payload.startswith(OrmQ.objects.get(pk=pk).payload)
    right.acknowledge(pk)
    assert "be read by any worker" not in browser.get(reverse("admin:system")).content.decode()


def test_a_task_of_a_newer_version_is_kept_for_a_week(broker: KeepingBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    async_task("memories.tasks.not_yet_known")
    async_task("memories.tasks.close_gaps", OfNewerVersion())
    monkeypatch.delattr("tests.memory_project.test_machines.OfNewerVersion")
    assert [broker.dequeue() for _ in range(3)] == [[], [], None]
    assert OrmQ.objects.count() == 2
    later = timezone.now() + UNKNOWN_KEPT
    monkeypatch.setattr("memory_project.operating.shared.task_queue.timezone.now", lambda: later)
    assert len(KeepingBroker().dequeue() or []) == 1  # it fails visibly now


def test_a_worker_waits_while_the_database_is_away(
    broker: KeepingBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async_task("memories.tasks.close_gaps")
    waits: list[float] = []
    monkeypatch.setattr(task_queue, "sleep", waits.append)
    monkeypatch.setattr(task_queue, "connections", {Conf.ORM: SimpleNamespace(close=lambda: None)})
    with monkeypatch.context() as away:
        away.setattr(broker, "_claim", raising(OperationalError("can't be reached")))
        assert [broker.dequeue(), broker.dequeue()] == [None, None]
    assert waits == [task_queue.AWAY_S, task_queue.AWAY_S]
    assert caplog.text.count("no tasks are taken, because the database is away: can't be reached") == 1
    assert len(broker.dequeue() or []) == 1


def raising(error: Exception) -> Callable[[], Any]:
    def fail() -> Any:
        raise error

    return fail


def test_two_workers_do_not_claim_the_same_task(broker: KeepingBroker) -> None:
    for _ in range(2):
        async_task("memories.tasks.close_gaps")
    claimed = [pk for worker in (broker, KeepingBroker(), KeepingBroker()) for pk, _ in worker.dequeue() or []]
    assert sorted(claimed) == sorted(OrmQ.objects.values_list("pk", flat=True))


# -- shared limits -----------------------------------------------------------------------------------------


def test_the_shared_cache_adds_once_and_forgets_what_has_expired() -> None:
    cache = caches["default"]
    key = uuid4().hex
    assert [cache.add(key, [1, "a"], 60), cache.add(key, "other", 60)] == [True, False]
    assert cache.get(key) == [1, "a"]
    cache.set(key, 5, 60)
    assert (cache.incr(key, 2), cache.get(key)) == (7, 7)
    cache.set(key, "over", -1)
    assert cache.get(key, "nothing") == "nothing"
    assert cache.add(key, "new", None)
    assert cache.get_many([key, "unknown"]) == {key: "new"}
    assert [cache.delete(key), cache.delete(key), cache.get(key)] == [True, False, None]


@pytest.fixture
def redis(tmp_path: Path, settings: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Run a Redis server, and let CACHE_URL name it."""
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is missing (Debian package redis-server)")
    path = tmp_path / "redis.sock"
    server = subprocess.Popen(
        ["redis-server", "--port", "0", "--unixsocket", str(path), "--save", "", "--dir", str(tmp_path)],
        stdout=subprocess.DEVNULL,
    )
    while not path.exists():
        assert server.poll() is None
        time.sleep(0.05)
    settings.CACHES = with_redis(f"unix://{path}")
    yield server
    server.kill()
    server.wait()


def with_redis(url: str) -> dict[str, Any]:
    options = {"fallback": "table", "socket_connect_timeout": 5.0, "socket_timeout": 5.0}
    return {
        "default": {"BACKEND": f"{shared_cache.__name__}.SharedRedis", "LOCATION": url, "OPTIONS": options},
        "table": {"BACKEND": f"{shared_cache.__name__}.TableCache"},
        **{name: django_settings.CACHES[name] for name in ("calls", "process")},
    }


def test_limits_are_in_redis_and_in_the_table_while_it_is_away(
    redis: subprocess.Popen[bytes], alice_user: User, ada_user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()  # for codes, so that none ends between its making and its check
    monkeypatch.setattr("allauth.mfa.totp.internal.auth.time", SimpleNamespace(time=lambda: now))
    TOTP.activate(alice_user, SECRET)
    totp = TOTP(Authenticator.objects.get(type="totp"))
    code = format_hotp_value(hotp_value(SECRET, next(iter(yield_hotp_counters_from_time()))))
    assert [totp.validate_code(code), totp.validate_code(code)] == [True, False]  # a code works once
    assert not CacheEntry.objects.exists()
    assert caches["default"].add("tries", 1, 60)
    assert [caches["default"].incr("tries"), caches["default"].get("tries")] == [2, 2]
    assert shared_cache.problem() == ""

    redis.kill()
    redis.wait()
    assert [caches["default"].add("tries", 1, 60), caches["default"].add("tries", 1, 60)] == [True, False]
    browser = Client()
    browser.force_login(ada_user)
    assert "the Redis of CACHE_URL does not answer" in browser.get(reverse("admin:system")).content.decode()


# -- shared files ------------------------------------------------------------------------------------------


@pytest.fixture
def machines(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that makes this process one of several machines, each with a folder of its own."""

    def become(name: str, folder: str = "") -> None:
        settings.COMMONPLACE_FILES = tmp_path / (folder or name)
        monkeypatch.setattr(socket, "gethostname", lambda: name)

    return become


def test_machines_with_different_folders_are_reported(machines: Any, ada_user: User) -> None:
    browser = Client()
    browser.force_login(ada_user)
    machines("north")
    shared_files.note_folder()
    machines("south", "north")
    shared_files.note_folder()
    assert table_facts.read().other_folders == []
    machines("south")
    shared_files.note_folder()
    assert table_facts.read().other_folders == ["north"]
    page = browser.get(reverse("admin:system")).content.decode()
    assert "other machines (north) keep their files elsewhere" in page
    old = timezone.now() - shared_files.KNOWN - timedelta(hours=1)
    InstallationFact.objects.filter(pk="files of north").update(changed_at=old)
    assert table_facts.read().other_folders == []


def test_an_upload_that_another_machine_has_says_which_setting_is_needed(machines: Any, alice: Caller) -> None:
    machines("north")
    path = settings_folder() / "facts.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("content\nRevenue excludes refunds.\n")
    with path.open("rb") as file:
        staged = staging.start(alice, file=file, name="facts.csv")
    machines("south")
    work_off(ImportJobs(), staged.pk)
    assert "COMMONPLACE_FILES" in Import.objects.get(pk=staged.pk).error


def settings_folder() -> Path:
    return shared_files.folder("uploads")


def test_an_export_that_is_written_while_a_memory_is_erased_has_no_file(
    machines: Any, alice: Caller, fact: MemoryRecord, django_capture_on_commit_callbacks: Any
) -> None:
    machines("north")
    export = services.start_export(alice)
    with django_capture_on_commit_callbacks(execute=True):
        assert services.delete_with_memory(fact.pk) == 0
        work_off(ExportJobs(), export.pk)  # its transaction began before the erasure ended
        path = files.path_of(export)
        assert path.exists()
    assert Export.objects.get(pk=export.pk).state == ExportState.FAILED
    assert not path.exists()


def test_an_erased_memory_is_in_no_export_of_another_machine(
    machines: Any, alice: Caller, fact: MemoryRecord, django_capture_on_commit_callbacks: Any
) -> None:
    machines("north")
    export = services.start_export(alice)
    work_off(ExportJobs(), export.pk)
    path = files.path_of(export)
    machines("south")
    with pytest.raises(NotFound, match="COMMONPLACE_FILES"):
        services.open_export(alice, export_id=export.pk)
    with django_capture_on_commit_callbacks(execute=True):
        assert services.delete_with_memory(fact.pk) == 1
    assert Export.objects.get(pk=export.pk).state == ExportState.FAILED

    machines("north")
    assert path.exists()
    old = timezone.now().timestamp() - 2 * files.UNKNOWN_AFTER_S
    for file in path.parent.iterdir():
        os.utime(file, (old, old))
    services.delete_expired()
    assert not path.exists()


# -- the example of several machines -----------------------------------------------------------------------

ROOT = Path(__file__).resolve().parents[2]
OF_OTHER_MODULES = {"DATABASE_REPLICA_URL", "DATABASE_POOLER"}


def test_the_example_of_several_machines_is_consistent() -> None:
    document = yaml.safe_load((ROOT / "compose.yaml").read_text())
    services = {name: one for name, one in document["services"].items() if one.get("profiles") == ["scale"]}
    ours = {name: one for name, one in services.items() if "build" in one}
    assert sorted(ours) == ["tables", "web-1", "web-2", "worker-1", "worker-2"]
    known = set(re.findall(r'env\.\w+\(\s*"([A-Z_]+)"', (ROOT / "memory_project" / "settings.py").read_text()))
    assert {name for one in ours.values() for name in one["environment"]} - known - OF_OTHER_MODULES == set()
    commands = {one["command"].split()[1] for one in ours.values()}
    assert commands <= set(get_commands())
    for name, one in services.items():
        assert set(one.get("depends_on", [])) <= set(services), name
        assert {part.partition(":")[0] for part in one.get("volumes", [])} <= set(document["volumes"]), name
        assert {config["source"] for config in one.get("configs", [])} <= set(document["configs"]), name
    for url in re.findall(r"\w+://[^\s]+", str(ours["web-1"]["environment"])):
        host = url.rpartition("@")[2].partition("//")[2] or url.rpartition("@")[2]
        assert host.partition(":")[0] in {*services, "localhost"} or "COMMONPLACE_URL" in url, url
