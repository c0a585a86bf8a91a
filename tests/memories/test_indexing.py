from __future__ import annotations

import os
import signal
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone
from django_q.models import OrmQ

from foundation import embedding
from foundation.database import locks
from foundation.operations.errors import Conflict
from foundation.people.caller import Caller
from memories import services, tasks
from memories.models import IndexJob, MemoryRecord, Passage
from memories.models.index_job import JobStatus, Trigger
from memories.operations import Forget, Remember, Revise
from memories.retrieval import index_status, indexing, passages, term_statistics

pytestmark = pytest.mark.django_db
MODEL = "deterministic-384"


@pytest.fixture
def gap(alice: Caller, settings: Any) -> MemoryRecord:
    """A memory saved while the embedder was unavailable."""
    settings.EMBEDDING_PROVIDER = "none"
    record = services.remember(alice, Remember(content="Saved while the embedder was away.")).record
    settings.EMBEDDING_PROVIDER = "deterministic"
    return record


def test_a_worker_embeds_memories_saved_during_an_outage(gap: MemoryRecord) -> None:
    assert indexing.run_batch("w") == (1, 0)
    gap.refresh_from_db()
    assert Passage.objects.filter(record=gap).count() == 1
    assert bytes(gap.embedding_text_hash or b"") == embedding.text_hash(gap.content)
    assert IndexJob.objects.get().status == JobStatus.SUCCEEDED


def test_an_embedded_memory_is_no_gap(fact: MemoryRecord) -> None:
    assert indexing.reconcile(MODEL) == 0


def test_missing_vectors_other_models_and_changed_texts_are_gaps(alice: Caller) -> None:
    ids = [services.remember(alice, Remember(content=f"A fact with number {n}.")).record.pk for n in range(4)]
    Passage.objects.filter(record=ids[0]).delete()
    MemoryRecord.objects.filter(pk=ids[1]).update(embedding_model="another")
    MemoryRecord.objects.filter(pk=ids[2]).update(content="Edited behind the service's back.")
    assert indexing.reconcile(MODEL) == 3
    assert set(IndexJob.objects.values_list("source_id", flat=True)) == set(ids[:3])


def test_a_run_compares_the_texts_of_one_part_of_the_rows(alice: Caller) -> None:
    """Missing vectors and other models are found at once, changed texts and lost passages within a day."""
    ids = [services.remember(alice, Remember(content=f"A fact with number {n}.")).record.pk for n in range(4)]
    MemoryRecord.objects.filter(pk=ids[0]).update(embedding_text_hash=None)
    MemoryRecord.objects.filter(pk=ids[1]).update(embedding_model="another")
    MemoryRecord.objects.filter(pk=ids[2]).update(content="Edited behind the service's back.")
    Passage.objects.filter(record=ids[3]).delete()
    parts = {indexing.due_keys(datetime.fromtimestamp(300 * n, UTC)) for n in range(indexing.PARTS)}
    others = [(first, last) for first, last in parts if not any(first <= pk <= last for pk in ids[2:])]
    assert indexing.reconcile(MODEL, within=others[0]) == 2
    for within in parts:
        if within not in others:
            indexing.reconcile(MODEL, within=within)
    assert set(IndexJob.objects.values_list("source_id", flat=True)) == set(ids)
    first, last = min(parts)[0], max(parts)[1]
    assert (first.int, last.int, len(parts)) == (0, 2**128 - 1, indexing.PARTS)


def test_archived_memories_need_no_vector(alice: Caller, gap: MemoryRecord) -> None:
    services.forget(alice, Forget(record_id=gap.pk))
    IndexJob.objects.all().delete()
    assert indexing.reconcile(MODEL) == 0


def test_a_memory_has_at_most_one_open_job(gap: MemoryRecord) -> None:
    indexing.enqueue("memory", [gap.pk, gap.pk], Trigger.RECONCILER)
    assert IndexJob.objects.count() == 1
    assert indexing.reconcile(MODEL) == 0


def test_a_failed_job_is_retried_later_and_keeps_its_error(
    gap: MemoryRecord, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.EMBEDDING_PROVIDER = "none"
    monkeypatch.setattr(indexing, "MAX_ATTEMPTS", 2)
    assert indexing.run_batch("w") == (0, 1)
    job = IndexJob.objects.get()
    assert (job.status, job.attempts) == (JobStatus.PENDING, 1)
    assert job.next_run_at > timezone.now() + timedelta(seconds=5)
    assert indexing.run_batch("w") == (0, 0)
    IndexJob.objects.update(next_run_at=timezone.now())
    indexing.run_batch("w")
    job.refresh_from_db()
    assert job.status == JobStatus.FAILED
    assert "no embedding provider" in job.last_error


def coverage_of_memories(model: str) -> index_status.Coverage:
    (coverage,) = [coverage for coverage in index_status.coverage(model) if coverage.kind == "memory"]
    return coverage


def test_a_later_success_resolves_the_failure(gap: MemoryRecord) -> None:
    IndexJob.objects.update(status=JobStatus.FAILED, completed_at=timezone.now() - timedelta(hours=1))
    assert coverage_of_memories(MODEL).verdict == "degraded"
    assert indexing.reconcile(MODEL) == 1
    indexing.run_batch("w")
    assert IndexJob.objects.filter(status=JobStatus.FAILED, resolved_at__isnull=False).count() == 1
    assert index_status.coverage(MODEL)[-1].verdict == "healthy"


def test_jobs_of_a_dead_worker_are_taken_over(gap: MemoryRecord) -> None:
    with indexing.worker() as worker:
        indexing.claim(worker)
        assert indexing.reap() == 0
    assert indexing.run_batch("w") == (0, 0)
    assert indexing.reap() == 1
    assert indexing.run_batch("w") == (1, 0)


def test_jobs_of_an_expired_lease_are_taken_over(gap: MemoryRecord) -> None:
    indexing.claim("elsewhere:1")
    assert indexing.reap() == 0
    IndexJob.objects.update(lease_expires_at=timezone.now() - timedelta(seconds=1))
    assert indexing.reap() == 1


def test_a_text_that_changes_during_embedding_gets_no_outdated_vector(gap: MemoryRecord) -> None:
    indexing.index("memory", {gap.pk: "the text of a moment ago"})
    gap.refresh_from_db()
    assert (Passage.objects.filter(record=gap).count(), gap.embedding_text_hash) == (0, None)


def test_another_models_vectors_do_not_count_as_indexed(fact: MemoryRecord) -> None:
    coverage = coverage_of_memories("another model")
    assert (coverage.expected, coverage.indexed, coverage.verdict) == (1, 0, "degraded")


def test_close_gaps_finds_and_embeds_gaps(gap: MemoryRecord) -> None:
    IndexJob.objects.all().delete()
    assert tasks.close_gaps() == "1 jobs opened, 1 closed, 0 put back or failed; 0 of 1 left"


def test_run_index_jobs_runs_due_jobs(gap: MemoryRecord) -> None:
    IndexJob.objects.all().delete()
    assert tasks.run_index_jobs() == "nothing is due"
    indexing.enqueue("memory", [gap.pk, gap.pk], Trigger.WRITE)
    assert IndexJob.objects.count() == 1
    assert tasks.run_index_jobs() == "1 closed, 0 put back or failed"


def test_a_run_ends_early_while_other_tasks_wait(gap: MemoryRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "SHARED_SECONDS", -1)
    other = OrmQ.objects.create(key="commonplace", payload="", lock=timezone.now() - timedelta(days=1))
    assert tasks.run_index_jobs() == "0 closed, 0 put back or failed"
    other.delete()
    assert tasks.run_index_jobs() == "1 closed, 0 put back or failed"


def test_a_worker_goes_on_after_embed_all_was_killed(alice: Caller, fact: MemoryRecord) -> None:
    MemoryRecord.objects.update(embedding_text_hash=None)
    with locks.exclusive(*indexing.EMBED_LOCK, Conflict("busy")):
        assert tasks.run_index_jobs() == "nothing is due"  # embed is at work
        with pytest.raises(Conflict, match="another `embed`"):
            call_command("embed", quiet=True)
    assert tasks.run_index_jobs() == "nothing is due"  # a write may be embedding it
    MemoryRecord.objects.update(updated_at=timezone.now() - timedelta(minutes=2))
    assert tasks.run_index_jobs() == "1 jobs opened, 1 closed, 0 put back or failed; 0 of 1 left"


def test_embed_that_is_stopped_hands_over_to_a_worker(
    gap: MemoryRecord, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(indexing, "index", lambda *texts: os.kill(os.getpid(), signal.SIGTERM))
    with pytest.raises(SystemExit):
        call_command("embed", quiet=True)
    assert "1 of 1 left" in capsys.readouterr().out
    assert OrmQ.objects.get().task["func"] == "memories.tasks.close_gaps"


def test_old_resolved_jobs_are_deleted_and_open_failures_kept(gap: MemoryRecord) -> None:
    long_ago = timezone.now() - timedelta(days=15)
    IndexJob.objects.update(status=JobStatus.FAILED, completed_at=long_ago)
    assert indexing.delete_closed_jobs() == 0
    IndexJob.objects.update(resolved_at=long_ago)
    assert indexing.delete_closed_jobs() == 1


def test_the_embed_command_embeds_all_gaps(gap: MemoryRecord, fact: MemoryRecord, capsys: Any) -> None:
    call_command("embed", quiet=True)
    assert "1 embedded with deterministic-384; none left" in capsys.readouterr().out


@pytest.mark.django_db(transaction=True)
def test_the_embed_command_changes_the_dimension(fact: MemoryRecord, settings: Any) -> None:
    settings.EMBEDDING_DIMENSIONS = 64
    embedding.reset()
    call_command("embed", dimension=64, quiet=True)
    fact.refresh_from_db()
    assert len(Passage.objects.get(record=fact).vector) == 64
    call_command("makemigrations", check=True, dry_run=True, verbosity=0)
    settings.EMBEDDING_DIMENSIONS = 384
    embedding.reset()
    call_command("embed", dimension=384, quiet=True)


def test_the_embed_command_rejects_a_dimension_other_than_the_setting(fact: MemoryRecord) -> None:
    with pytest.raises(CommandError, match="EMBEDDING_DIMENSIONS=64"):
        call_command("embed", dimension=64, quiet=True)


@pytest.mark.django_db(transaction=True)
def test_the_search_column_can_be_rebuilt_in_another_language(alice: Caller, fact: MemoryRecord, settings: Any) -> None:
    settings.TEXT_SEARCH_CONFIG = "simple"
    call_command("rebuild_search", verbosity=0)
    with connection.cursor() as cursor:
        cursor.execute("SELECT search::text FROM memory_records")
        assert "'refunds'" in cursor.fetchone()[0]
    settings.TEXT_SEARCH_CONFIG = "english"
    call_command("rebuild_search", verbosity=0)
    assert term_statistics.query_terms("refunds")[0].lexeme == "refund"


def test_a_text_that_changes_while_a_worker_embeds_it_is_embedded_later(
    gap: MemoryRecord, alice: Caller, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode = passages.encode

    def edit_meanwhile(texts: Any, **options: Any) -> Any:
        encoded = encode(texts, **options)
        monkeypatch.undo()
        settings.EMBEDDING_PROVIDER = "none"
        services.revise(alice, Revise(record_id=gap.pk, content="Edited while the worker was busy."))
        settings.EMBEDDING_PROVIDER = "deterministic"
        return encoded

    monkeypatch.setattr(passages, "encode", edit_meanwhile)
    assert indexing.run_batch("here:1") == (0, 1)
    job = IndexJob.objects.get()
    assert (job.status, job.last_error) == (JobStatus.PENDING, "the text changed while it was embedded")
    IndexJob.objects.update(next_run_at=timezone.now())
    assert indexing.run_batch("here:1") == (1, 0)
    gap.refresh_from_db()
    assert bytes(gap.embedding_text_hash or b"") == embedding.text_hash("Edited while the worker was busy.")
