from __future__ import annotations

import gc

from django.apps import AppConfig, apps
from django.utils.translation import gettext_lazy


class MemoryProjectConfig(AppConfig):
    name = "memory_project"
    verbose_name = gettext_lazy("Access and audit")
    toolsets = {"memory": "memory_project.agents.mcp_tools.TOOLS"}

    def ready(self) -> None:
        from foundation.work import jobs  # noqa: PLC0415 - needs the models
        from knowledge import extensions as knowledge_extensions  # noqa: PLC0415 - needs the models
        from memories import extensions as memory_extensions  # noqa: PLC0415 - needs the models
        from memory_project import field_names  # noqa: PLC0415 - needs the models
        from memory_project.operating.observability import workers  # noqa: F401, PLC0415 - registers itself

        if apps.is_installed("django.contrib.admin"):
            _register_checks_and_receivers()
        memory_extensions.EXTENSIONS.register("memory_project.memory_extension.ProjectMemoryExtension")
        memory_extensions.EXTENSIONS.register("memory_project.exchange.exports.memory_extension.ExportMemoryExtension")
        knowledge_extensions.EXTENSIONS.register("memory_project.knowledge_extension.ProjectKnowledgeExtension")
        jobs.register("memory_project.exchange.exports.services.ExportJobs")
        field_names.translate_names()
        gc.freeze()  # objects imported so far live forever, so garbage collections can skip them
        gc.enable()


def _register_checks_and_receivers() -> None:
    """Register what a server over stdio has no use for: checks of the settings, sign-ins, and effects of migrations."""
    from memory_project import receivers  # noqa: F401, PLC0415 - register themselves
    from memory_project.operating import system_checks  # noqa: F401, PLC0415 - registers itself
    from memory_project.operating.shared import receivers as machine_receivers  # noqa: F401, PLC0415
