"""Health of sources: the last success, the last error, and a test that reads one row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from django.utils import timezone
from django.utils.translation import gettext

from analysis import sources
from analysis.models import SourceCheck
from analysis.sources import OTHER_KINDS, SourceModel
from analysis.sources.declaration import kind_of, parse
from analysis.sources.envelopes import PageOf
from analysis.sources.interface import UpstreamFailed
from analysis.sql import declaration as sql_declaration
from analysis.sql.declaration import is_sql
from analysis.sql.execute import try_source
from analysis.storage import declaration as store_declaration
from analysis.storage.declaration import is_store
from analysis.storage.objects import try_store
from foundation.database import connections
from foundation.operations.errors import Degraded, DomainError, Forbidden, NotFound
from foundation.people.caller import Caller

ERROR_LENGTH = 500
TIME_LIMIT_S = 20.0  # of a test, whatever timeout the declaration names
MAX_TRIED, MAX_FIELDS, MAX_VALUE = 5, 20, 60  # models, fields and characters that a trial tells


@dataclass(frozen=True)
class SourceState:
    name: str
    kind: str
    models: Sequence[str] = ()  # none for warehouses and object stores
    check: SourceCheck | None = None


def record_read(model: SourceModel, error: str = "") -> None:
    """Record a successful read of the model's source, or its error."""
    if model.source is not None:
        _record(model.source.name, error)


def _record(name: str, error: str) -> None:
    """Record the outcome of a read. An error keeps the time of the last success."""
    now = timezone.now()
    outcome = {"error": error[:ERROR_LENGTH], "failed_at": now} if error else {"error": "", "succeeded_at": now}
    SourceCheck.objects.update_or_create(name=name, defaults=outcome)


@contextmanager
def recorded_read(model: SourceModel) -> Iterator[None]:
    """Record whether the block succeeds in reading the model's source."""
    started_at = timezone.now()
    try:
        yield
    except (UpstreamFailed, Degraded) as error:
        record_read(model, error.message)
        raise
    # The block may have handled an error and recorded it with record_read().
    if not SourceCheck.objects.filter(name=getattr(model.source, "name", ""), failed_at__gte=started_at).exists():
        record_read(model)


def states() -> list[SourceState]:
    """Return all declared sources, warehouses and object stores, by name."""
    checks = SourceCheck.objects.in_bulk()
    declarations = sources.declared_texts()
    states = [
        SourceState(entry.name, kind, (), checks.get(entry.name))
        for entry in declarations
        if (kind := kind_of(entry.text)) in OTHER_KINDS
    ]
    models: dict[str, list[str]] = {}
    kinds: dict[str, str] = {}
    for model in sources.models_of(declarations).values():
        if model.source is not None:
            models.setdefault(model.source.name, []).append(model.name)
            kinds[model.source.name] = model.source.kind
    states += [SourceState(name, kinds[name], names, checks.get(name)) for name, names in models.items()]
    return sorted(states, key=lambda state: state.name)


def test(caller: Caller, *, name: str) -> str:
    """Read from a source as its users do, such as one row of its first model. Return the error message, or ""."""
    if not caller.is_operator:
        raise Forbidden(gettext("only operators can test sources"))
    for entry in sources.declared_texts():
        if entry.name == name and kind_of(entry.text) in OTHER_KINDS:
            error = try_declaration(caller, name=name, text=entry.text).error
            _record(name, error)
            return error
    models = [model for model in sources.declared().values() if model.source and model.source.name == name]
    if not models:
        raise NotFound(gettext("there is no source %(name)r") % {"name": name[:60]}, field="name")
    try:
        with recorded_read(models[0]):
            _first_page(caller, models[0])
    except DomainError as error:
        return error.message
    return ""


@dataclass(frozen=True)
class SourceTrial:
    """The answer of a source to a trial. `lines` tell what it returned."""

    error: str
    lines: Sequence[str] = ()


def try_declaration(caller: Caller, *, name: str, text: str) -> SourceTrial:
    """Read one row by a valid declaration that need not be saved. Values are told only to those who may read them."""
    if not caller.is_operator:
        raise Forbidden("only operators can test sources")
    try:
        if is_sql(text):
            return SourceTrial("", try_source(sql_declaration.parse(name, text), TIME_LIMIT_S))
        if is_store(text):
            return SourceTrial("", try_store(store_declaration.parse(name, text), TIME_LIMIT_S))
        source = parse(name, text)
        lines: list[str] = []
        for model_name, resource in list(source.models.items())[:MAX_TRIED]:
            model = SourceModel(model_name, resource, source)
            lines.append(f"{model_name}: {_told(_first_page(caller, model), model.is_readable_by(caller))}")
    except DomainError as error:
        return SourceTrial(error.message)
    return SourceTrial("", lines)


def _told(page: PageOf, may_read: bool) -> str:
    if not page.rows:
        return "no rows"
    row = page.rows[0]
    fields = [f"{key} = {_short(value)}" if may_read else str(key) for key, value in list(row.items())[:MAX_FIELDS]]
    return ", ".join(fields)


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= MAX_VALUE else f"{text[:MAX_VALUE]}…"


def _first_page(caller: Caller, model: SourceModel) -> PageOf:
    """Return a page with one row. Raises UpstreamFailed after TIME_LIMIT_S, even if the source keeps sending."""
    connections.close_if_pooled()  # don't hold a database connection while waiting for the source
    upstream = sources.open_upstream(caller, model)
    pool = ThreadPoolExecutor(1, thread_name_prefix="source-test")
    try:
        return pool.submit(upstream.page, 1, 1, {}).result(timeout=TIME_LIMIT_S)
    except TimeoutError:
        raise UpstreamFailed(f"the source did not answer within {TIME_LIMIT_S:g} s") from None
    finally:
        upstream.close()  # which ends a request that is still running
        pool.shutdown(wait=False)
