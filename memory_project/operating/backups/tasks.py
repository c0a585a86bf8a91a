from __future__ import annotations

from memory_project.operating.backups import erased, rotation


def run_if_due() -> str:
    return rotation.run_if_due()


def update_lists() -> str:
    return f"{erased.update_lists()} lists completed"
