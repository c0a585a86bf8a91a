"""The folder of files that all machines must share: uploaded files and exports.

Each machine notes in the database which folder it uses, known by an id in the folder. A machine that sees another
folder says so on the System page, because a worker on one machine can't read there what another one has stored.
"""

from __future__ import annotations

import contextlib
import os
import socket
import tempfile
import uuid
from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.utils import timezone

from memory_project.operating.shared.models import InstallationFact

ID_FILE = "folder_id"
FACT = "files of "  # followed by the name of the machine
KNOWN = timedelta(days=2)  # for which a machine counts after it has noted its folder


def folder(name: str) -> Path:
    return Path(settings.COMMONPLACE_FILES) / name


def note_folder() -> None:
    """Note which folder this machine uses. Workers do so at their start and every hour, servers with each upload."""
    rows = InstallationFact.objects.filter(pk__startswith=FACT)
    rows.filter(changed_at__lt=timezone.now() - KNOWN).delete()
    values = {"value": _folder_id(), "changed_at": timezone.now()}
    InstallationFact.objects.update_or_create(pk=f"{FACT}{socket.gethostname()[:80]}", defaults=values)


def known_folder_id() -> str:
    """Return the id of the folder, or "" if no machine has used it yet. Raises OSError if it can't be read."""
    file = Path(settings.COMMONPLACE_FILES) / ID_FILE
    return file.read_text().strip() if file.exists() else ""


def _folder_id() -> str:
    """Return the id of the folder. The first machine that uses it creates it."""
    file = Path(settings.COMMONPLACE_FILES) / ID_FILE
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor, draft = tempfile.mkstemp(dir=file.parent)
        with os.fdopen(descriptor, "w") as handle:
            handle.write(uuid.uuid4().hex)
        os.chmod(draft, 0o644)  # the account that runs the next process may be another one
        with contextlib.suppress(FileExistsError):  # another machine has created it at the same time
            os.link(draft, file)
        os.unlink(draft)
    return file.read_text().strip()
