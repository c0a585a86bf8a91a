"""Webhook endpoints: who gets which event, with which texts, signed, retried and paused."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from django.db import transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from standardwebhooks import Webhook, WebhookVerificationError

from foundation.operations.errors import Conflict, Forbidden, Invalid, LimitReached, NotFound
from foundation.people.caller import WIPE, Caller
from knowledge.insights.capture import capture
from knowledge.operations import Appeal, Capture
from knowledge.review import decisions
from memories import services
from memories.conversation import wipe
from memories.conversation.operations import Wipe
from memories.models import MemoryRecord, Visibility
from memories.operations import Erase, Forget, Restore, Share, Supersede, Verify
from memories.writing import erasure, hand_overs
from memory_project.accounts import people
from memory_project.models import Notification, User
from memory_project.notifications.webhooks import endpoints, posting, sending, signing
from memory_project.notifications.webhooks.events import KINDS, TEST, emit
from memory_project.notifications.webhooks.models import Delivery, DeliveryState, Endpoint, Event
from memory_project.notifications.webhooks.operations import CreateEndpoint, UpdateEndpoint
from tests.http_servers import QuietHandler, serving
from tests.queued_tasks import run_queued_tasks

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    """A receiver that records requests, and responds with `status`, slowly if `drips` is set."""
    state = SimpleNamespace(url="", requests=[], status=200, drips=False)

    class Receiver(QuietHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            state.requests.append(SimpleNamespace(headers=dict(self.headers), body=body, data=json.loads(body)))
            if state.drips:
                for _ in range(20):
                    self.wfile.write(b"H")
                    time.sleep(0.05)
                return
            self.send_response(state.status)
            self.send_header("Location", "http://169.254.169.254/")
            self.send_header("Content-Length", "0")
            self.end_headers()

    with serving(Receiver) as url:
        state.url = f"{url}/hook"
        yield state


@pytest.fixture
def receiver(server: Any, settings: Any) -> Any:
    settings.WEBHOOK_PRIVATE_HOSTS = ["127.0.0.1"]
    server.requests.clear()
    server.status, server.drips = 200, False
    return server


def subscribe(caller: Caller, url: str, *kinds: str, with_texts: bool = False) -> tuple[Endpoint, str]:
    operation = CreateEndpoint(name="Tickets", url=url, kinds=list(kinds or KINDS), with_texts=with_texts)
    return endpoints.create_endpoint(caller, operation)


def send() -> str:
    return sending.send_due(until=time.monotonic() + 30)


def sent(receiver: Any) -> list[tuple[str, dict[str, Any]]]:
    send()
    found = [(request.data["type"], request.data["data"]) for request in receiver.requests]
    receiver.requests.clear()
    return found


def kinds(receiver: Any) -> list[str]:
    return sorted(kind for kind, _ in sent(receiver))


def propose(caller: Caller, text: str = "Tills close at ten in Ghent.") -> Any:
    return capture(caller, Capture(insight_text=text, category="data_quality")).insight


def let_pass(age: timedelta) -> None:
    """Let time pass for waiting deliveries and failing endpoints."""
    for delivery in Delivery.objects.filter(state=DeliveryState.WAITING):
        Delivery.objects.filter(pk=delivery.pk).update(next_try_at=(delivery.next_try_at or timezone.now()) - age)
    for endpoint in Endpoint.objects.exclude(failing_since=None):
        assert endpoint.failing_since is not None
        Endpoint.objects.filter(pk=endpoint.pk).update(failing_since=endpoint.failing_since - age)


# -- events --------------------------------------------------------------------------------------------------


def test_the_life_of_a_memory_is_reported(alice: Caller, fact: MemoryRecord, receiver: Any) -> None:
    subscribe(alice, receiver.url)
    services.mark_stale(alice, record_id=fact.pk, reason="a column was removed")
    services.verify(alice, Verify(record_id=fact.pk))
    assert kinds(receiver) == ["memory.stale", "memory.verified"]
    text = "Revenue in the sales mart includes refunds."
    new = services.supersede(alice, Supersede(record_id=fact.pk, content=text)).record
    ((kind, data),) = sent(receiver)
    assert (kind, data["memory_id"], data["correction_id"], data["status"]) == (
        "memory.corrected", fact.pk.hex, new.pk.hex, "superseded",
    )  # fmt: skip
    assert data["url"].endswith(reverse("memory", args=[fact.pk]))
    services.forget(alice, Forget(record_id=new.pk))
    services.restore(alice, Restore(record_id=new.pk))
    assert "memory.restored" in kinds(receiver)


def test_the_review_of_an_insight_is_reported_with_its_undo(
    alice: Caller, cora: Caller, cora_user: User, receiver: Any
) -> None:
    subscribe(cora, receiver.url, "insight.captured", "insight.decided")
    insight = propose(alice)
    ((kind, data),) = sent(receiver)
    assert (kind, data["insight_id"], data["state"]) == ("insight.captured", insight.pk.hex, "pending")
    decisions.approve(cora, insight_id=insight.pk)
    assert [(data["decision"], data["state"]) for _, data in sent(receiver)] == [("approved", "approved")]
    decisions.undo_review(cora, insight_id=insight.pk)
    assert [(data["decision"], data["state"]) for _, data in sent(receiver)] == [("taken_back", "pending")]
    decisions.reject(cora, insight_id=insight.pk, notes="no")
    decisions.appeal(alice, Appeal(insight_id=insight.pk, notes="but yes"))
    assert sorted(data["decision"] for _, data in sent(receiver)) == ["appealed", "rejected"]


def test_events_belong_to_the_transaction_of_the_change(alice: Caller, fact: MemoryRecord, receiver: Any) -> None:
    subscribe(alice, receiver.url)
    with transaction.atomic():
        services.mark_stale(alice, record_id=fact.pk, reason="a column was removed")
        assert Event.objects.exists()
        transaction.set_rollback(True)
    assert not Event.objects.exists()


def test_nothing_is_stored_if_nobody_wants_it(alice: Caller, fact: MemoryRecord, receiver: Any) -> None:
    endpoint, _ = subscribe(alice, receiver.url, "insight.captured")
    services.verify(alice, Verify(record_id=fact.pk))
    assert not Event.objects.exists()
    endpoints.pause_endpoint(alice, endpoint_id=endpoint.pk)
    propose(alice)
    assert not Event.objects.exists()


def test_an_event_of_one_person_reaches_nobody_else(alice: Caller, ada: Caller, receiver: Any) -> None:
    subscribe(alice, receiver.url)
    subscribe(ada, receiver.url)
    pk = uuid4()
    emit("import.finished", [pk], owner=alice.email, kept=3)
    assert sent(receiver) == [("import.finished", {"import_id": pk.hex, "kept": 3})]


def test_the_first_waiting_event_queues_a_task(
    alice: Caller, receiver: Any, django_capture_on_commit_callbacks: Any
) -> None:
    subscribe(alice, receiver.url)
    with django_capture_on_commit_callbacks(execute=True) as callbacks:
        emit("memory.stale", [uuid4() for _ in range(5_000)])
        emit("memory.stale", [uuid4()])
    assert (len(callbacks), Event.objects.count()) == (1, 5_001)
    assert run_queued_tasks("memory_project.notifications.webhooks.tasks.send_webhook_events")
    assert not Event.objects.exists()


# -- who may read what ---------------------------------------------------------------------------------------


def test_only_readers_get_an_event_and_texts_only_on_request(
    alice: Caller, bob: Caller, olga: Caller, fact: MemoryRecord, receiver: Any
) -> None:
    subscribe(bob, receiver.url, with_texts=True)
    subscribe(olga, receiver.url, with_texts=True)
    services.mark_stale(alice, record_id=fact.pk, reason="a column was removed")
    ((_, data),) = sent(receiver)
    assert (data["content"], data["stale_reason"]) == (fact.content, "a column was removed")
    subscribe(alice, receiver.url)
    services.verify(alice, Verify(record_id=fact.pk))
    texts = [data.get("content") for _, data in sent(receiver)]
    assert sorted(texts, key=str) == [None, fact.content]


def test_the_right_to_read_is_checked_when_the_event_is_sent(
    alice: Caller, bob: Caller, fact: MemoryRecord, receiver: Any
) -> None:
    subscribe(bob, receiver.url, with_texts=True)
    services.mark_stale(alice, record_id=fact.pk, reason="a column was removed")
    while sending.distribute():
        pass
    services.share(alice, Share(record_id=fact.pk, visibility=Visibility.PRIVATE))
    assert sent(receiver) == []
    (delivery,) = Delivery.objects.all()
    assert (delivery.state, delivery.error) == (DeliveryState.SKIPPED, sending.UNREADABLE)


def test_an_erased_memory_is_not_sent_and_no_row_contains_a_text(
    alice: Caller, bob: Caller, fact: MemoryRecord, receiver: Any
) -> None:
    subscribe(bob, receiver.url, with_texts=True)
    services.mark_stale(alice, record_id=fact.pk, reason="a column was removed")
    receiver.status = 500
    send()
    for model in (Event, Delivery):
        rows = json.dumps(list(model._default_manager.values()), default=str)
        assert ("refunds" in rows, "column was" in rows) == (False, False)
    receiver.requests.clear()
    erasure.erase(alice, Erase(record_id=fact.pk, confirm=True))
    let_pass(timedelta(hours=1))
    assert sent(receiver) == []


def test_a_forgotten_memory_of_others_is_sent_without_text(
    alice: Caller, bob: Caller, fact: MemoryRecord, receiver: Any
) -> None:
    subscribe(bob, receiver.url, "memory.stale", with_texts=True)
    services.mark_stale(alice, record_id=fact.pk, reason="a column was removed")
    services.forget(alice, Forget(record_id=fact.pk))
    ((_, data),) = sent(receiver)
    assert (data["memory_id"], data["status"], "content" in data) == (fact.pk.hex, "archived", False)


def test_a_correction_that_the_owner_may_not_read_is_not_named(
    alice: Caller, bob: Caller, fact: MemoryRecord, receiver: Any
) -> None:
    subscribe(bob, receiver.url)
    operation = Supersede(record_id=fact.pk, content="Revenue includes refunds.", visibility="private")
    services.supersede(alice, operation)
    ((kind, data),) = sent(receiver)
    assert (kind, "correction_id" in data) == ("memory.corrected", False)


def test_a_disabled_account_pauses_its_endpoints(
    alice: Caller, ada: Caller, bob: Caller, bob_user: User, fact: MemoryRecord, receiver: Any
) -> None:
    endpoint, _ = subscribe(bob, receiver.url)
    people.deactivate(ada, person=bob_user)
    services.verify(alice, Verify(record_id=fact.pk))
    assert sent(receiver) == []
    endpoint.refresh_from_db()
    assert (endpoint.paused_at is not None, endpoint.pause_reason) == (True, "the owner's account is disabled")


def test_a_heir_confirms_the_url_before_anything_is_sent(
    alice: Caller, bob: Caller, ada: Caller, fact: MemoryRecord, receiver: Any
) -> None:
    endpoint, old_secret = subscribe(bob, receiver.url)
    hand_overs.hand_over(ada, old=bob.email, new=alice.email)
    services.verify(alice, Verify(record_id=fact.pk))
    assert sent(receiver) == []
    endpoint.refresh_from_db()
    assert (endpoint.owner, "handed over" in endpoint.pause_reason) == (alice.email, True)
    with pytest.raises(Forbidden, match="only its new owner"):
        endpoints.resume_endpoint(ada, endpoint_id=endpoint.pk)
    _, secret = endpoints.rotate_secret(alice, endpoint_id=endpoint.pk)
    endpoints.resume_endpoint(alice, endpoint_id=endpoint.pk)
    services.verify(alice, Verify(record_id=fact.pk))
    send()
    (request,) = receiver.requests
    Webhook(secret).verify(request.body, request.headers)
    with pytest.raises(WebhookVerificationError):  # the former owner knows it
        Webhook(old_secret).verify(request.body, request.headers)


def test_a_wipe_deletes_endpoints_and_deliveries(alice: Caller, fact: MemoryRecord, receiver: Any) -> None:
    subscribe(alice, receiver.url)
    services.verify(alice, Verify(record_id=fact.pk))
    send()
    emit("import.finished", [uuid4()], owner=alice.email)
    wipe.request_wipe(replace(alice, rights=frozenset({WIPE})), Wipe(user_id=alice.email, confirm=True))
    left = (Endpoint.objects.count(), Delivery.objects.count(), Event.objects.exclude(owner="").count())
    assert left == (0, 0, 0)


# -- signatures ----------------------------------------------------------------------------------------------


def test_requests_are_signed_and_both_secrets_count_for_a_day(alice: Caller, receiver: Any) -> None:
    endpoint, secret = subscribe(alice, receiver.url)
    endpoints.send_test_event(alice, endpoint_id=endpoint.pk)
    send()
    first = receiver.requests.pop()
    assert Webhook(secret).verify(first.body, first.headers)["type"] == "webhook.test"
    with pytest.raises(WebhookVerificationError):
        Webhook(secret).verify(first.body.replace("webhook", "wehbook"), first.headers)
    _, new_secret = endpoints.rotate_secret(alice, endpoint_id=endpoint.pk)
    endpoints.send_test_event(alice, endpoint_id=endpoint.pk)
    send()
    second = receiver.requests.pop()
    assert Webhook(secret).verify(second.body, second.headers) == Webhook(new_secret).verify(
        second.body, second.headers
    )
    Endpoint.objects.update(rotated_at=timezone.now() - timedelta(hours=25))
    endpoints.send_test_event(alice, endpoint_id=endpoint.pk)
    send()
    third = receiver.requests.pop()
    Webhook(new_secret).verify(third.body, third.headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(secret).verify(third.body, third.headers)


def test_no_secret_is_stored_and_a_changed_key_pauses_out_loud(
    alice: Caller, alice_user: User, receiver: Any, settings: Any
) -> None:
    endpoint, secret = subscribe(alice, receiver.url)
    rows = json.dumps(list(Endpoint.objects.values()), default=str)
    assert secret.removeprefix("whsec_") not in rows
    first_key = settings.SECRET_KEY
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "another key", [first_key]
    assert signing.is_known(endpoint)
    settings.SECRET_KEY_FALLBACKS = []
    endpoints.send_test_event(alice, endpoint_id=endpoint.pk)
    assert sent(receiver) == []
    endpoint.refresh_from_db()
    assert "SECRET_KEY has changed" in endpoint.pause_reason
    assert Notification.objects.get(person=alice_user).kind == "webhook_paused"
    with pytest.raises(Conflict, match="rotate it first"):
        endpoints.resume_endpoint(alice, endpoint_id=endpoint.pk)
    endpoints.rotate_secret(alice, endpoint_id=endpoint.pk)
    endpoints.resume_endpoint(alice, endpoint_id=endpoint.pk)
    assert kinds(receiver) == ["webhook.test"]


# -- retries -------------------------------------------------------------------------------------------------


def test_a_delivery_is_tried_for_a_day_with_the_same_id_and_then_the_endpoint_is_paused(
    alice: Caller, alice_user: User, fact: MemoryRecord, receiver: Any
) -> None:
    endpoint, _ = subscribe(alice, receiver.url)
    receiver.status = 503
    services.verify(alice, Verify(record_id=fact.pk))
    for pause in [*sending.PAUSES, timedelta()]:
        send()
        send()  # nothing is due before the pause is over
        let_pass(pause)
    assert len(receiver.requests) == 11
    assert len({request.headers["webhook-id"] for request in receiver.requests}) == 1
    (delivery,) = Delivery.objects.all()
    assert (delivery.state, delivery.status_code, delivery.next_try_at) == (DeliveryState.FAILED, 503, None)
    endpoint.refresh_from_db()
    assert endpoint.pause_reason == "every request has failed for a day; the last one: responded with status 503"
    client = Client()
    client.force_login(alice_user)
    page = client.get(reverse("news")).content.decode()
    assert ("paused your webhook endpoint" in page, "responded with status 503" in page) == (True, True)
    (notice,) = Notification.objects.all()
    target = client.post(reverse("follow-news", args=[notice.pk]))["Location"]
    assert target == f"{reverse('webhooks')}#w-{endpoint.pk.hex}"


def test_a_failing_endpoint_gets_one_request_at_a_time_and_all_once_it_works(alice: Caller, receiver: Any) -> None:
    subscribe(alice, receiver.url)
    receiver.status = 500
    emit("import.finished", [uuid4() for _ in range(50)], owner=alice.email)
    send()
    assert len(receiver.requests) == sending.REQUESTS_AT_ONCE
    assert len(receiver.requests) == sending.REQUESTS_AT_ONCE  # nothing more while the endpoint fails
    let_pass(timedelta(minutes=1))
    send()
    assert len(receiver.requests) == sending.REQUESTS_AT_ONCE + 1
    assert Delivery.objects.filter(attempts=0).count() == 50 - len(receiver.requests)
    receiver.requests.clear()
    receiver.status = 204
    let_pass(timedelta(minutes=2))
    send()
    errors = set(Delivery.objects.exclude(error="").values_list("error", flat=True))
    assert (len(receiver.requests), errors) == (50, set())
    assert Endpoint.objects.get().failing_since is None
    assert not Delivery.objects.exclude(state=DeliveryState.DELIVERED).exists()


def test_a_failing_endpoint_does_not_delay_others(
    alice: Caller, bob: Caller, fact: MemoryRecord, receiver: Any
) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        subscribe(alice, f"http://127.0.0.1:{closed.getsockname()[1]}/")
        subscribe(bob, receiver.url)
        services.verify(alice, Verify(record_id=fact.pk))
        assert kinds(receiver) == ["memory.verified"]
    failed = Delivery.objects.get(state=DeliveryState.WAITING)
    assert (failed.status_code, failed.attempts, failed.error.partition(":")[0]) == (None, 1, "ConnectError")


def test_a_response_that_drips_is_cut_off(alice: Caller, receiver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint, _ = subscribe(alice, receiver.url)
    monkeypatch.setattr(posting, "TIMEOUT_S", 0.3)
    receiver.drips = True
    endpoints.send_test_event(alice, endpoint_id=endpoint.pk)
    send()
    assert Delivery.objects.get().error.startswith("no response within")


@pytest.mark.parametrize("status", [302, 307])
def test_a_redirect_is_a_failure(alice: Caller, receiver: Any, status: int) -> None:
    endpoint, _ = subscribe(alice, receiver.url)
    receiver.status = status
    endpoints.send_test_event(alice, endpoint_id=endpoint.pk)
    send()
    assert (len(receiver.requests), Delivery.objects.get().error) == (1, f"responded with status {status}")


def test_a_receiver_that_is_gone_is_paused_at_once(alice: Caller, receiver: Any) -> None:
    endpoint, _ = subscribe(alice, receiver.url)
    receiver.status = 410
    endpoints.send_test_event(alice, endpoint_id=endpoint.pk)
    send()
    endpoint.refresh_from_db()
    assert "410" in endpoint.pause_reason
    with pytest.raises(Conflict, match="is paused"):
        endpoints.repeat_delivery(alice, delivery_id=Delivery.objects.get().pk)


def test_a_delivery_can_be_repeated_and_keeps_its_id(alice: Caller, fact: MemoryRecord, receiver: Any) -> None:
    subscribe(alice, receiver.url)
    services.verify(alice, Verify(record_id=fact.pk))
    send()
    endpoints.repeat_delivery(alice, delivery_id=Delivery.objects.get().pk)
    send()
    first, second = receiver.requests
    assert first.headers["webhook-id"] == second.headers["webhook-id"]


# -- addresses -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "http://hooks.example/x", "https://127.0.0.1/x", "https://[::1]/x", "https://localhost/", "ftp://hooks.example",
        "https://user:pass@hooks.example/", "https://hooks.example/#x", "hooks.example", "https://", "https://a b/",
        "https://169.254.169.254/latest", "https://[::ffff:10.0.0.1]/", "https://hooks.example:99999/",
        "https://LOCALHOST:8000/",
    ],
)  # fmt: skip
def test_only_https_urls_of_public_hosts_are_accepted(alice: Caller, settings: Any, url: str) -> None:
    settings.WEBHOOK_PRIVATE_HOSTS = []
    with pytest.raises(Invalid) as refusal:
        subscribe(alice, url)
    assert refusal.value.field == "url"
    assert not Endpoint.objects.exists()


def test_a_name_with_a_private_address_gets_nothing_and_the_address_is_not_told(
    alice: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint, _ = subscribe(alice, "https://hooks.example/x")
    endpoints.send_test_event(alice, endpoint_id=endpoint.pk)
    entries = [(0, 0, 0, "", ("93.184.216.34", 443)), (0, 0, 0, "", ("10.1.2.3", 443))]
    monkeypatch.setattr("socket.getaddrinfo", lambda *args, **kwargs: entries)
    send()
    assert Delivery.objects.get().error == posting.NOT_PUBLIC


def test_a_host_that_is_no_longer_allowed_gets_nothing(alice: Caller, receiver: Any, settings: Any) -> None:
    endpoint, _ = subscribe(alice, receiver.url)
    settings.WEBHOOK_PRIVATE_HOSTS = []
    endpoints.send_test_event(alice, endpoint_id=endpoint.pk)
    assert sent(receiver) == []
    assert Delivery.objects.get().error.startswith("url:")


# -- managing endpoints --------------------------------------------------------------------------------------


def test_people_manage_their_own_endpoints_only(alice: Caller, bob: Caller, ada: Caller, receiver: Any) -> None:
    endpoint, _ = subscribe(alice, receiver.url)
    endpoints.send_test_event(alice, endpoint_id=endpoint.pk)
    delivery = Delivery.objects.get()
    for act in (
        endpoints.rotate_secret, endpoints.pause_endpoint, endpoints.resume_endpoint, endpoints.delete_endpoint,
        endpoints.send_test_event,
    ):  # fmt: skip
        with pytest.raises(NotFound):
            act(bob, endpoint_id=endpoint.pk)
    with pytest.raises(NotFound):
        endpoints.update_endpoint(bob, UpdateEndpoint(endpoint_id=endpoint.pk, name="Mine"))
    with pytest.raises(NotFound):
        endpoints.repeat_delivery(bob, delivery_id=delivery.pk)
    assert endpoints.pause_endpoint(ada, endpoint_id=endpoint.pk).pause_reason == "paused by an admin"


def test_operators_limit_who_gets_events(
    alice: Caller, ada: Caller, fact: MemoryRecord, receiver: Any, settings: Any
) -> None:
    endpoint, _ = subscribe(alice, receiver.url)
    settings.WEBHOOK_SUBSCRIBERS = "operators"
    with pytest.raises(Forbidden):
        subscribe(alice, receiver.url)
    subscribe(ada, receiver.url)
    services.verify(alice, Verify(record_id=fact.pk))
    assert kinds(receiver) == ["memory.verified"]
    endpoint.refresh_from_db()
    assert "WEBHOOK_SUBSCRIBERS" in endpoint.pause_reason


def test_the_number_of_endpoints_is_limited(alice: Caller, receiver: Any) -> None:
    for _ in range(endpoints.MAX_ENDPOINTS):
        subscribe(alice, receiver.url)
    with pytest.raises(LimitReached):
        subscribe(alice, receiver.url)


def test_wrong_fields_are_named(alice: Caller) -> None:
    for fields, name in (
        ({"name": " ", "url": "https://hooks.example", "kinds": ["memory.stale"]}, "name"),
        ({"name": "x", "url": "https://hooks.example", "kinds": []}, "kinds"),
        ({"name": "x", "url": "https://hooks.example", "kinds": ["memory.eaten"]}, "kinds"),
        ({"name": "x", "url": "https://hooks.example/" + "x" * 500, "kinds": ["memory.stale"]}, "url"),
    ):
        with pytest.raises(Invalid) as refusal:
            CreateEndpoint.read(fields)
        assert refusal.value.field.startswith(name)


def test_the_portal_creates_tests_repeats_and_deletes(alice_user: User, receiver: Any) -> None:
    client = Client()
    client.force_login(alice_user)
    fields = {"name": "Tickets <b>", "url": receiver.url, "kinds": ["memory.stale", "insight.captured"]}
    page = client.post(reverse("webhooks"), fields).content.decode()
    endpoint = Endpoint.objects.get()
    assert (page.count("whsec_"), "Tickets &lt;b&gt;" in page) == (1, True)
    assert "whsec_" not in client.get(reverse("webhooks")).content.decode()

    def click(button: str, **values: Any) -> Any:
        return client.post(reverse("change-webhook", args=[endpoint.pk, button]), values)

    refused = click("change", **{**fields, "url": "ftp://hooks.example", "name": "Kept"})
    assert (refused.status_code, 'value="Kept"' in refused.content.decode()) == (400, True)
    refused = client.post(reverse("webhooks"), {**fields, "kinds": []}).content.decode()
    assert refused.count('class="errorlist"') == 1
    assert Endpoint.objects.get().name == "Tickets <b>"
    click("test")
    send()
    click("repeat", delivery=Delivery.objects.get().pk.hex)
    send()
    assert len(receiver.requests) == 2
    click("change", **{**fields, "name": "Other", "with_texts": "on"})
    endpoint.refresh_from_db()
    assert (endpoint.name, endpoint.with_texts, endpoint.kinds) == ("Other", True, ["insight.captured", "memory.stale"])
    click("pause")
    assert "paused by its owner" in client.get(reverse("webhooks")).content.decode()
    click("resume")
    assert "whsec_" in click("rotate").content.decode()
    assert click("explode").status_code == 404
    click("delete")
    assert Endpoint.objects.exists()  # the deletion has to be confirmed
    click("delete", confirm="yes")
    assert not Endpoint.objects.exists()


def test_the_admin_shows_the_body_as_the_owner_may_read_it(
    alice: Caller, bob: Caller, ada_user: User, fact: MemoryRecord, receiver: Any
) -> None:
    endpoint, _ = subscribe(bob, receiver.url, with_texts=True)
    services.verify(alice, Verify(record_id=fact.pk))
    send()
    client = Client()
    client.force_login(ada_user)
    delivery = Delivery.objects.get()
    address = reverse("admin:webhooks_delivery_change", args=[delivery.pk])
    assert "excludes refunds" in client.get(address).content.decode()
    services.share(alice, Share(record_id=fact.pk, visibility=Visibility.PRIVATE))
    assert "excludes refunds" not in client.get(address).content.decode()
    page = client.get(reverse("admin:webhooks_endpoint_change", args=[endpoint.pk])).content.decode()
    assert (endpoint.nonce in page, endpoint.secret_digest in page) == (False, False)
    rows = {"action": "send_test_event", "_selected_action": [endpoint.pk]}
    client.post(reverse("admin:webhooks_endpoint_changelist"), rows)
    client.post(reverse("admin:webhooks_delivery_changelist"), {"action": "repeat", "_selected_action": [delivery.pk]})
    assert sorted(Delivery.objects.values_list("kind", "state")) == [
        ("memory.verified", "waiting"),
        ("webhook.test", "waiting"),
    ]


def test_the_documented_example_verifies_a_request(alice: Caller, receiver: Any) -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "webhooks.md").read_text()
    example = re.search(r"<!-- example -->\n```python\n(.*?)```", text, re.DOTALL)
    assert example is not None
    endpoint, secret = subscribe(alice, receiver.url)
    endpoints.send_test_event(alice, endpoint_id=endpoint.pk)
    send()
    (request,) = receiver.requests
    seen: list[str] = []
    program: dict[str, Any] = {"is_new": seen.append}
    exec(example[1].replace("whsec_…", secret), program)
    assert program["receive"](request.headers, request.body.encode()) == 204
    assert seen == [request.headers["webhook-id"]]
    assert program["receive"](request.headers, request.body.encode() + b" ") == 400


def test_the_documented_events_are_those_that_are_sent() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "webhooks.md").read_text()
    assert set(re.findall(r"^\| `(\w+\.\w+)` \|", text, re.MULTILINE)) == {*KINDS, TEST}
