# Written by write_sync.py from commonplace_client/_async. Change that, and run it again.
from __future__ import annotations

from commonplace_client._sync.changesets import Changesets
from commonplace_client._sync.conversations import Conversations
from commonplace_client._sync.insights import Insights
from commonplace_client._sync.memories import Memories


class Commonplace(Memories, Insights, Changesets, Conversations):
    """Client of Commonplace for ordinary programs. `AsyncCommonplace` has the same methods for `await`."""
