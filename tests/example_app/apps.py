from __future__ import annotations

from django.apps import AppConfig


class ExampleConfig(AppConfig):
    name = "tests.example_app"
    toolsets = {"example": "tests.example_app.mcp_tools.TOOLS"}

    def ready(self) -> None:
        from analysis.sources.declaration import OPENERS  # needs the models
        from foundation.cases.kinds import CASE_KINDS  # needs the models
        from knowledge.changesets.change_request import CHANGE_TYPES  # needs the models
        from tests.example_app.change_types import CERTIFY  # needs the models
        from tests.example_app.sqlite_source import SqliteUpstream  # needs the models

        CASE_KINDS.register("to_do", "tests.example_app.cases.ToDoCases")
        CHANGE_TYPES.register(CERTIFY.name, CERTIFY)
        OPENERS.register("sqlite", SqliteUpstream)
