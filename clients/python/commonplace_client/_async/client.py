from __future__ import annotations

from commonplace_client._async.changesets import Changesets
from commonplace_client._async.conversations import Conversations
from commonplace_client._async.insights import Insights
from commonplace_client._async.memories import Memories


class AsyncCommonplace(Memories, Insights, Changesets, Conversations):
    """Client of Commonplace for asynchronous programs. `Commonplace` has the same methods without `await`."""
