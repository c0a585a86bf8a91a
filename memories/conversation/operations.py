"""The operations on conversations, the cache and decisions. Each names its user, as the tools' contract requires."""

from __future__ import annotations

from typing import Annotated, NotRequired

from django.conf import settings
from pydantic import Field, with_config
from typing_extensions import TypedDict

from foundation.operations.fields import FORBID, Id, MemoryIds, Moment, OneOf, ResultLimit, Tags, Text, Urns, Verbatim
from foundation.operations.operation import Operation
from memories.models import Dimension
from memories.operations import AT_MOST, FROM_MEMORIES

ROLES = ("human", "ai")
TIERS = ("stm", "ltm")
MAX_MESSAGES = 1_000
MAX_MESSAGE = 20_000
MAX_QUERY = 4_000
MAX_RESULTS = 100

UserId = Annotated[str, Text(1, 120)]
Query = Annotated[str, Text(1, MAX_QUERY)]
ConversationId = Annotated[str, Text(1, 200)]
Author = Annotated[str, Text(0, 80)]
TurnText = Annotated[str, Verbatim(MAX_MESSAGE)]
Kind = Annotated[str, OneOf(Dimension.values)]
Tiers = Annotated[list[Annotated[str, OneOf(TIERS)]], Field(max_length=2)]
Limit = Annotated[int, ResultLimit(MAX_RESULTS)]

USER = "The user's e-mail address."


@with_config(FORBID)
class Message(TypedDict):
    role: Annotated[str, OneOf(ROLES)]
    content: TurnText
    author: NotRequired[Author]
    timestamp: NotRequired[Moment]


@with_config(FORBID)
class TimeRange(TypedDict):
    start: NotRequired[Moment]
    end: NotRequired[Moment]


class UserOperation(Operation):
    user_id: UserId = Field(description=USER)


class StoreMessages(UserOperation):
    """Store messages of a conversation"""

    conversation_id: ConversationId = Field(description="Id of the conversation, new or known.")
    messages: Annotated[list[Message], Field(min_length=1, max_length=MAX_MESSAGES)] = Field(
        description="Messages in order; timestamp is ISO 8601."
    )


class RecallConversations(UserOperation):
    """Search conversations"""

    query: Query = Field(description="Question or topic.")
    memory_type: Kind | None = Field(None, description="Only this kind.")
    tags: Tags = Field([], description="Tags that all results have.")
    limit: Limit = Field(10, description=AT_MOST)
    tier: Tiers = Field([], description="stm: messages of the last day; ltm: long-term. Default: both.")


class SearchHybrid(RecallConversations):
    """Search conversations by meaning and words"""


class DeleteMemories(UserOperation):
    """Delete memories of conversations"""

    memory_id: Id | None = Field(None, description="Delete this memory; needs no confirm.")
    tags: Tags = Field([], description="Delete memories with all of these tags.")
    time_range: TimeRange | None = Field(None, description="Delete memories from this time (ISO 8601, default UTC).")
    confirm: bool = Field(False, description="Must be true with tags or time_range.")
    dry_run: bool = Field(False, description="Only count.")


class CheckCache(UserOperation):
    """Look up the stored answer to a question"""

    query: Query = Field(description="The question.")
    similarity_threshold: Annotated[float, Field(ge=0, le=1)] | None = Field(
        None, description="Minimum cosine similarity of a hit."
    )
    cache_id: Id | None = Field(None, description="Return this entry from an earlier `near` list.")


class StoreCache(UserOperation):
    """Store the answer to a question"""

    query: Query = Field(description="The question.")
    response: Annotated[str, Verbatim(100_000)] = Field(description="The answer.")
    ttl_seconds: Annotated[int, Field(ge=1, le=31_536_000)] | None = Field(
        None, description=f"Seconds until it expires; default {settings.CACHE_TTL_SECONDS}."
    )
    entity_urns: Urns = Field([], description="Catalog entities it is about; a change of one drops it.")
    memory_ids: MemoryIds = Field([], description=FROM_MEMORIES)


class InvalidateCache(UserOperation):
    """Delete stored answers"""

    pattern: Annotated[str, Text(1, 200)] | None = Field(
        None, description="Words or regular expression that the questions match."
    )
    entity_urns: Urns = Field([], description="Entities that the answers are about.")
    invalidate_all: bool = Field(False, description="Delete all answers.")


class SearchWeb(UserOperation):
    """Search the web"""

    query: Annotated[str, Text(1, 400)] = Field(description="What to search for.")


class ShowHealth(UserOperation):
    """Count a user's memories"""


class Wipe(UserOperation):
    """Delete all data of a user for good"""

    confirm: bool = Field(False, description="Must be true: this can't be undone.")


class StoreDecision(UserOperation):
    """Store a decision under a key"""

    key: Annotated[str, Text(1, 200)] = Field(description="Name of the decision.")
    value: Annotated[str, Verbatim(10_000)] = Field(description="What was decided.")
    ttl_days: Annotated[int, Field(ge=1, le=36_500)] | None = Field(
        None, description="Days until it expires; default: never."
    )


class RecallDecision(UserOperation):
    """Recall a decision by its key"""

    key: Annotated[str, Text(1, 200)] = Field(description="Name of the decision.")
