"""Health of sources: the last success, the last error, and a test that reads one row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field

from django.utils import timezone
from django.utils.translation import gettext

from analysis import sources
from analysis.models import SourceCheck
from analysis.sources import SourceModel
from analysis.sources.declaration import Source
from analysis.sources.interface import UpstreamFailed
from memories.contract.errors import Degraded, DomainError, Forbidden, NotFound
from memories.database import connections
from memories.identity.caller import Caller

ERROR_LENGTH = 500


@dataclass(frozen=True)
class SourceState:
    source: Source
    models: Sequence[str] = field(default_factory=list)
    check: SourceCheck | None = None


def note(model: SourceModel, error: str = "") -> None:
    """Record a successful read of the model's source, or its error. An error keeps the time of the last success."""
    if model.source is None:
        return
    now = timezone.now()
    outcome = {"error": error[:ERROR_LENGTH], "failed_at": now} if error else {"error": "", "succeeded_at": now}
    SourceCheck.objects.update_or_create(name=model.source.name, defaults=outcome)


@contextmanager
def noted(model: SourceModel) -> Iterator[None]:
    """Record whether the block succeeds in reading the model's source."""
    started_at = timezone.now()
    try:
        yield
    except (UpstreamFailed, Degraded) as error:
        note(model, error.message)
        raise
    # The block may have handled an error and recorded it with note().
    if not SourceCheck.objects.filter(name=getattr(model.source, "name", ""), failed_at__gte=started_at).exists():
        note(model)


def states() -> list[SourceState]:
    checks = SourceCheck.objects.in_bulk()
    by_name: dict[str, tuple[Source, list[str]]] = {}
    for model in sources.declared().values():
        if model.source is not None:
            by_name.setdefault(model.source.name, (model.source, []))[1].append(model.name)
    return [SourceState(source, models, checks.get(name)) for name, (source, models) in sorted(by_name.items())]


def test(*, caller: Caller, name: str) -> str:
    """Read one row of the source's first model, as an ingest would. Return the error message, or ""."""
    if not caller.is_operator:
        raise Forbidden(gettext("only operators can test sources"))
    models = [model for model in sources.declared().values() if model.source and model.source.name == name]
    if not models:
        raise NotFound(gettext("there is no source %(name)r") % {"name": name[:60]}, field="name")
    connections.close_if_pooled()  # don't hold a database connection while waiting for the source
    try:
        with noted(models[0]), closing(sources.open_upstream(caller, models[0])) as upstream:
            upstream.page(1, 1, {})
    except DomainError as error:
        return error.message
    return ""
