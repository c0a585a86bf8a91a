"""Other systems that are away, hang, or answer in halves."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack

from tests.faults.installation import Installation
from tests.faults.table import fault
from tests.faults.workload import Workload
from tests.http_servers import QuietHandler, serving


class Upstream(QuietHandler):
    """A server that answers in halves or not at all."""

    hangs = False
    release = threading.Event()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.hangs:
            self.release.wait(60)
            return
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", "100000")
        self.end_headers()
        self.wfile.write(b'{"data": [{"embedding": [0.1, 0.2')

    do_GET = do_POST


class Hanging(Upstream):
    hangs = True


def _serve(place: Installation, handler: type[Upstream]) -> str:
    server = ExitStack()
    place.on_exit.append(server.close)
    return server.enter_context(serving(handler))


def with_half_answers(place: Installation) -> None:
    place.settings |= {
        "EMBEDDING_PROVIDER": "openai",
        "EMBEDDING_MODEL": "half",
        "EMBEDDING_URL": f"{_serve(place, Upstream)}/v1",
    }


def with_hanging_embedder(place: Installation) -> None:
    with_half_answers(place)
    place.settings["EMBEDDING_URL"] = f"{_serve(place, Hanging)}/v1"


def with_hanging_catalog(place: Installation) -> None:
    place.settings |= {"DATAHUB_GMS_URL": _serve(place, Hanging), "DATAHUB_GMS_TOKEN": "none"}


def with_hanging_mail(place: Installation) -> None:
    port = _serve(place, Hanging).rpartition(":")[2]
    place.settings |= {"EMAIL_HOST": "127.0.0.1", "EMAIL_PORT": port, "DIGEST": "true"}


@fault("the embedding server answers in halves", prepare=with_half_answers, silent_s=20)
def half_answers(place: Installation, work: Workload) -> None:
    time.sleep(5)


@fault("the embedding server hangs", prepare=with_hanging_embedder, silent_s=30, in_pairs=True)
def embedder_hangs(place: Installation, work: Workload) -> None:
    time.sleep(10)


@fault("DataHub hangs", prepare=with_hanging_catalog, silent_s=30)
def catalog_hangs(place: Installation, work: Workload) -> None:
    time.sleep(10)


@fault("the mail server hangs", prepare=with_hanging_mail, silent_s=20)
def mail_hangs(place: Installation, work: Workload) -> None:
    time.sleep(5)
