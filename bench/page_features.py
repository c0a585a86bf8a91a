"""Test data for bench/pages.py: contradictions, knowledge debt, suggestions, checks, citations, approvals and the like.

Each function makes what one feature keeps in proportion to the memories. A third or so belongs to the people who are
measured, so that their lists are full.
"""

# ruff: noqa: E501, S608 - expressions of SQL are easier to compare in one line each, and all of them are constants
from __future__ import annotations

from page_rows import ADMIN, CURATOR, Size, ago, dice, insert, key, one_of, owner, rare, sentence, urn

PEOPLE = (
    f"(CASE n % 6 WHEN 0 THEN {owner('7')} WHEN 1 THEN '{CURATOR}' WHEN 2 THEN '{ADMIN}' ELSE {owner('n % 500')} END)"
)
MD5 = "md5({})"


def fill(size: Size) -> None:
    for step in (contradictions, debt, suggestions, checks, citations, chains, approvals, subscriptions, the_rest):
        step(size)


def contradictions(size: Size) -> None:
    """Make pairs of memories, pairs of a memory and a description, and verdicts on some of them."""
    from knowledge.models import Contradiction, ContradictionScan, Settlement  # noqa: PLC0415 - after setup()

    pairs = (
        f"generate_series(0, {size.share(8_000) - 1}) n JOIN memory_records a ON a.id = {key('memory', 'n * 20 + 1')} AND a.status = 'active'"
        f" JOIN memory_records b ON b.id = {key('memory', 'n * 20 + 11')} AND b.status = 'active'"
    )
    insert(
        Contradiction, pairs, id=key("contradiction"), first_id="a.id", second_id="b.id", urn="''", first_key="a.content_key",
        second_key="b.content_key", reason="'column_1 ≠ column_2'", found_at=ago(101, 40_000),
    )  # fmt: skip
    described = (
        f"generate_series(0, {size.share(4_000) - 1}) n JOIN memory_records a ON a.id = {key('memory', 'n * 20 + 4')} AND a.status = 'active'"
        " JOIN catalog_entities e ON e.urn = a.entity_urns[1]"
    )
    insert(
        Contradiction, described, id=key("described"), first_id="a.id", urn="e.urn", first_key="a.content_key",
        second_key=MD5.format("e.description"), reason="'net ≠ gross'", found_at=ago(102, 40_000),
    )  # fmt: skip
    insert(
        Settlement, f"{pairs} AND n % 3 = 0", first_id="a.id", second_id="b.id", urn="''",
        first_key="a.content_key", second_key="b.content_key", verdict=one_of(("first", "second", "both", "neither"), 103),
        state="CASE n % 5 WHEN 0 THEN 'proposed' ELSE 'decided' END", by=PEOPLE, at=ago(104, 40_000), note="''",
    )  # fmt: skip
    insert(ContradictionScan, "memory_records m", record_id="m.id", at="now()")


def debt(size: Size) -> None:
    """Make debts of half of the entities in each of three scopes, uses of eight weeks, and questions to people."""
    from knowledge.models import EntityDebt, EntityUse, InterviewQuestion  # noqa: PLC0415 - after setup()

    insert(
        EntityDebt, f"generate_series(0, {size.entities - 1}) n, unnest(ARRAY['*', 'persona' || n % {size.personas}, 'persona' || (n / 3) % 5]) WITH ORDINALITY AS scope(persona, k)"
        f" WHERE scope.k < 3 OR (n / 3) % 5 <> n % {size.personas}",
        urn=urn("n"), persona="scope.persona", name="'table_' || n", entity_type="'dataset'", domain="'urn:li:domain:' || n % 40",
        calls=dice(110, 90), recalled=dice(111, 90), unanswered=rare(112, 20), memories=rare(113, 60), stale=rare(114, 9),
        stale_since=ago(115, 90_000), contested=rare(116, 5), questions=rare(117, 4), no_description=dice(118, 2), answers="0",
    )  # fmt: skip
    uses = size.share(150_000)
    insert(
        EntityUse, uses, urn=urn(f"n % {size.entities}"), persona=f"'persona' || n % {size.personas}", calls="1 + n % 7", unanswered="n % 3",
        owner=owner(f"n / {size.entities}"), week="date_trunc('week', now())::date - 7 * (n % 8)", recalled="n % 5",
    )  # fmt: skip
    insert(
        InterviewQuestion, f"generate_series(0, {size.share(4_000) - 1}) n", owner=PEOPLE, urn=urn(f"n % {size.entities}"),
        reason=one_of(("contested", "unanswered", "stale", "no_description"), 121), asked_by=f"'{CURATOR}'", created_at=ago(122, 40_000),
        state=one_of(("open", "open", "answered", "skipped", "unknown"), 123), decided_at="now()", since="now()",
    )  # fmt: skip


def suggestions(size: Size) -> None:
    from knowledge.models import FailedCall, Suggestion  # noqa: PLC0415 - after setup()

    insert(
        Suggestion, size.share(20_000), owner=PEOPLE, kind=one_of(("decision", "correction", "failed_statement", "open_question"), 130),
        text=f"{sentence(131, rare(132, size.entities))} || ' Suggestion ' || n", evidence="'as said'", entities=f"ARRAY[{urn(rare(132, size.entities))}]",
        source=one_of(("hook", "conversation", "recalls"), 133), text_key="md5('suggestion ' || n)", created_at=ago(134, 40_000),
        state=one_of(("waiting", "waiting", "kept", "discarded"), 135),
    )  # fmt: skip
    insert(
        FailedCall,
        size.share(2_000),
        connection="'token 1'",
        tool="'run_sql'",
        question=sentence(136, "n"),
        error="'no such column'",
    )


def checks(size: Size) -> None:
    from analysis.models import ActionItem, MemoryCheck  # noqa: PLC0415 - after setup()

    insert(
        MemoryCheck, f"generate_series(0, {size.share(10_000) - 1}) n JOIN memory_records m ON m.id = {key('memory', 'n * 20 + 10')}",
        record_id="m.id", author="m.created_by", source="'warehouse'", sql="'SELECT count(*) FROM orders'", expects="'at_least'", value="'1'::jsonb",
        low="NULL", high="NULL", digest="md5(n::text)", state=one_of(("not_run", "passed", "passed", "failed"), 140), checked_at="now()",
        failed_at=f"CASE WHEN {dice(140, 4)} = 3 THEN now() END",
    )  # fmt: skip
    insert(
        ActionItem, "analysis_actions a, generate_series(0, 49) k", action_id="a.id", record_id="k::text", before="'{}'::jsonb",
        outcome="'succeeded'", at="now()",
    )  # fmt: skip


def citations(size: Size) -> None:
    from memories.models import Citation, CitingDocument  # noqa: PLC0415 - after setup()

    documents = size.share(3_000)
    insert(
        CitingDocument, documents, id=key("document"), created_by=PEOPLE, title="'Report ' || n", address="'https://reports.bench.example/' || n",
        is_shared="n % 2 = 0", created_at=ago(150, 90_000),
    )  # fmt: skip
    insert(
        Citation, f"generate_series(0, {documents * 10 - 1}) n JOIN memory_records m ON m.id = {key('memory', 'n * 5 + 3')}",
        document_id=key("document", "n / 10"), record_id="m.id", cited_at=ago(151, 90_000), content_key="m.content_key",
        reason="CASE WHEN n % 7 = 0 THEN 'edited' ELSE '' END", outdated_at="CASE WHEN n % 7 = 0 THEN now() END",
    )  # fmt: skip


def chains(size: Size) -> None:
    """Extend one of ten corrections to chains of five corrections each."""
    from memories.models import MemoryRecord  # noqa: PLC0415 - after setup()

    copied = {
        name: f"m.{name}"
        for name in ("created_by", "persona", "visibility", "dimension", "category", "entity_urns", "tags", "language")
    }
    number = f"generate_series(0, {size.memories // 500 - 1}) n"
    for step in range(1, 5):
        before = key("memory", "n * 500 + 3") if step == 1 else key(f"correction {step - 1}")
        insert(
            MemoryRecord, f"{number} JOIN memory_records m ON m.id = {before}", id=key(f"correction {step}"), supersedes_id="m.id",
            content=f"m.content || ' Corrected ({step}).'", created_at=f"least(m.created_at + interval '{step} days', now())",
            updated_at="now()", embedding_model="'bench'", embedding_text_hash="'\\x00'::bytea", entities_detected_at="now()",
            status="'active'" if step == 4 else "'superseded'", superseded_by="NULL" if step == 4 else key(f"correction {step + 1}"),
            superseded_at="NULL" if step == 4 else "now()", **copied,
        )  # fmt: skip
    from django.db import connection  # noqa: PLC0415 - after setup()

    with connection.cursor() as cursor:
        cursor.execute(
            f"UPDATE memory_records SET status = 'superseded', superseded_by = {key('correction 1')}, superseded_at = now()"
            f" FROM {number} WHERE id = {key('memory', 'n * 500 + 3')} AND EXISTS (SELECT FROM memory_records c WHERE c.id = {key('correction 1')})"
        )


def approvals(size: Size) -> None:
    """Let some changesets wait for a second approval, and make rules that assign insights."""
    from knowledge.models import ApprovalRule, AssignmentRule, CaveatWaiver, Changeset, ChangesetApproval  # noqa: PLC0415
    from memories.models import Report  # noqa: PLC0415 - after setup()

    waiting = size.share(400)
    insert(
        Changeset, f"generate_series(0, {waiting - 1}) n JOIN memory_records m ON m.id = {key('memory', 'n * 50 + 10')}",
        id=key("waiting changeset"), created_at=ago(160, 40_000), entity_urn="m.entity_urns[1]", persona="m.persona", personas="ARRAY[m.persona]",
        catalog="'local'", state="'waiting'", insight_ids="jsonb_build_array(replace(m.id::text, '-', ''))", applied_by=f"'{CURATOR}'",
    )  # fmt: skip
    insert(
        ChangesetApproval, f"changesets c JOIN generate_series(0, {waiting - 1}) n ON c.id = {key('waiting changeset')}", changeset_id="c.id",
        by=f"'{CURATOR}'", at="now()", verdict="'approved'", notes="''",
    )  # fmt: skip
    insert(ApprovalRule, 1, readers="50")
    insert(
        AssignmentRule, size.share(200), persona="'persona' || n % 20", entity_urn=urn("n"), assignee=f"'{CURATOR}'", target_days="5",
        created_by=f"'{ADMIN}'", domain_urn="''", category="''",
    )  # fmt: skip
    insert(
        CaveatWaiver, f"generate_series(0, {size.share(400) - 1}) n JOIN memory_records m ON m.id = {key('memory', 'n * 30 + 5')}",
        record_id="m.id", urn="m.entity_urns[1]", column="''", reason="'Known to all readers of the table'", by=f"'{CURATOR}'", content_key="m.content_key",
    )  # fmt: skip
    insert(
        Report, f"generate_series(0, {size.share(20_000) - 1}) n JOIN memory_records m ON m.id = {key('memory', 'n * 9 + 1')}",
        record_id="m.id", by=owner(dice(161, size.owners)), verdict=one_of(("used", "used", "wrong", "outdated"), 162), note="''",
        day="current_date - n % 60", at=ago(163, 90_000), content_key="m.content_key",
    )  # fmt: skip


def subscriptions(size: Size) -> None:
    from memory_project.exchange.subscriptions.models import Subscription, SubscriptionItem, SubscriptionRun  # noqa: PLC0415

    count = size.share(60)
    insert(
        Subscription, count, id=key("subscription"), created_by=PEOPLE, name="'Notes ' || n", kind="'folder'", location="'notes'",
        persona="'persona0'", interval_min="60",
    )  # fmt: skip
    insert(
        SubscriptionRun, f"generate_series(0, {count * 40 - 1}) n", subscription_id=key("subscription", "n / 40"), owner=PEOPLE.replace("n %", "(n / 40) %"),
        state="'done'", started_at=ago(170, 40_000), finished_at="now()",
    )  # fmt: skip
    insert(
        SubscriptionItem, f"generate_series(0, {count * 200 - 1}) n", subscription_id=key("subscription", "n / 200"), owner=PEOPLE.replace("n %", "(n / 200) %"),
        path="'notes/' || n || '.md'", key="'notes/' || n || '.md'", state=one_of(("kept", "kept", "kept", "conflicting"), 171),
    )  # fmt: skip


def the_rest(size: Size) -> None:
    """Make column lineage, proposals to merge or to split, periods, purposes, hand-overs and found copies of erased texts."""
    from knowledge.graph.models import UpkeepProposal  # noqa: PLC0415 - after setup()
    from knowledge.models import ColumnEdge  # noqa: PLC0415 - after setup()
    from memories.conversation.models import MergeProposal  # noqa: PLC0415 - after setup()
    from memories.models import HandOver, Period, Purpose, SameWords  # noqa: PLC0415 - after setup()

    insert(
        ColumnEdge, f"generate_series(1, {size.entities - 1}) n, generate_series(0, 4) c", downstream=urn("n"), downstream_column="'column_' || c",
        upstream=urn("n / 4"), upstream_column="'column_' || c", said_by=urn("n"),
    )  # fmt: skip
    pairs = f"generate_series(0, {size.share(500) - 1}) n JOIN memory_records a ON a.id = {key('kept', 'n * 2')} JOIN memory_records b ON b.id = {key('kept', 'n * 2 + 1')}"
    insert(MergeProposal, pairs, record_id="a.id", target_id="b.id", cosine="0.9", text="a.content")
    insert(
        UpkeepProposal, f"generate_series(0, {size.share(200) - 1}) n JOIN graph_entities e ON e.id = {key('node')}", entity_id="e.id", kind="'split'",
        score="0.8",
    )  # fmt: skip
    insert(Period, 40, name="'Period ' || n", note="''")
    insert(Purpose, 40, name="'purpose_' || n", title="'Purpose ' || n")
    insert(
        HandOver,
        size.share(200),
        from_owner=owner("n % 500"),
        to_owner=owner("(n + 1) % 500"),
        by=f"'{ADMIN}'",
        at=ago(180, 90_000),
        moved="'{}'::jsonb",
        stays="'{}'::jsonb",
    )
    insert(
        SameWords,
        "memory_tombstones t",
        tombstone_id="t.record_id",
        place="'memory.content'",
        row="t.record_id::text",
        version="'x'",
    )
