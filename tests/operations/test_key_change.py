"""A change of the secret key while web servers and workers run, some with the earlier key and some with the new one."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import httpx2

from memory_project.operating.postgres.server import EmbeddedPostgres
from tests.e2e.prepared_homes import prepared_home
from tests.operations.machines import QUEUE, Machine, is_healthy, machine, until

EARLIER, NEW = "the earlier key of this installation", "the new key of this installation"
TASKS = 10
PEOPLE = """
from django_q.models import Schedule
from allauth.mfa.totp.internal.auth import TOTP
from memory_project.models import User
Schedule.objects.update(repeats=0)
for name in %r:
    person = User.objects.create_user(f"{name}@example.org", "a long password")
    TOTP.activate(person, "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP")
"""
SECRETS = """
from allauth.mfa.models import Authenticator
from memory_project.accounts.second_factor import SecondFactorAdapter
print({SecondFactorAdapter().decrypt(row.data["secret"]) for row in Authenticator.objects.filter(type="totp")})
"""
LEFT = """
from memory_project.operating.shared import task_queue
print(task_queue.OrmQ.objects.count(), len(task_queue.unreadable()))
"""


def keys(own: str, fallback: str) -> dict[str, str]:
    return {"SECRET_KEY": own, "SECRET_KEY_FALLBACKS": fallback}


def test_the_key_is_changed_while_web_servers_and_workers_run() -> None:
    with prepared_home("tables") as (home, _), ExitStack() as stack:
        server = EmbeddedPostgres(home)
        server.ensure_running()
        (home / "second").mkdir()
        first = stack.enter_context(machine(home, server.socket_dir))
        second = stack.enter_context(machine(home / "second", server.socket_dir))
        first.settings = keys(EARLIER, (home / "secret_key").read_text().strip())
        assert first.run("change_key").returncode == 0  # from the key of the prepared home
        first.settings = keys(EARLIER, NEW)
        second.settings = keys(NEW, EARLIER)
        file = home / "noted"
        first.script(PEOPLE % (["ana", "bob"],) + QUEUE % (TASKS, str(file), "before"))
        first.start("serve", "--port", str(first.port))
        first.start("qcluster")
        until(lambda: is_healthy(first), first.log("serve"))

        changed = second.run("change_key")
        assert changed.returncode == 0, changed.stderr
        assert "second factors: 2" in changed.stdout
        # until it is restarted, the first machine reads what the second one writes, and the other way round
        assert httpx2.get(f"{first.url}/healthz", timeout=60).status_code == 200
        first.script(PEOPLE % (["eve"],) + QUEUE % (TASKS, str(file), "of the first"))
        second.start("qcluster")
        second.script(QUEUE % (TASKS, str(file), "of the second"))
        wait_for(file, 3 * TASKS, first, second)
        assert second.script(LEFT) == "0 0\n"
        for one in (first, second):
            assert one.script(SECRETS) == "{'JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP'}\n"

        first.stop()
        again = second.run("change_key")
        assert "second factors: 1" in again.stdout, again.stderr
        second.settings = keys(NEW, "")
        assert second.script(SECRETS) == "{'JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP'}\n"
        first.settings = keys(EARLIER, "")
        refused = first.run("serve", "--port", str(first.port))
        assert refused.returncode == 1
        assert "Set SECRET_KEY as on the other machines" in refused.stderr


def wait_for(file: Path, count: int, *machines: Machine) -> None:
    def done() -> Counter[str]:
        return Counter(file.read_text().splitlines()) if file.exists() else Counter()

    logs = "".join(one.log("qcluster") for one in machines)
    until(lambda: len(done()) == count, f"{sorted(done())}\n{logs}")
    time.sleep(1.0)  # a task that was taken twice would be noted again by then
    assert set(done().values()) == {1}
