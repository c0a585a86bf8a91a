"""What is read from a source, and what is refused."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from foundation.operations.errors import Invalid
from foundation.people.caller import Caller
from knowledge.models import CatalogEntity
from memories.models import MemoryRecord
from memory_project.exchange.subscriptions import addresses, dbt, files, git
from memory_project.exchange.subscriptions.models import RunState, Subscription, SubscriptionItem, SubscriptionRun
from memory_project.models import User
from tests.http_servers import QuietHandler, serving
from tests.memory_project.subscriptions.conftest import REFUNDS, commit, memory_of, subscribe
from tests.memory_project.subscriptions.conftest import git as run_git

pytestmark = pytest.mark.django_db
Sync = Callable[..., SubscriptionRun]
URN = "urn:li:dataset:(urn:li:dataPlatform:snowflake,fernhill.sales.orders,PROD)"


def refusals(run: SubscriptionRun) -> dict[str, str]:
    return {line["text"]: line["why"] for line in run.report if line["what"] == "refused"}


# -- folders ---------------------------------------------------------------------------------------------------


def test_files_that_are_no_texts_are_refused(
    folder: Subscription, docs: Path, sync: Sync, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MAX_TEXT", 1_000)
    secret = docs.parents[1] / "secret.md"
    secret.write_text("The secret of the house is here.")
    (docs / "link.md").symlink_to(secret)
    (docs / "linked").symlink_to(secret.parent)
    os.mkfifo(docs / "pipe.md")
    (docs / "latin.md").write_bytes("Der Umsatz enthält Rückgaben.".encode("latin-1"))
    (docs / "binary.md").write_bytes(b"PK\x03\x04\0\0\0\0 a text with NUL")
    (docs / "large.md").write_text("word " * 1_000)
    (docs / "short.md").write_text("short")
    (docs / "bomb.md").write_text("---\na: &a [x, x]\nb: [*a, *a]\n---\nA text after the front matter.")
    (docs / "Refunds.md").write_text("# Refunds\n\nA name that differs only in its case.")
    (docs / ".git").mkdir()
    (docs / ".git" / "hidden.md").write_text("A text that is hidden.")
    run = sync(folder)
    assert run.counts == {"new": 5, "refused": 6}  # the text of bomb.md is kept, without its front matter
    assert refusals(run).keys() == {"link.md", "pipe.md", "latin.md", "binary.md", "large.md", "short.md"}
    assert "front_matter_not_read" in str(memory_of("bomb.md").metadata)
    assert "UTF-8" in refusals(run)["latin.md"]
    assert not MemoryRecord.objects.filter(content__contains="secret").exists()


def test_a_file_that_can_no_longer_be_read_keeps_its_memory(folder: Subscription, docs: Path, sync: Sync) -> None:
    sync(folder)
    (docs / "refunds.md").write_bytes(b"\xff\xfe broken")
    assert sync(folder).counts == {"refused": 1, "unchanged": 2}
    assert memory_of("refunds.md").status == "active"
    (docs / "refunds.md").write_text(REFUNDS)
    assert sync(folder).counts == {"unchanged": 3}


def test_front_matter_does_not_widen_the_readers(docs: Path, ada: Caller, sync: Sync) -> None:
    (docs / "refunds.md").write_text(f"---\nvisibility: everyone\n---\n{REFUNDS}")
    sync(subscribe(ada, "folder", str(docs), visibility="private"))
    assert set(MemoryRecord.objects.values_list("visibility", flat=True)) == {"private"}


# -- repositories ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "location",
    [
        "ext::sh -c touch% /x", "--upload-pack=touch /x", "https://-oProxyCommand=x/y", "ssh://-oProxyCommand=x/y",
        "https://ana:hunter2@git.example.org/x.git", "https://token@git.example.org/x", "ssh://git:hunter2@host.org/x",
        "http://git.example.org/x.git", "git://git.example.org/x.git", "git@git.example.org:x.git",
        "https://git.example.org/x.git?a=b", "https://git.example.org/$(id)", "https://git.example.org:x/y",
        "file:///etc", "file://host/srv", "file:///%2e%2e/etc", "https://git.example.org/a/../b", "ssh://a b@host/x",
    ],
)  # fmt: skip
def test_urls_with_options_credentials_or_other_protocols_are_refused(location: str, docs: Path, ada: Caller) -> None:
    with pytest.raises(Invalid, match="location") as refusal:
        subscribe(ada, "git", location)
    assert "hunter2" not in refusal.value.message
    assert "token@" not in refusal.value.message


@pytest.mark.parametrize("values", [{"branch": "--upload-pack=x"}, {"branch": "a..b"}, {"subfolder": "../x"}])
def test_branches_and_subfolders_that_are_options_or_leave_the_source_are_refused(
    values: dict[str, str], docs: Path, ada: Caller
) -> None:
    with pytest.raises(Invalid, match=next(iter(values))):
        subscribe(ada, "git", "https://git.example.org/x.git", **values)


def test_a_host_with_a_private_address_fails_the_run(docs: Path, ada: Caller, sync: Sync) -> None:
    run = sync(subscribe(ada, "git", "https://localhost/x.git"))
    assert (run.state, "not a public address" in run.error) == (RunState.FAILED, True), run.error


@pytest.fixture
def redirecting() -> Iterator[str]:
    """A server that redirects every request to another server of this machine."""
    requests: list[str] = []

    class Redirect(QuietHandler):
        def do_GET(self) -> None:
            requests.append(self.path)
            self.send_response(302)
            self.send_header("Location", f"{url}/inner{self.path}")
            self.end_headers()

    with serving(Redirect) as url:
        yield url.replace("127.0.0.1", "localhost")
    assert requests
    assert not [path for path in requests if path.startswith("/inner")]


def test_redirects_are_not_followed(
    docs: Path, ada: Caller, sync: Sync, redirecting: str, settings: LazySettings
) -> None:
    settings.SUBSCRIPTION_PRIVATE_HOSTS = ["localhost"]
    run = sync(subscribe(ada, "git", f"{redirecting}/x.git"))
    assert run.state == RunState.FAILED


def test_the_checked_address_is_connected() -> None:
    remote = addresses.Remote(
        "https://git.example.org/x", "https", "git.example.org", 443, ("192.0.2.1", "2001:db8::1")
    )
    assert "http.curloptResolve=git.example.org:443:192.0.2.1,[2001:db8::1]" in git._settings(remote)
    remote = addresses.Remote("ssh://git.example.org/x", "ssh", "git.example.org", 22, ("192.0.2.1",))
    assert "HostName=192.0.2.1" in git._environment(remote)["GIT_SSH_COMMAND"]


def test_links_hooks_filters_and_large_files_of_a_repository_have_no_effect(
    docs: Path, ada: Caller, sync: Sync, tmp_path: Path
) -> None:
    (docs / "link.md").symlink_to("/etc/passwd")
    (docs / "lfs.md").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    (docs / ".gitattributes").write_text("*.md filter=evil\n")
    commit(docs)
    run_git(docs, "config", "filter.evil.smudge", f"touch {tmp_path}/smudged")
    hook = docs / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/hooked\n")
    hook.chmod(hook.stat().st_mode | stat.S_IXUSR)
    run = sync(subscribe(ada, "git", f"file://{docs}"))
    assert run.counts == {"new": 3, "refused": 2}
    assert refusals(run)["link.md"] == "is a link"
    assert "Git LFS" in refusals(run)["lfs.md"]
    assert not [name for name in ("smudged", "hooked") if (tmp_path / name).exists()]


def test_a_damaged_copy_is_made_anew_and_a_missing_branch_is_reported(docs: Path, ada: Caller, sync: Sync) -> None:
    commit(docs)
    row = subscribe(ada, "git", f"file://{docs}")
    sync(row)
    (git.folder_of(row.pk) / "HEAD").write_text("damaged")
    assert sync(row).counts == {"unchanged": 3}
    run = sync(subscribe(ada, "git", f"file://{docs}", branch="missing"))
    assert (run.state, "missing" in run.error) == (RunState.FAILED, True)


def test_a_repository_that_is_too_large_is_refused(docs: Path, ada: Caller, sync: Sync, settings: LazySettings) -> None:
    (docs / "data.bin").write_bytes(os.urandom(2 << 20))
    commit(docs)
    settings.SUBSCRIPTION_MAX_MB = 1
    row = subscribe(ada, "git", f"file://{docs}")
    run = sync(row)
    assert (run.state, "SUBSCRIPTION_MAX_MB" in run.error) == (RunState.FAILED, True)
    assert not git.folder_of(row.pk).exists()


# -- dbt -------------------------------------------------------------------------------------------------------


def manifest(**node: Any) -> dict[str, Any]:
    orders = {
        "resource_type": "model", "database": "fernhill", "schema": "sales", "name": "orders", "alias": "orders",
        "description": "One row per order.", "columns": {"id": {"name": "id", "description": "Key of the order."}},
    } | node  # fmt: skip
    about = {"dbt_schema_version": "https://schemas.getdbt.com/dbt/manifest/v12.json", "adapter_type": "snowflake"}
    return {"metadata": about, "nodes": {"model.shop.orders": orders}, "sources": {}}


@pytest.fixture
def project(docs: Path) -> Path:
    (docs / "target").mkdir()
    (docs / "target" / "manifest.json").write_text(json.dumps(manifest()))
    return docs


def test_a_manifest_becomes_memories_about_entities(project: Path, ada: Caller, sync: Sync) -> None:
    row = subscribe(ada, "folder", str(project), subfolder="target")
    sync(row)
    record = MemoryRecord.objects.get()
    assert "One row per order." in record.content
    assert "- id: Key of the order." in record.content
    assert (record.entity_urns, "not in the catalog" in record.metadata["entity_note"]) == ([], True)
    for platform, urn in (("postgres", URN.replace("snowflake", "postgres")), ("snowflake", URN)):
        CatalogEntity.objects.create(
            urn=urn, entity_type="dataset", name="orders", qualified_name="fernhill.sales.orders", platform=platform
        )
    assert sync(row).counts == {"changed": 1}
    record.refresh_from_db()
    assert (record.entity_urns, [column["column"] for column in record.related_columns]) == ([URN], ["id"])
    CatalogEntity.objects.all().delete()
    assert sync(row).counts == {"unchanged": 1}  # a catalog that is away takes no link back
    (project / "target" / "manifest.json").write_text(json.dumps(manifest(description="One row per paid order.")))
    assert sync(row).counts == {"changed": 1}
    assert memory_of("target/manifest.json#model.shop.orders").entity_urns == [URN]


PROPERTIES = """
version: 2
models:
  - name: orders
    description: One row per order of a customer.
    columns: [{name: id, description: Key of the order.}]
  - name: plain
  - name: quoted
    description: '{{ doc("quoted") }}'
sources:
  - name: shop
    schema: raw
    tables: [{name: payments, description: Payments as they come in.}]
"""


def test_property_files_are_read_if_there_is_no_manifest(project: Path, ada: Caller, sync: Sync) -> None:
    (project / "schema.yml").write_text(PROPERTIES)
    (project / "compose.yml").write_text("services: {a: &a {image: b}, c: *a}")
    row = subscribe(ada, "folder", str(project))
    assert sync(row, plan=True).counts == {"new": 4, "refused": 1}
    (project / "target" / "manifest.json").unlink()
    run = sync(row)
    assert run.counts == {"new": 5, "refused": 1}
    assert refusals(run).keys() == {"schema.yml#model.quoted"}
    assert MemoryRecord.objects.filter(content__startswith="# raw.payments (dbt source)").count() == 1


@pytest.mark.parametrize(
    "text",
    [
        "models:\n  - &a [x, x]\n  - [*a, *a]\n", "models: " + "[" * 100_000, "models:\n  - name: [1, {2: 3}]\n",
        "models: 3\nsources: {a: b}\n", "models:\n- description: x\n  columns: {a: 1}\n", "models:\n  - !!python/x y\n",
        "models:\n\t- x",
    ],
)  # fmt: skip
def test_hostile_property_files_have_no_memories(text: str) -> None:
    assert [row for row in dbt.property_rows("schema.yml", text) if not row.problem] == []


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 100_000, b"{", b"[]", json.dumps(manifest() | {"nodes": [1]}).encode(), b"\xff\xfe", b'"x"',
        b"1" * 9_999,
        json.dumps(manifest(name=3, alias=None, description=[], columns=[1, {"name": {}}])).encode(),
    ],
)  # fmt: skip
def test_hostile_manifests_have_no_memories(content: bytes) -> None:
    assert [row for row in dbt.manifest_rows("target/manifest.json", content) if not row.problem] == []


# -- admin and command -----------------------------------------------------------------------------------------


def test_an_operator_sets_up_and_runs_a_subscription_in_the_admin(
    docs: Path, client: Client, ada_user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.force_login(ada_user)
    values = {"name": "handbook", "kind": "folder", "location": "/etc", "visibility": "persona", "interval_min": 60}
    address = reverse("admin:subscriptions_subscription_add")
    refused = client.post(address, values)
    assert b"may not be read" in refused.content
    assert client.post(address, values | {"location": str(docs)}).status_code == 302
    row = Subscription.objects.get()
    assert (row.created_by, row.persona) == (ada_user.email, "sales")
    change = reverse("admin:subscriptions_subscription_change", args=[row.pk])
    assert client.get(change).status_code == 200
    client.post(change, {"name": "guide", "interval_min": 30, "is_paused": "on"})
    row.refresh_from_db()
    assert (row.name, row.interval_min, row.is_paused) == ("guide", 30, True)
    selected = {"action": "plan", "_selected_action": [row.pk]}
    client.post(reverse("admin:subscriptions_subscription_changelist"), selected)
    assert SubscriptionRun.objects.get().is_plan


def test_the_admin_shows_only_own_subscriptions(folder: Subscription, client: Client, sync: Sync) -> None:
    sync(folder)
    operator = User.objects.create_user("omar@example.org", "a long password", is_staff=True)
    from django.contrib.auth.models import Permission

    operator.user_permissions.add(Permission.objects.get(codename="operate"))
    client.force_login(operator)
    for name in ("subscription", "subscriptionrun", "subscriptionitem"):
        page = client.get(reverse(f"admin:subscriptions_{name}_changelist"))
        assert page.context["cl"].result_count == 0


def test_the_command_adds_plans_runs_and_removes(docs: Path, ada: Caller, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("subscriptions", "add", str(docs), "--as", ada.email)
    call_command("subscriptions", "sync", "docs", "--plan")
    assert "plan, done: 3 new" in capsys.readouterr().out
    call_command("subscriptions", "sync", "docs")
    call_command("subscriptions", "list")
    assert "every 60 min  done: 3 new" in capsys.readouterr().out
    call_command("subscriptions", "pause", "docs")
    assert Subscription.objects.get().is_paused
    call_command("subscriptions", "remove", "docs", "--forget")
    assert (SubscriptionItem.objects.count(), MemoryRecord.objects.filter(status="active").count()) == (0, 0)
    with pytest.raises(CommandError, match="There is no subscription"):
        call_command("subscriptions", "sync", "docs")
