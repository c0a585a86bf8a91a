"""Exact duplicates: an owner's active and stale facts in a persona with the same text.

Texts that differ only in case and white space count as the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from memories.database import prepared_statements
from memories.identity.caller import Caller
from memories.models import MemoryRecord
from memories.models.fields import ContentKey

LOCKS = """
    SELECT pg_advisory_xact_lock(h) FROM (
        SELECT DISTINCT hashtextextended(t, 0) AS h FROM unnest(%(turnstiles)s::text[]) AS t ORDER BY h
    ) locks"""
# An owner's active and stale facts in a persona with one of the texts. The oldest fact of each text comes last.
DUPLICATES_SQL = f"""
    created_by = %(owner)s AND persona = %(persona)s AND tier = '' AND status IN ('active', 'stale')
    AND content_key = ANY(ARRAY(
        SELECT {ContentKey.template % {"expressions": "t"}} FROM unnest(%(texts)s::text[]) AS t
    )) ORDER BY created_at DESC"""  # noqa: S608 - the template is a constant


def normalized_key(text: str) -> str:
    return " ".join(text.casefold().split())


def lock_duplicates(caller: Caller, texts: Sequence[str]) -> dict[str, MemoryRecord]:
    """Return the caller's active and stale facts in the active persona with one of these texts, by normalized key.

    The texts stay locked until the end of the transaction, so that concurrent calls can't store the same text twice.
    """
    # The statement takes the locks in the order of their hashes, which prevents deadlocks.
    prepared_statements.rows(
        LOCKS, {"turnstiles": sorted({f"{caller.email} {normalized_key(text)}" for text in texts})}
    )
    values = {"owner": caller.email, "persona": caller.persona, "texts": list(texts)}
    return {
        normalized_key(row.content): row
        for row in prepared_statements.instances(MemoryRecord, DUPLICATES_SQL, values, defer=["search"])
    }
