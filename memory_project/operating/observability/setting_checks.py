"""System checks of the settings for monitoring."""

from __future__ import annotations

from typing import Any

from django.core.checks import CheckMessage, Warning, register

from memory_project.operating.observability import tracing


@register()
def check_tracing(**extra: Any) -> list[CheckMessage]:
    if not tracing.is_wanted() or tracing.is_installed():
        return []
    hint = "Install it: pip install 'commonplace[otel]', or unset the variable."
    message = "OTEL_EXPORTER_OTLP_ENDPOINT is set, but the extra `otel` is not installed: nothing is traced."
    return [Warning(message, hint=hint, id="commonplace.W010")]
