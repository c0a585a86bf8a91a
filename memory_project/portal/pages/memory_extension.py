from __future__ import annotations

from collections.abc import Sequence

from memories.extensions import MemoryExtension, PersonalDataColumn
from memory_project.portal.pages.models import DefaultView, Submission


class PagesMemoryExtension(MemoryExtension):
    def personal_data(self) -> Sequence[PersonalDataColumn]:
        return [PersonalDataColumn(Submission, "owner"), PersonalDataColumn(DefaultView, "person__email")]
