"""The systems around the company of soak.py: a DataHub that fails at times, a webhook's program, and a handbook."""

from __future__ import annotations

import random
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

EVERY_S = 120.0  # seconds between two faults of DataHub
FAULT_S = 20.0  # seconds that it is slow
REFUSED = 3  # requests that the webhook's program refuses of each hundred
ASPECTS = ("datasetProperties", "schemaMetadata", "upstreamLineage", "editableSchemaMetadata", "deprecation")


@dataclass
class Systems:
    """The addresses of these systems, and what they can be made to do."""

    catalog_url: str
    webhook_url: str
    handbook: Path
    faults: Any  # of the fake DataHub
    store: Any  # its aspects
    received: int = 0  # requests that the webhook's program accepted
    files: int = 0  # of the handbook

    @property
    def settings(self) -> dict[str, str]:
        """Return the environment variables of an installation among these systems."""
        return {
            "DATAHUB_GMS_URL": self.catalog_url,
            "DATAHUB_GMS_TOKEN": "none",
            "DATAHUB_TIMEOUT_S": "3",
            "WEBHOOK_PRIVATE_HOSTS": "127.0.0.1",
            "SUBSCRIPTION_FOLDERS": str(self.handbook),
        }

    def load_catalog(self) -> None:
        """Give DataHub the entities of the test data."""
        from knowledge.models import CatalogAspect  # noqa: PLC0415 - after setup()

        for urn, name, value in CatalogAspect.objects.filter(aspect__in=ASPECTS).values_list("urn", "aspect", "value"):
            self.store.versions[urn, name] = [(value, {})]

    def change_catalog(self, urn: str, number: int) -> None:
        """Let others deprecate a table, or take it back."""
        value = {"deprecated": number == 0, "note": f"Note {number}", "actor": "urn:li:corpuser:others"}
        self.store.versions.setdefault((urn, "deprecation"), []).append((value, {}))
        self.faults.events.append(urn)

    def write_page(self, dice: random.Random) -> None:
        """Add a page to the handbook, or write the newest one anew."""
        if not self.files or dice.randrange(3):
            self.files += 1
        text = f"# Runbook {self.files}\n\nJob {dice.getrandbits(32)} runs at {dice.randrange(24)}:00.\n"
        (self.handbook / f"runbook_{self.files}.md").write_text(text)

    def disturb(self, over: threading.Event) -> None:
        """Make DataHub slow, or let it refuse writes or drop connections, in turn until `over` is set."""
        turn = 0
        while not over.wait(EVERY_S):
            turn += 1
            if turn % 3 == 0:
                self.faults.delay_s = 5.0  # beyond DATAHUB_TIMEOUT_S
                over.wait(FAULT_S)
                self.faults.delay_s = 0.0
            elif turn % 3 == 1:
                self.faults.write_status, self.faults.write_status_times = 503, 2
            else:
                self.faults.drop_before_write = 1
            del self.faults.requests[:], self.faults.proposals[:]


class Receiver(BaseHTTPRequestHandler):
    systems: Systems

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        is_refused = random.randrange(100) < REFUSED
        if not is_refused:
            self.systems.received += 1
        self.send_response(503 if is_refused else 204)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


@contextmanager
def running() -> Iterator[Systems]:
    from tests.fake_datahub import Handler, standin  # noqa: PLC0415 - after setup()
    from tests.http_servers import serving  # noqa: PLC0415 - after setup()

    over = threading.Event()
    with tempfile.TemporaryDirectory() as folder, standin() as (catalog, faults), serving(Receiver) as program:
        systems = Systems(catalog, f"{program}/", Path(folder).resolve(), faults, Handler.store)
        Receiver.systems = systems
        disturbing = threading.Thread(target=systems.disturb, args=[over])
        disturbing.start()
        try:
            yield systems
        finally:
            over.set()
            disturbing.join()
