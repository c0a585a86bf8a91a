"""Test data for bench/pages.py: people, a catalog, memories, insights and the rows that come with them."""

# ruff: noqa: E501, S608 - expressions of SQL are easier to compare in one line each, and all of them are constants
from __future__ import annotations

import page_features
from page_rows import (
    ADMIN,
    CURATOR,
    STATES,
    Size,
    ago,
    dice,
    insert,
    key,
    one_of,
    owner,
    rare,
    sentence,
    table_name,
    text_array,
    urn,
)


def fill(size: Size) -> None:
    """Fill an empty database. It must be called as a role that row-level security does not bind."""
    from django.db import connection  # noqa: PLC0415 - after setup()

    from memories.retrieval import term_statistics, vector_index  # noqa: PLC0415 - after setup()

    for step in (people, catalog, memories, corrections, insights, usage, knowledge_graph, conversations, work):
        step(size)
    page_features.fill(size)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    vector_index.train()
    term_statistics.refresh()


def people(size: Size) -> None:
    from django.contrib.auth.models import Group  # noqa: PLC0415 - after setup()

    from foundation.people.models import Persona, PersonaMembership  # noqa: PLC0415 - after setup()
    from memory_project.models import ApiToken, SavedView, User  # noqa: PLC0415 - after setup()

    insert(Persona, size.personas, name="'persona' || n", title="'Persona ' || n")
    insert(User, size.owners, email=owner(), name="'Person ' || n", password="'!'")
    curator = User.objects.create_user(CURATOR, None, is_staff=True, name="Casey Curator")
    curator.groups.add(Group.objects.get(name="Curators"))
    admin = User.objects.create_superuser(ADMIN, None, name="Ada Admin")
    personas = list(Persona.objects.filter(name__startswith="persona").order_by("pk"))
    held = personas if size.is_skewed else personas[:5]
    for person, names in ((curator, held), (admin, personas[:1])):
        PersonaMembership.objects.bulk_create(
            PersonaMembership(user=person, persona=persona, is_default=index == 0)
            for index, persona in enumerate(names)
        )
    numbered = (
        f"(SELECT id, substring(email FROM '[0-9]+')::int AS n FROM {User._meta.db_table} WHERE email LIKE 'owner%') u"
        f" JOIN (SELECT id AS persona_id, substring(name FROM '[0-9]+')::int AS p FROM {Persona._meta.db_table}"
        " WHERE name LIKE 'persona%') p ON "
    )
    own = f"p.p = {persona_of(size)} OR p.p = (n * 7 + 1) % {size.personas}"
    insert(
        PersonaMembership,
        numbered + own,
        user_id="u.id",
        persona_id="p.persona_id",
        is_default=f"p.p = {persona_of(size)}",
    )
    insert(
        ApiToken,
        numbered.partition(" JOIN ")[0],
        user_id="u.id",
        name="'Laptop'",
        prefix="'cpt_' || n",
        digest=digest("token"),
    )
    views = [
        SavedView(person=person, name="Stock", page="my-knowledge", query="tag=tag3") for person in (curator, admin)
    ]
    views += [
        SavedView(person=person, name="Waiting long", page="review-list", query="age=7%2B")
        for person in (curator, admin)
    ]
    SavedView.objects.bulk_create(views)


def digest(kind: str) -> str:
    return f"encode(sha256(convert_to('{kind}' || n, 'UTF8')), 'hex')"


def persona_of(size: Size, n: str = "n") -> str:
    """Return SQL for the number of the persona of owner n."""
    return (
        f"(CASE WHEN {n} < 400 THEN 0 ELSE {n} % {size.personas} END)" if size.is_skewed else f"({n} % {size.personas})"
    )


def catalog(size: Size) -> None:
    from knowledge.models import CatalogAspect, CatalogEntity, EntityState, LineageEdge  # noqa: PLC0415

    columns = "(SELECT jsonb_agg(jsonb_build_object('fieldPath', 'column_' || c, 'nullable', true, 'nativeDataType', 'VARCHAR', 'description', 'Column ' || c)) FROM generate_series(0, 19) c)"
    insert(
        CatalogAspect, size.entities, urn=urn("n"), aspect="'datasetProperties'", version="1",
        value=f"jsonb_build_object('name', 'table_' || n, 'qualifiedName', {table_name('n')}, 'description', {sentence(70, 'n')})",
    )  # fmt: skip
    insert(
        CatalogAspect, size.entities, urn=urn("n"), aspect="'schemaMetadata'", version="1",
        value=f"jsonb_build_object('schemaName', {table_name('n')}, 'fields', {columns})",
    )  # fmt: skip
    insert(
        CatalogAspect, f"generate_series(1, {size.entities - 1}) n", urn=urn("n"), aspect="'upstreamLineage'", version="1",
        value=f"jsonb_build_object('upstreams', jsonb_build_array(jsonb_build_object('dataset', {urn('n / 4')})))",
    )  # fmt: skip
    insert(
        CatalogEntity, size.entities, urn=urn("n"), entity_type="'dataset'", name="'table_' || n",
        qualified_name=table_name("n"), description=sentence(70, "n"), platform="'snowflake'",
        columns="(SELECT string_agg('column_' || c, ' ') FROM generate_series(0, 19) c)",
    )  # fmt: skip
    insert(
        LineageEdge,
        f"generate_series(1, {size.entities - 1}) n",
        downstream=urn("n"),
        upstream=urn("n / 4"),
        said_by=urn("n"),
    )
    insert(EntityState, size.entities, catalog="'local'", urn=urn("n"), fingerprint=digest("state"))


def memories(size: Size) -> None:
    from memories.models import Category, Dimension, MemoryRecord, MemoryRevision, Verification  # noqa: PLC0415

    # a correction (n % 50 = 3) has the owner of the memory that it corrects
    number = "(CASE WHEN n % 50 = 3 THEN n - 1 ELSE n END)"
    owner_n = (
        f"(CASE WHEN {dice(1, 4, number)} > 0 THEN 0 ELSE {dice(2, size.owners, number)} END)"
        if size.is_skewed
        else dice(2, size.owners, number)
    )
    entity = rare(3, size.entities)
    shares = (
        ("everyone", "everyone", "everyone", "persona", "private")
        if size.is_skewed
        else ("persona",) * 8 + ("private", "everyone")
    )
    first_tag = (
        f"(CASE WHEN {dice(5, 2)} = 0 THEN 0 ELSE {rare(6, size.tags)} END)" if size.is_skewed else rare(6, size.tags)
    )
    insert(
        MemoryRecord, size.memories, id=key("memory"), created_at=ago(4, 600_000), updated_at=ago(4, 600_000),
        created_by=owner(owner_n), persona=f"'persona' || {persona_of(size, owner_n)}", visibility=one_of(shares, 7),
        dimension=one_of(Dimension.values, 8), category=one_of(Category.values, 9),
        content=f"{sentence(10, entity)} || '. ' || {sentence(20, entity)} || '. Note ' || n || '.'",
        tags=f"ARRAY['tag' || {first_tag}, 'tag' || {dice(12, size.tags)}]::varchar[]",
        entity_urns=f"ARRAY[{urn(entity)}]", entities_detected_at="now()", embedding_model="'bench'",
        embedding_text_hash="'\\x00'::bytea", language="'en'",
        status="CASE WHEN n % 100 = 7 THEN 'stale' WHEN n % 40 = 9 THEN 'archived' WHEN n % 50 = 2 THEN 'superseded' ELSE 'active' END",
        stale_at=f"CASE WHEN n % 100 = 7 THEN {ago(13, 50_000)} END",
        stale_reason=f"CASE WHEN n % 100 = 7 THEN {table_name(entity)} || ': the column column_3 was removed' ELSE '' END",
        superseded_by=f"CASE WHEN n % 50 = 2 THEN {key('memory', 'n + 1')} END",
        superseded_at="CASE WHEN n % 50 = 2 THEN now() END",
        last_verified_at=f"CASE WHEN n % 10 = 1 THEN {ago(14, 90_000)} END",
    )  # fmt: skip
    insert(
        MemoryRevision, size.memories // 10, record_id=key("memory", "n * 10 + 1"), valid_from="now() - interval '9 days'",
        valid_to=ago(15, 9_000), content=sentence(16, "n"), status="'active'", visibility="'persona'",
        change="'revise'", changed_by=owner("n % 500"),
    )  # fmt: skip
    insert(
        Verification, size.memories // 10, record_id=key("memory", "n * 10 + 1"), by=owner("n % 500"), at=ago(14, 90_000),
        version="'x'", is_own="false",
    )  # fmt: skip
    passages()


def passages() -> None:
    """Give each memory one passage. Its vector is the sum of two of 2,000 random vectors."""
    from django.db import connection  # noqa: PLC0415 - after setup()

    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE TEMP TABLE pool AS SELECT n, (SELECT array_agg(random() - 0.5) FROM generate_series(1, 384) WHERE n = n)::vector AS v"
            " FROM generate_series(0, 1999) n"
        )
        cursor.execute(
            "INSERT INTO memory_passages (record_id, start, stop, vector, short_term, owner, persona, visibility)"
            " SELECT m.id, 0, length(m.content), l2_normalize(a.v + b.v), m.tier = 'stm', m.created_by, m.persona, m.visibility"
            " FROM (SELECT *, abs(hashtext(content)) AS h FROM memory_records) m"
            " JOIN pool a ON a.n = h % 2000 JOIN pool b ON b.n = (h / 2000) % 2000"
        )


def corrections(size: Size) -> None:
    from django.db import connection  # noqa: PLC0415 - after setup()

    with connection.cursor() as cursor:
        cursor.execute(
            f"UPDATE memory_records SET supersedes_id = {key('memory', 'n - 1')}"
            f" FROM generate_series(3, {size.memories - 1}, 50) n WHERE id = {key('memory')} AND status <> 'archived'"
        )


def insights(size: Size) -> None:
    from knowledge.models import Change, Changeset, Decision, EntityBaseline, Insight  # noqa: PLC0415

    every = 10  # memory 0, 10, 20, … has an insight
    state = f"({text_array(STATES)})[1 + n % 5]"
    memory = key("memory", f"n * {every}")
    is_reviewed = "n % 5 > 1"
    applied = size.insights // 5
    joined = (
        f"generate_series(0, {size.insights - 1}) n JOIN memory_records m ON m.id = {memory} AND m.status <> 'archived'"
    )
    changesets = f"generate_series(0, {applied - 1}) n JOIN memory_records m ON m.id = {key('memory', 'n * 50 + 40')}"
    insert(
        Changeset, changesets, id=key("changeset"), created_at=ago(30, 90_000), entity_urn="m.entity_urns[1]",
        persona="m.persona", personas="ARRAY[m.persona]", catalog="'local'", state="'applied'",
        insight_ids="jsonb_build_array(replace(m.id::text, '-', ''))", applied_by=f"'{CURATOR}'", finished_at="now()",
    )  # fmt: skip
    insert(
        Change, changesets, changeset_id=key("changeset"), position="0", request="0", change_type="'update_description'",
        urn="m.entity_urns[1]", aspect="'editableSchemaMetadata'", operation="'add'", had_before="false",
        path="""'["editableSchemaFieldInfo", "column_1", "description"]'::jsonb""", outcome="'landed'",
        written="to_jsonb(m.content)", before="NULL",
    )  # fmt: skip
    insert(
        Insight, joined, record_id="m.id", state=state, owner="m.created_by", persona="m.persona", visibility="m.visibility",
        suggested_actions="jsonb_build_array(jsonb_build_object('action_type', 'update_description', 'target', 'column:column_1', 'detail', m.content))",
        reviewed_by=f"CASE WHEN {is_reviewed} THEN '{CURATOR}' ELSE '' END",
        reviewed_at=f"CASE WHEN {is_reviewed} THEN {ago(31, 90_000)} END",
        changeset_id=f"CASE WHEN n % 5 = 4 THEN {key('changeset', 'n / 5')} END",
        applied_by=f"CASE WHEN n % 5 = 4 THEN '{CURATOR}' ELSE '' END",
        applied_at=f"CASE WHEN n % 5 = 4 THEN {ago(31, 90_000)} END",
        question_at="CASE WHEN n % 5 = 0 AND n % 20 = 0 THEN now() END",
    )  # fmt: skip
    insert(
        Decision, f"{joined} WHERE {is_reviewed}", insight_id="m.id", by=f"'{CURATOR}'", at=ago(31, 90_000),
        kind="CASE WHEN n % 5 = 3 THEN 'rejected' ELSE 'approved' END",
    )  # fmt: skip
    shape = """'{"column_1": ["VARCHAR", true], "column_3": ["VARCHAR", true]}'::jsonb"""
    insert(
        EntityBaseline, "memory_records m WHERE m.status IN ('stale', 'active')", record_id="m.id", urn="m.entity_urns[1]",
        catalog="'local'", existed="true", columns=shape, replaced="NULL",
        hint="CASE WHEN hashtext(m.content) % 50 = 0 THEN 'column_1 was changed' ELSE '' END",
    )  # fmt: skip


def usage(size: Size) -> None:
    from memories.models import Batch, Feedback, Impression, Tombstone  # noqa: PLC0415 - after setup()
    from memory_project.models import AuditEvent, Notification, User  # noqa: PLC0415 - after setup()

    insert(
        AuditEvent, size.share(100_000), at=ago(40, 43_000), email=owner(dice(41, size.owners)), persona="'persona1'",
        channel="'mcp-http'", tool=one_of(("memory_recall", "memory_manage", "capture_insight", "catalog_search"), 42),
        outcome=f"CASE WHEN {dice(43, 30)} = 0 THEN 'error' ELSE 'ok' END", duration_ms=dice(44, 90),
        record_ids=f"ARRAY[{key('memory', dice(45, size.memories))}]",
    )  # fmt: skip
    insert(
        Notification, f"generate_series(0, {size.share(20_000) - 1}) n JOIN {User._meta.db_table} u ON u.email = {owner(dice(46, size.owners))}"
        f" OR (u.is_staff AND n % 10 = 0)",
        person_id="u.id", kind=one_of(("approved", "rejected", "applied", "stale", "needs_more"), 47),
        record_id=key("memory", f"{dice(48, size.insights)} * 10"), by=f"'{CURATOR}'", at=ago(49, 90_000),
        read_at=f"CASE WHEN {dice(39, 3)} > 0 THEN now() END",
    )  # fmt: skip
    insert(
        Impression, size.share(200_000), record_id=key("memory", rare(50, size.memories)), connection="'token 1'",
        to=owner(dice(51, size.owners)), tool="'memory_recall'", version="'x'", at=ago(52, 43_000),
    )  # fmt: skip
    insert(
        Feedback, size.share(20_000), record_id=key("memory", "n * 5 + 3"), by=owner(dice(53, size.owners)),
        verdict="CASE WHEN n % 4 = 0 THEN 'wrong' ELSE 'useful' END", counts="true", at=ago(54, 90_000),
    )  # fmt: skip
    for email, count in ((f"'{CURATOR}'", 20), (f"'{ADMIN}'", 20), (owner("7"), 20)):
        insert(
            Batch, count, created_at=ago(55, 90_000), created_by=email, act="'verify'", finished_at="now()",
            unit_ids=f"(SELECT array_agg({key('memory', 'k')}) FROM generate_series(0, 999) k WHERE n = n)",
            outcomes="(SELECT jsonb_agg(''::text) FROM generate_series(0, 999) k WHERE n = n)", seen="'{}'::jsonb",
        )  # fmt: skip
    insert(
        Tombstone, size.share(2_000), record_id="gen_random_uuid()", created_by=owner(dice(56, size.owners)),
        persona="'persona1'", erased_by=f"'{ADMIN}'",
    )  # fmt: skip


def knowledge_graph(size: Size) -> None:
    """Make one graph for each of the people who are measured."""
    from knowledge.graph.models import Entity, Graph, Observation, Relation  # noqa: PLC0415 - after setup()

    nodes = size.share(3_000)
    for number, email in enumerate((owner("7"), f"'{CURATOR}'", f"'{ADMIN}'")):
        offset = number * nodes
        insert(Graph, 1, id=key(f"graph {number}"), created_by=email, persona="'persona0'", last_number=f"{9 * nodes}")
        insert(
            Entity, nodes, id=key("node", f"n + {offset}"), graph_id=key(f"graph {number}", "0"), number="n", name=table_name("n"),
            entity_type=one_of(("Table", "Person", "Metric", "Team", "Report"), 60), folded=table_name("n"),
            urn=f"CASE WHEN n % 3 = 0 THEN {urn('n')} ELSE '' END", access_count=rare(61, 90), created_at=ago(62, 90_000),
        )  # fmt: skip
        insert(
            Observation, 3 * nodes, entity_id=key("node", f"n / 3 + {offset}"), graph_id=key(f"graph {number}", "0"),
            number=f"n + {nodes}", text=sentence(63, "n / 3"), created_at=ago(64, 90_000),
        )  # fmt: skip
        insert(
            Relation, f"generate_series(1, {nodes - 1}) n", graph_id=key(f"graph {number}", "0"), number=f"n + {5 * nodes}",
            source_id=key("node", f"n + {offset}"), target_id=key("node", f"{rare(65, 1_000_000)} % n + {offset}"),
            relation_type=one_of(("feeds", "owns", "measures"), 66), created_at=ago(64, 90_000),
        )  # fmt: skip


def conversations(size: Size) -> None:
    """Make conversations of six turns. The people who are measured have one of ten each."""
    from memories.conversation.models import CachedAnswer, CacheUse, UserDecision  # noqa: PLC0415 - after setup()
    from memories.models import MemoryRecord  # noqa: PLC0415 - after setup()

    count = size.share(2_000)
    speaker = f"(CASE n / 6 % 10 WHEN 0 THEN {owner('7')} WHEN 1 THEN '{CURATOR}' WHEN 2 THEN '{ADMIN}' ELSE {owner('(n / 6) % ' + str(size.owners))} END)"
    entity = rare(3, size.entities, "(n / 6)")
    common = {
        "created_by": speaker, "persona": "'persona0'", "visibility": "'private'", "conversation_id": "'talk ' || n / 6",
        "embedding_model": "'bench'", "embedding_text_hash": "'\\x00'::bytea", "entities_detected_at": "now()",
        "language": "'en'", "metadata": "'{}'::jsonb", "enrichment_status": "'done'",
    }  # fmt: skip
    insert(
        MemoryRecord, count * 6, id=key("turn"), content=f"{sentence(80, entity)} || ' (turn ' || n || ').'", tier="'stm'",
        role="CASE n % 2 WHEN 0 THEN 'human' ELSE 'ai' END", thread_position="n % 6", created_at=ago(81, 90_000, "(n / 6)"),
        expires_at="now() + interval '20 days'", **common,
    )  # fmt: skip
    insert(
        MemoryRecord, count, id=key("kept"), content=f"{sentence(82, entity)} || ' (kept ' || n || ').'", tier="'ltm'",
        derived_from=key("turn", "n * 6"), created_at=ago(83, 90_000),
        **{**common, "created_by": speaker.replace("n / 6", "n"), "conversation_id": "'talk ' || n"},
    )  # fmt: skip
    insert(
        CachedAnswer, count, created_by=speaker.replace("n / 6", "n"), query=sentence(84, "n"), response=sentence(85, "n"),
        vector="NULL", expires_at="now() + interval '5 days'", created_at=ago(86, 9_000),
    )  # fmt: skip
    insert(
        UserDecision, count, created_by=speaker.replace("n / 6", "n"), key="'key ' || n", value=sentence(87, "n"),
    )  # fmt: skip
    insert(CacheUse, 30, created_by=owner("7"), day="current_date - n::int", hits="n", misses="3")


def work(size: Size) -> None:
    """Make analyses, imports, exports, webhooks and jobs of the people who are measured and of others."""
    from analysis.models import Action, Finding, IngestedRecord, Session  # noqa: PLC0415 - after setup()
    from memories.models import IndexJob  # noqa: PLC0415 - after setup()
    from memory_project.exchange.exports.models import Export  # noqa: PLC0415 - after setup()
    from memory_project.exchange.imports.models import Import, ImportRow  # noqa: PLC0415 - after setup()
    from memory_project.notifications.webhooks.models import Delivery, Endpoint  # noqa: PLC0415 - after setup()

    person = f"(CASE n % 4 WHEN 0 THEN {owner('7')} WHEN 1 THEN '{CURATOR}' WHEN 2 THEN '{ADMIN}' ELSE {owner('n % 500')} END)"
    analyses = size.share(300)
    insert(
        Session,
        analyses,
        analysis_id="'analysis ' || n",
        owner=person,
        persona="'persona0'",
        last_used_at=ago(90, 9_000),
    )
    sessions = f"(SELECT id, substring(analysis_id FROM '[0-9]+')::int AS n FROM {Session._meta.db_table}) s, generate_series(0, 99) k"
    insert(
        IngestedRecord, sessions, session_id="s.id", model="'orders'", record_id="k::text", expires_at="now() + interval '1 day'",
        data="jsonb_build_object('id', k, 'total', k * 3.5, 'status', 'open')",
    )  # fmt: skip
    insert(
        Finding, f"{sessions} WHERE k < 10", session_id="s.id", finding=sentence(91, "n"), category="'note'", model="'orders'",
        created_at=ago(92, 9_000),
    )  # fmt: skip
    insert(
        Action, analyses, owner=person, analysis_id="'analysis ' || n", model="'orders'", kind="'update'", state="'done'",
        created_at=ago(93, 9_000), finished_at="now()",
    )  # fmt: skip
    insert(
        Import, size.share(200), id=key("import"), created_by=person, persona="'persona0'", file_name="'notes-' || n || '.csv'",
        format="'csv'", state="'parsed'", rows_read="100", is_read="true", created_at=ago(94, 9_000),
    )  # fmt: skip
    insert(
        ImportRow, f"generate_series(0, {size.share(200) * 100 - 1}) n", of_id=key("import", "n / 100"), owner=person.replace("n %", "(n / 100) %"),
        number="n % 100", place="'line ' || n % 100", kind="'memory'", outcome="'new'",
        data=f"jsonb_build_object('content', {sentence(95, '(n % 40)')})",
    )  # fmt: skip
    insert(
        Export, size.share(200), created_by=person, scope="'person'", format="'jsonl'", state="'done'", rows_done="100",
        rows_total="100", size="90000", created_at=ago(96, 1_000), finished_at="now()", expires_at="now() + interval '1 day'",
    )  # fmt: skip
    insert(
        Endpoint, 40, id=key("endpoint"), owner=person, set_up_by=person, name="'Endpoint ' || n", url="'https://hooks.bench.example/' || n",
        kinds="ARRAY['memory.changed']", nonce="md5(n::text)", secret_digest="'x'",
    )  # fmt: skip
    insert(
        Delivery, size.share(20_000), endpoint_id=key("endpoint", "n % 40"), kind="'memory.created'", record_id=key("memory"),
        created_at=ago(97, 40_000), state=one_of(("delivered", "delivered", "failed"), 98), attempts="1", status_code="200",
    )  # fmt: skip
    insert(
        IndexJob, size.share(20_000), source_kind="'memory'", source_id=key("memory"), trigger_kind="'write'",
        status=one_of(("succeeded",) * 20 + ("failed",), 99), created_at=ago(89, 40_000), completed_at="now()",
    )  # fmt: skip
