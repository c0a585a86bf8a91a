"""Preferences name their person. A wipe deletes them, and a hand-over leaves them, because they are no content."""

from __future__ import annotations

from collections.abc import Sequence

from memories.extensions import MemoryExtension, PersonalDataColumn
from memory_project.accounts.preferences.models import Preference, ScheduleSetting


class PreferencesMemoryExtension(MemoryExtension):
    def personal_data(self) -> Sequence[PersonalDataColumn]:
        return [
            PersonalDataColumn(Preference, "person__email"),
            PersonalDataColumn(ScheduleSetting, "changed_by", stays=True),
        ]
