from __future__ import annotations

import threading

from foundation import embedding, registry
from memories.texts import language


def warm_up() -> None:
    """Load what apps contribute, and start loading the models in background threads, so that no request waits."""
    embedding.warm_up()
    threading.Thread(target=language.warm_up, name="languages", daemon=True).start()
    registry.load()
