from __future__ import annotations

import threading

from memories import embedding
from memories.retrieval import language


def warm_up() -> None:
    """Start loading the models in background threads, so that no request waits for them later."""
    embedding.warm_up()
    threading.Thread(target=language.warm_up, name="languages", daemon=True).start()
