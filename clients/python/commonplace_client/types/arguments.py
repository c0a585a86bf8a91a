"""Types of arguments, and what several answers share."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

__all__ = [
    "Category",
    "Change",
    "ChangesetState",
    "Column",
    "Confidence",
    "Dimension",
    "Extension",
    "InsightCategory",
    "InsightSource",
    "InsightState",
    "Language",
    "ListedSource",
    "Message",
    "Order",
    "Source",
    "Status",
    "Strategy",
    "Tier",
    "Validity",
    "Verdict",
    "Versioned",
    "Visibility",
]

Dimension = Literal["knowledge", "event", "entity", "relationship", "preference"]
InsightCategory = Literal[
    "correction", "business_context", "data_quality", "usage_guidance", "relationship", "enhancement"
]
Category = InsightCategory | Literal["general"]
Confidence = Literal["high", "medium", "low"]
InsightSource = Literal["user", "agent_discovery", "enrichment_gap"]
Source = InsightSource | Literal["automation", "lineage_event"]
ListedSource = Source | Literal["note"]
Visibility = Literal["private", "persona", "everyone"]
Status = Literal["active", "stale", "superseded", "archived"]
Validity = Literal["within", "expired", "not_yet_valid", "any"]
Extension = Literal["month", "quarter", "no_end"]
Strategy = Literal["auto", "semantic", "lexical", "entity", "graph"]
Verdict = Literal["useful", "wrong", "withdraw"]
Language = Literal["en", "de", "es", "fr", "ja"]
InsightState = Literal["pending", "approved", "applied", "rejected", "superseded"]
ChangesetState = Literal["planned", "applied", "partial", "failed", "rolled_back", "waiting", "declined"]
Order = Literal["newest", "oldest"]
Tier = Literal["stm", "ltm"]


class Versioned(TypedDict):
    """`etag` is the header ETag, added by the client. Pass it to `update` and to other changes of the same object."""

    etag: str


class Column(TypedDict):
    urn: str
    column: str
    relevance: str


class Change(TypedDict):
    """A change of the catalog, to propose or to apply."""

    change_type: str
    target: NotRequired[str]
    detail: NotRequired[str]
    query_sql: NotRequired[str]
    query_description: NotRequired[str]


class Message(TypedDict):
    """A message of a conversation. `timestamp` is ISO 8601."""

    role: Literal["human", "ai"]
    content: str
    author: NotRequired[str]
    timestamp: NotRequired[str]
