"""How each source did when it was last asked: its last success, its last error, and a try of the first page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field

from django.utils import timezone

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
    """A declared source with its models, and what was last known of it."""

    source: Source
    models: Sequence[str] = field(default_factory=list)
    check: SourceCheck | None = None


def note(model: SourceModel, error: str = "") -> None:
    """Keeps that the model's source answered just now, or why it did not; the last success stays."""
    if model.source is None:
        return
    now = timezone.now()
    outcome = {"error": error[:ERROR_LENGTH], "failed_at": now} if error else {"error": "", "succeeded_at": now}
    SourceCheck.objects.update_or_create(name=model.source.name, defaults=outcome)


@contextmanager
def noted(model: SourceModel) -> Iterator[None]:
    """Notes how what is asked of the model in the block goes."""
    started_at = timezone.now()
    try:
        yield
    except (UpstreamFailed, Degraded) as error:
        note(model, error.message)
        raise
    if not SourceCheck.objects.filter(name=getattr(model.source, "name", ""), failed_at__gte=started_at).exists():
        note(model)


def states() -> list[SourceState]:
    """Every declared source that can be read, by name."""
    checks = SourceCheck.objects.in_bulk()
    by_name: dict[str, tuple[Source, list[str]]] = {}
    for model in sources.declared().values():
        if model.source is not None:
            by_name.setdefault(model.source.name, (model.source, []))[1].append(model.name)
    return [SourceState(source, models, checks.get(name)) for name, (source, models) in sorted(by_name.items())]


def test(*, caller: Caller, name: str) -> str:
    """Reads one row of the source's first model, as an ingest would; returns what went wrong, or ""."""
    if not caller.is_operator:
        raise Forbidden("only an operator tests sources")
    models = [model for model in sources.declared().values() if model.source and model.source.name == name]
    if not models:
        raise NotFound(f"there is no source {name[:60]!r}", field="name")
    connections.close_if_pooled()  # other systems are waited for without a database connection
    try:
        with noted(models[0]), closing(sources.open_upstream(caller, models[0])) as upstream:
            upstream.page(1, 1, {})
    except DomainError as error:
        return error.message
    return ""
