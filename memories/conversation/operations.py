"""The operations on conversations, the cache and decisions. Each names its user, as the tools' contract requires."""

from __future__ import annotations

from typing import Annotated, NotRequired

from django.conf import settings
from pydantic import Field, with_config
from typing_extensions import TypedDict

from memories.contract.fields import FORBID, Id, MemoryIds, Moment, OneOf, ResultLimit, Tags, Text, Urns, Verbatim
from memories.contract.operations import Operation
from memories.models import Dimension

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

USER = "Your own address; a service that acts for users names the user."


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
    """Keep messages of a conversation"""

    conversation_id: ConversationId = Field(description="Groups messages; a known one is continued.")
    messages: Annotated[list[Message], Field(min_length=1, max_length=MAX_MESSAGES)] = Field(
        description="In the order they were said; timestamp is ISO 8601."
    )


class RecallConversations(UserOperation):
    """Find what was said"""

    query: Query = Field(description="What to find, in words.")
    memory_type: Kind | None = None
    tags: Tags = Field([], description="All of them must be set.")
    limit: Limit = 10
    tier: Tiers = Field([], description="stm: turns of the last day; ltm: what lasts. Both unless given.")


class SearchHybrid(RecallConversations):
    """Find by meaning and words, fused by rank"""


class DeleteMemories(UserOperation):
    """Delete what was said, until it is purged"""

    memory_id: Id | None = Field(None, description="One memory; needs no confirm.")
    tags: Tags = Field([], description="All memories with all of these.")
    time_range: TimeRange | None = Field(None, description="All memories of a time, ISO 8601; without zone: UTC.")
    confirm: bool = Field(False, description="Must be true for tags or time_range.")
    dry_run: bool = Field(False, description="Count only.")


class CheckCache(UserOperation):
    """Look for a cached answer to a like question"""

    query: Query
    similarity_threshold: Annotated[float, Field(ge=0, le=1)] | None = Field(
        None, description="Least cosine of a hit, which must say the same in any case."
    )
    cache_id: Id | None = Field(None, description="Return this entry of `near`, if it answers the question.")


class StoreCache(UserOperation):
    """Cache an answer"""

    query: Query
    response: Annotated[str, Verbatim(100_000)]
    ttl_seconds: Annotated[int, Field(ge=1, le=31_536_000)] | None = Field(
        None, description=f"Until it expires; {settings.CACHE_TTL_SECONDS} unless given."
    )
    entity_urns: Urns = Field([], description="Catalog entities it speaks of: a change of one drops the answer.")
    memory_ids: MemoryIds = []  # the memories that it is from: erasing one drops the answer


class InvalidateCache(UserOperation):
    """Drop cached answers"""

    pattern: Annotated[str, Text(1, 200)] | None = Field(
        None, description="Regular expression or words in cached questions; case does not matter."
    )
    entity_urns: Urns = Field([], description="Answers about one of these.")
    invalidate_all: bool = False


class SearchWeb(UserOperation):
    """Search the web"""

    query: Annotated[str, Text(1, 400)]


class ShowHealth(UserOperation):
    """Count what is kept of a user"""


class Wipe(UserOperation):
    """Delete all data of a user for good"""

    confirm: bool = Field(False, description="Must be true.")


class StoreDecision(UserOperation):
    """Keep a decision under a key"""

    key: Annotated[str, Text(1, 200)]
    value: Annotated[str, Verbatim(10_000)]
    ttl_days: Annotated[int, Field(ge=1, le=36_500)] | None = Field(None, description="Without it: no expiry.")


class RecallDecision(UserOperation):
    """Recall a decision by its key"""

    key: Annotated[str, Text(1, 200)]
