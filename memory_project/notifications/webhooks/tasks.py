from __future__ import annotations

import time

from memory_project.notifications.webhooks import sending

SLICE_S = 60.0  # seconds after which other tasks get their turn


def send_webhook_events() -> str:
    return sending.send_due(until=time.monotonic() + SLICE_S)
