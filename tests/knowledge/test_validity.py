"""Validity beside the catalog: conditions that end with an incident or a deprecation, attached memories, review."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from foundation.operations.errors import Forbidden, Invalid, NotFound
from foundation.people.caller import Caller
from foundation.tools.declaration import Call
from knowledge.catalog.datahub import DataHubCatalog
from knowledge.context.attached_memories import attach_memories
from knowledge.freshness import stale_detection
from knowledge.insights import lifecycle
from knowledge.insights.capture import capture
from knowledge.models import Insight
from knowledge.operations import Capture, Edit
from knowledge.review import decisions
from memories import services
from memories.models import MemoryRecord
from memories.operations import Extend, Remember, Revise
from memories.writing import undo, validity
from tests.fake_datahub import Faults
from tests.knowledge.conftest import ORDERS, STAMP, put
from tests.knowledge.connections import with_connection

ENTITY_CALL = Call("catalog_entity", {"urn": ORDERS}, {})
INCIDENT = "urn:li:incident:late-load"
TEXT = "Orders of today are not complete."


def set_incident(state: str) -> None:
    status = {"state": state, "lastUpdated": STAMP}
    put(INCIDENT, "incidentInfo", {"type": "OPERATIONAL", "entities": [ORDERS], "created": STAMP, "status": status})


def set_deprecated(is_deprecated: bool) -> None:
    put(ORDERS, "deprecation", {"deprecated": is_deprecated, "note": "", "actor": "urn:li:corpuser:x"})


def remember(caller: Caller, **fields: Any) -> MemoryRecord:
    fields = {"content": TEXT, "entity_urns": [ORDERS], **fields}
    return services.remember(caller, Remember.read(fields)).record


def state_of(record: MemoryRecord) -> str:
    return MemoryRecord.objects.get(pk=record.pk).validity


@pytest.mark.django_db(transaction=True)
def test_a_resolved_incident_ends_what_depends_on_it(small_catalog: None, alice: Caller) -> None:
    with pytest.raises(Invalid, match="has no incident"):
        remember(alice, valid_while=f"incident:{INCIDENT}")
    set_incident("ACTIVE")
    record = remember(alice, valid_while="incident:late-load")
    assert record.valid_while == f"incident:{INCIDENT}"
    stale_detection.check_entities([INCIDENT])
    assert state_of(record) == ""
    set_incident("RESOLVED")
    stale_detection.check_entities([ORDERS])  # not about the incident
    assert state_of(record) == ""
    stale_detection.check_entities([INCIDENT])
    assert state_of(record) == "expired"
    with pytest.raises(Invalid, match="has ended already"):
        remember(alice, content=f"{TEXT} Really.", valid_while=f"incident:{INCIDENT}")
    set_incident("ACTIVE")
    stale_detection.check_all_entities(100)
    assert state_of(record) == ""


@pytest.mark.django_db(transaction=True)
def test_a_memory_may_hold_while_an_entity_is_deprecated(small_catalog: None, alice: Caller) -> None:
    with pytest.raises(Invalid, match="has ended already"):
        remember(alice, valid_while=f"deprecated:{ORDERS}")
    set_deprecated(True)
    record = remember(alice, valid_while=f"deprecated:{ORDERS}")
    set_deprecated(False)
    stale_detection.check_all_entities(100)
    assert state_of(record) == "expired"


def test_while_the_catalog_is_away_the_last_known_state_counts(gms: Faults, alice: Caller, settings: Any) -> None:
    set_incident("ACTIVE")
    record = remember(alice, valid_while=f"incident:{INCIDENT}")
    set_incident("RESOLVED")
    settings.DATAHUB_GMS_URL, settings.DATAHUB_TIMEOUT_S = "http://127.0.0.1:9", 0.3
    DataHubCatalog.configured.cache_clear()
    assert "failed" in stale_detection.check_all_entities(100).note
    assert state_of(record) == ""


def test_an_ended_memory_is_counted_and_one_that_was_shown_is_withdrawn(small_catalog: None, alice: Caller) -> None:
    caller = with_connection(alice, "a connection")
    record = remember(alice, valid_until=timezone.now() + timedelta(days=1))
    first = attach_memories(caller, ENTITY_CALL)
    assert first
    assert [memory["content"] for memory in first.data["memory_context"]] == [TEXT]
    services.revise(alice, Revise(record_id=record.pk, valid_until=timezone.now()))
    second = attach_memories(caller, ENTITY_CALL)
    assert second
    assert second.data["not_shown"] == {"stale": 0, "waiting_for_review": 0, "not_valid_now": 1}
    (withdrawn,) = second.data["memory_context"]
    assert (withdrawn["id"], withdrawn["content"]) == (record.pk.hex, "")
    assert "no longer valid" in withdrawn["why"]
    third = attach_memories(caller, ENTITY_CALL)
    assert third
    assert third.data["memory_context"] == []


def test_the_owner_of_an_approved_insight_asks_and_a_curator_extends(
    small_catalog: None, alice: Caller, bob: Caller, olga: Caller, cora: Caller
) -> None:
    end = timezone.now() + timedelta(days=3)
    fields = {"category": "data_quality", "insight_text": TEXT, "entity_urns": [ORDERS], "valid_until": end}
    insight = capture(alice, Capture.read(fields)).insight
    later = end + timedelta(days=1)
    lifecycle.edit(alice, Edit.read({"insight_id": insight.pk, "valid_until": later}))
    decisions.approve(cora, insight_id=insight.pk, override=True)
    record = validity.extend(alice, Extend(record_id=insight.pk, by="month"))
    assert "waits for a curator" in record.pending_message
    assert MemoryRecord.objects.get(pk=insight.pk).valid_until == later
    assert set(Insight.objects.get(pk=insight.pk).pending_edit) == {"valid_until"}
    decisions.approve(cora, insight_id=insight.pk, override=True)
    approved = MemoryRecord.objects.get(pk=insight.pk).valid_until
    assert approved
    assert approved > later + timedelta(days=27)
    for outsider, refusal in ((bob, Forbidden), (olga, NotFound)):
        with pytest.raises(refusal):
            validity.extend(outsider, Extend(record_id=insight.pk, by="month"))
    assert validity.extend(cora, Extend(record_id=insight.pk, by="no_end")).valid_until is None
    assert undo.undo(cora, record_id=insight.pk, change="extend").valid_until == approved
