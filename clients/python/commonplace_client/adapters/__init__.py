"""Adapters to agent frameworks. Each module needs the extra of its name."""

from __future__ import annotations
