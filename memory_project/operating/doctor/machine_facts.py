"""Readings that machines store for one another: the model, the clock and the disk of each, and the length of the queue.

Single readings don't show what grows, and no machine can look at another one. So workers store readings in the table
of facts that the installation shares, at their start and every hour, and checks compare them.
"""

from __future__ import annotations

import json
import shutil
import socket
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.db import connection
from django.utils import timezone

from foundation.embedding import EmbedderUnavailable, calibration, e5, minilm
from memory_project.operating.postgres.server import EmbeddedPostgres
from memory_project.operating.shared.models import InstallationFact

# Each is followed by the name of the machine.
MODEL = "model of "
CLOCK = "clock of "
DISK = "disk of "
QUEUE = "queue"
KNOWN = timedelta(days=2)  # for which a machine counts after it has noted something
MAX_DISK_READINGS = 7 * 24  # a week of hours
MAX_QUEUE_READINGS = 6 * 6  # six hours of ten minutes

Reading = tuple[float, float]  # seconds since 1970, and a number


def configured_model() -> str:
    """Return the name under which vectors of the configured model are stored, or "" without a model."""
    if settings.EMBEDDING_PROVIDER in calibration.PROVIDERS:
        try:
            return calibration.name_of_vectors(settings.EMBEDDING_MODEL)
        except EmbedderUnavailable:  # see model_calibrated
            return settings.EMBEDDING_MODEL
    return {
        "minilm": minilm.NAME,
        "e5": e5.NAME,
        "deterministic": f"deterministic-{settings.EMBEDDING_DIMENSIONS}",
        "none": "",
    }[settings.EMBEDDING_PROVIDER]


def machine() -> str:
    return socket.gethostname()[:80]


def data_folder() -> Path:
    return settings.COMMONPLACE_HOME if settings.DATABASE_URL else EmbeddedPostgres(settings.COMMONPLACE_HOME).data


def existing_part(folder: Path) -> Path:
    return next(path for path in (folder, *folder.parents) if path.exists())


def note_machine() -> None:
    """Note model, clock and free space of this machine. Raises DatabaseError, or OSError if the disk can't be read."""
    stale = timezone.now() - KNOWN
    for kind in (MODEL, CLOCK, DISK):
        InstallationFact.objects.filter(pk__startswith=kind, changed_at__lt=stale).delete()
    _save(f"{MODEL}{machine()}", configured_model())
    _save(f"{CLOCK}{machine()}", f"{clock_error_s():.2f}")
    free = shutil.disk_usage(existing_part(data_folder())).free
    _add_reading(f"{DISK}{machine()}", free, MAX_DISK_READINGS)


def note_queue(length: int) -> None:
    _add_reading(QUEUE, length, MAX_QUEUE_READINGS)


def clock_error_s() -> float:
    """Return the clock of the database less the clock of this machine."""
    before = time.time()
    with connection.cursor() as cursor:
        cursor.execute("SELECT extract(epoch FROM clock_timestamp())::float")
        (at_database,) = cursor.fetchone()
    return float(at_database) - (before + time.time()) / 2


def slope(readings: Sequence[Reading]) -> float:
    """Return the change a second by the method of least squares. `readings` has two different times at least."""
    middle = sum(at for at, _ in readings) / len(readings)
    mean = sum(value for _, value in readings) / len(readings)
    spread = sum((at - middle) ** 2 for at, _ in readings)
    return sum((at - middle) * (value - mean) for at, value in readings) / spread


def _add_reading(name: str, value: float, most: int) -> None:
    known = InstallationFact.objects.filter(pk=name).values_list("value", flat=True).first()
    readings = [*(json.loads(known) if known else []), [round(time.time()), value]]
    _save(name, json.dumps(readings[-most:]))


def _save(name: str, value: str) -> None:
    InstallationFact.objects.update_or_create(pk=name, defaults={"value": value, "changed_at": timezone.now()})
