"""Bulk import with remember_many."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from foundation.operations.errors import Forbidden, Invalid
from foundation.people.caller import Caller
from memories import services
from memories.models import IndexJob, MemoryRecord, Passage
from memories.operations import Remember
from memories.writing.bulk_import import remember_many

pytestmark = pytest.mark.django_db


def test_each_text_is_stored_once_with_its_passages(alice: Caller) -> None:
    record = services.remember(alice, Remember(content="Orders close at ten.")).record
    facts = [{"content": f"Fact {n} of the ledger."} for n in range(5)]
    results = remember_many(alice, facts=[*facts, {"content": " orders CLOSE at ten."}, facts[0]])
    assert [existing for _, existing in results] == [False] * 5 + [True, True]
    assert (results[5][0], results[6][0]) == (record, results[0][0])
    assert MemoryRecord.objects.count() == Passage.objects.count() == 6
    assert remember_many(alice, facts=facts)[0] == (results[0][0], True)


def test_one_invalid_fact_rejects_all(alice: Caller) -> None:
    with pytest.raises(Invalid) as caught:
        remember_many(alice, facts=[{"content": "A good enough fact."}, {"content": "bad"}])
    assert caught.value.field == "facts[1].content"
    assert not MemoryRecord.objects.exists()


def test_without_embedder_index_jobs_are_created(alice: Caller, settings: Any) -> None:
    settings.EMBEDDING_PROVIDER = "none"
    remember_many(alice, facts=[{"content": "A good enough fact."}])
    assert (IndexJob.objects.count(), Passage.objects.count()) == (1, 0)


def test_a_caller_without_identity_cannot_import(alice: Caller) -> None:
    with pytest.raises(Forbidden):
        remember_many(replace(alice, email=""), facts=[{"content": "A good enough fact."}])
