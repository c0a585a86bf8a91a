"""Labels of fields, and of values that are stored in English: states, categories, outcomes, what happened to a memory.

The terms among them are those of the glossary in docs/architecture.md, and pages say nothing else for them.
"""

from __future__ import annotations

from typing import Any

from django.utils.functional import Promise
from django.utils.text import capfirst
from django.utils.translation import gettext, gettext_lazy

from memories.models import MemoryRecord, Visibility

# Labels of the fields of a memory.
FIELDS: dict[str, str | Promise] = {
    "status": gettext_lazy("Status"),
    "dimension": gettext_lazy("Kind"),
    "category": gettext_lazy("Category"),
    "confidence": gettext_lazy("Confidence"),
    "visibility": gettext_lazy("Readers"),
    "persona": gettext_lazy("Persona"),
    "entity_urns": gettext_lazy("Catalog entities"),
    "related_columns": gettext_lazy("Columns"),
    "tags": gettext_lazy("Tags"),
    "metadata": gettext_lazy("Metadata"),
}

# Who may read a memory, from few to many.
READERS: dict[str, str | Promise] = {
    "private": gettext_lazy("Private"),
    "persona": gettext_lazy("Persona"),
    "everyone": gettext_lazy("Everyone"),
}
READERS_HELP = gettext_lazy("Private: only the owner. Persona: all who hold it. Everyone: all who have an account.")

# In lower case, because most are shown in badges and within lines.
LABELS: dict[str, str | Promise] = {
    "active": gettext_lazy("active"),
    "stale": gettext_lazy("stale"),
    "superseded": gettext_lazy("superseded"),
    "archived": gettext_lazy("archived"),
    "private": gettext_lazy("private"),
    "persona": gettext_lazy("persona"),
    "everyone": gettext_lazy("everyone"),
    "correction": gettext_lazy("correction"),
    "business_context": gettext_lazy("business context"),
    "data_quality": gettext_lazy("data quality"),
    "usage_guidance": gettext_lazy("usage guidance"),
    "relationship": gettext_lazy("relationship"),
    "enhancement": gettext_lazy("enhancement"),
    "general": gettext_lazy("general"),
    "uncategorized": gettext_lazy("uncategorized"),
    "high": gettext_lazy("high"),
    "medium": gettext_lazy("medium"),
    "low": gettext_lazy("low"),
    "user": gettext_lazy("user"),
    "agent_discovery": gettext_lazy("agent discovery"),
    "enrichment_gap": gettext_lazy("enrichment gap"),
    "automation": gettext_lazy("automation"),
    "lineage_event": gettext_lazy("lineage event"),
    "note": gettext_lazy("note"),
    "import": gettext_lazy("import"),
    "knowledge": gettext_lazy("knowledge"),
    "event": gettext_lazy("event"),
    "entity": gettext_lazy("entity"),
    "preference": gettext_lazy("preference"),
    "stm": gettext_lazy("short-term"),
    "ltm": gettext_lazy("long-term"),
    "useful": gettext_lazy("useful"),
    "wrong": gettext_lazy("wrong"),
    "pending": gettext_lazy("pending"),
    "approved": gettext_lazy("approved"),
    "applied": gettext_lazy("applied"),
    "rejected": gettext_lazy("rejected"),
    "taken_back": gettext_lazy("decision undone"),
    "appealed": gettext_lazy("appealed"),
    "edit_approved": gettext_lazy("edit approved"),
    "edit_rejected": gettext_lazy("edit rejected"),
    "needs_more": gettext_lazy("needs info"),
    "answered": gettext_lazy("answered"),
    "handed_over": gettext_lazy("handed over"),
    "planned": gettext_lazy("planned"),
    "declined": gettext_lazy("declined"),
    "withdrawn": gettext_lazy("withdrawn"),
    "partial": gettext_lazy("partly done"),
    "failed": gettext_lazy("failed"),
    "rolled_back": gettext_lazy("rolled back"),
    "sending": gettext_lazy("sending"),
    "landed": gettext_lazy("written"),
    "noop": gettext_lazy("nothing to change"),
    "conflict": gettext_lazy("conflict"),
    "reverting": gettext_lazy("rolling back"),
    "reverted": gettext_lazy("rolled back"),
    "kept": gettext_lazy("kept"),
    "running": gettext_lazy("running"),
    "done": gettext_lazy("done"),
    "succeeded": gettext_lazy("succeeded"),
    "drifted": gettext_lazy("changed at the source"),
    "unknown": gettext_lazy("unknown"),
    "complete": gettext_lazy("complete"),
    "waiting": gettext_lazy("waiting"),
    "parsing": gettext_lazy("reading"),
    "parsed": gettext_lazy("waiting for you"),
    "taking_over": gettext_lazy("importing"),
    "undoing": gettext_lazy("undoing"),
    "undone": gettext_lazy("undone"),
    "new": gettext_lazy("new"),
    "conflicting": gettext_lazy("conflicting"),
    "duplicate": gettext_lazy("duplicate"),
    "refused": gettext_lazy("refused"),
    "delivered": gettext_lazy("delivered"),
    "skipped": gettext_lazy("skipped"),
    "proposed": gettext_lazy("proposed"),
    "accepted": gettext_lazy("accepted"),
    "dismissed": gettext_lazy("dismissed"),
    "queued": gettext_lazy("queued"),
    "held": gettext_lazy("waiting for confirmation"),
    "create": gettext_lazy("create"),
    "update": gettext_lazy("update"),
    "delete": gettext_lazy("delete"),
    "open": gettext_lazy("open"),
    "content": gettext_lazy("text"),
    "insight_text": gettext_lazy("text"),
    "category": gettext_lazy("category"),
    "confidence": gettext_lazy("confidence"),
    "entity_urns": gettext_lazy("catalog entities"),
    "related_columns": gettext_lazy("columns"),
    "tags": gettext_lazy("tags"),
    "metadata": gettext_lazy("metadata"),
    "visibility": gettext_lazy("readers"),
    "status": gettext_lazy("status"),
    "supersedes": gettext_lazy("replaced memory"),
    "suggested_actions": gettext_lazy("catalog changes"),
    "source": gettext_lazy("source"),
    "reason": gettext_lazy("reason"),
    "human": gettext_lazy("person"),
    "ai": gettext_lazy("agent"),
    "assistant": gettext_lazy("assistant"),
    "system": gettext_lazy("system"),
    "tool": gettext_lazy("tool"),
}

HAPPENED: dict[str, str | Promise] = {
    "remember": gettext_lazy("remembered"),
    "supersede": gettext_lazy("corrected"),
    "revise": gettext_lazy("edited"),
    "forget": gettext_lazy("forgotten"),
    "restore": gettext_lazy("restored"),
    "verify": gettext_lazy("verified"),
    "share": gettext_lazy("readers changed"),
    "mark_stale": gettext_lazy("marked stale"),
    "mark_wrong": gettext_lazy("marked wrong"),
    "withdraw_feedback": gettext_lazy("“wrong” mark withdrawn"),
    "capture": gettext_lazy("proposed"),
    "approve": gettext_lazy("approved"),
    "reject": gettext_lazy("rejected"),
    "undo_review": gettext_lazy("decision undone"),
    "apply": gettext_lazy("applied"),
    "undo": gettext_lazy("undone"),
    "mark_fresh": gettext_lazy("reactivated"),
    "check_passed": gettext_lazy("reactivated by a check"),
    "appeal": gettext_lazy("appealed"),
    "approve_edit": gettext_lazy("edit approved"),
    "roll_back": gettext_lazy("rolled back"),
    "edit": gettext_lazy("edited in review"),
    "erase": gettext_lazy("correction erased"),
    "hand_over": gettext_lazy("handed over"),
    "relink": gettext_lazy("linked to another memory"),
    "dismiss_entity": gettext_lazy("detected entity removed"),
    "reassign": gettext_lazy("moved to another persona"),
    "retag": gettext_lazy("retagged"),
    "extend": gettext_lazy("extended"),
    "condition_ended": gettext_lazy("marked no longer valid (its condition ended)"),
    "condition_renewed": gettext_lazy("valid again"),
    "rescope": gettext_lazy("scope changed"),
    "settle": gettext_lazy("entities assigned"),
    "choose_attachment": gettext_lazy("attachment changed"),
}


def label_of(value: str) -> str:
    """Return the label of a stored value in the user's language. Values without a label are shown as words."""
    return str(LABELS.get(value) or value.replace("_", " "))


def title_of(value: str) -> str | Promise:
    """Return the label of a stored value with a capital letter, for lists of choices and facts.

    It is translated when it is shown, since forms are built once for all languages.
    """
    label: Any = LABELS.get(value) or value.replace("_", " ")
    title: str | Promise = capfirst(label)
    return title


def readers_of(record: MemoryRecord) -> str:
    """Return who may read a memory, with the name of its persona."""
    if record.visibility == Visibility.PERSONA:
        return gettext("Persona %(persona)s") % {"persona": record.persona}
    return str(READERS[record.visibility])


def happened(change: str) -> str:
    """Return what a change did, as a past participle."""
    return str(HAPPENED.get(change) or label_of(change))
