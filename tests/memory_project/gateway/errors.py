"""Errors of calls that go through the gateway."""

from __future__ import annotations

import json
from typing import Any


def error_of(result: Any) -> str:
    assert result.is_error
    return str(json.loads(result.content[0].text)["error"])
