"""Finding memories again."""

from __future__ import annotations

import threading

from memories import embedding


def warm_up() -> None:
    """Begins to load the models, so that nobody waits for them later."""
    from memories.retrieval import language  # noqa: PLC0415 - this package is imported before the settings are read

    embedding.warm_up()
    threading.Thread(target=language.warm_up, name="languages", daemon=True).start()
