from __future__ import annotations

from django.apps import AppConfig, apps
from django.utils.translation import gettext_lazy

from foundation import registry


class GatewayConfig(AppConfig):
    name = "memory_project.mcp.gateway"
    label = "gateway"
    verbose_name = gettext_lazy("Upstream MCP servers")
    toolsets = {"upstreams": "memory_project.mcp.gateway.mcp_tools.TOOLS"}

    def ready(self) -> None:
        from foundation.cases.kinds import CASE_KINDS  # noqa: PLC0415 - needs loaded models

        CASE_KINDS.register("upstream_tool", "memory_project.mcp.gateway.cases.UpstreamToolCases")
        if apps.is_installed("django.contrib.admin"):  # not in a server over stdio
            from memory_project.mcp.gateway import health_checks  # noqa: F401, PLC0415 - registers itself

            registry.defer(contribute)


def contribute() -> None:
    """Contribute to the pages of tokens and notifications."""
    from memory_project.accounts.tokens import CREDENTIALS  # noqa: PLC0415 - deferred
    from memory_project.mcp.gateway import alerts, stored_credentials  # noqa: PLC0415 - deferred
    from memory_project.notifications.kinds import TEXTS  # noqa: PLC0415 - deferred

    CREDENTIALS.register("upstream servers", stored_credentials.delete_of_person)
    TEXTS.register(alerts.KIND, alerts.texts)
