"""Where records come from: the built-in source, TOML files, and what admins declared."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from analysis.models import DeclaredSource
from analysis.sources import memories
from analysis.sources.declaration import Resource, Source, parse
from analysis.sources.files import FileUpstream
from analysis.sources.interface import Upstream
from analysis.sql.declaration import is_sql
from memories.contract.errors import DomainError, Invalid
from memories.identity.caller import Caller

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SourceModel:
    """A model by the name that tools use, and where it comes from; no source: the built-in one."""

    name: str
    resource: Resource
    source: Source | None = None

    def is_readable_by(self, caller: Caller) -> bool:
        """The built-in model shows everybody their own; a source is read with its credential, by whom it names."""
        personas = self.source.read_personas if self.source else ()
        return caller.is_admin or not personas or bool(caller.personas & set(personas))

    def is_changed_by(self, caller: Caller) -> bool:
        """Whether the caller may act on it."""
        personas = self.source.act_personas if self.source else ()
        return caller.is_admin or bool(caller.personas & set(personas))


# How a source of this kind is opened, with its declaration, the model, and for whom.
Opens = Callable[[Source, Resource, str], Upstream]


def _open_rest(source: Source, resource: Resource, for_whom: str) -> Upstream:
    from analysis.sources.rest import RestUpstream  # noqa: PLC0415 - its HTTP client takes a tenth of a second to import

    return RestUpstream(source, resource, as_user=for_whom)


KINDS: dict[str, Opens] = {
    "rest": _open_rest,
    "file": lambda source, resource, for_whom: FileUpstream(resource),
}


def readable_models(caller: Caller) -> dict[str, SourceModel]:
    """The models that the caller may read."""
    return {name: model for name, model in declared().items() if model.is_readable_by(caller)}


def declared() -> dict[str, SourceModel]:
    """Every model; one that two sources declare is called by `source.model`."""
    sources = [source for name, text in declared_texts() if not is_sql(text) and (source := _parsed(name, text))]
    times = Counter(name for source in sources for name in source.models)
    times[memories.MODEL] += 1
    models = {memories.MODEL: SourceModel(memories.MODEL, memories.resource())}
    for source in sources:
        for name, resource in source.models.items():
            full_name = name if times[name] == 1 else f"{source.name}.{name}"
            models[full_name] = SourceModel(full_name, resource, source)
    return models


def declared_texts() -> list[tuple[str, str]]:
    """Every declaration with its name: of files, and of the admin."""
    rows = DeclaredSource.objects.filter(is_enabled=True).values_list("name", "declaration")
    return [*_from_files(), *rows]


def get_source_model(caller: Caller, model: str) -> SourceModel:
    """Raises Invalid, also for a model that is not the caller's to read."""
    models = readable_models(caller)
    if model not in models:
        raise Invalid(f"{model[:80]!r} is unknown", field="model", allowed=", ".join(sorted(models)))
    return models[model]


def declared_fields(model: str) -> set[str]:
    """The attributes that the model's source names; none for the children of a model, or a source that went away."""
    source_model = declared().get(model)
    return set(source_model.resource.attributes) if source_model else set()


def open_upstream(caller: Caller, model: SourceModel, *, as_user: str = "") -> Upstream:
    """The model's upstream, spoken to with the source's own credential, and told for whom where it asks for that.
    Raises Degraded or UpstreamFailed."""
    if model.source is None:
        return memories.OwnRecords(caller)
    for_whom = as_user or (caller.email if model.source.impersonation_header else "")
    return KINDS[model.source.kind](model.source, model.resource, for_whom)


def _parsed(name: str, text: str) -> Source | None:
    """The declaration; a broken one is logged, and stands in nobody else's way."""
    try:
        return parse(name, text)
    except DomainError as error:
        log.error("the source %s is left out: %s", name, error.message)
        return None


def _from_files() -> list[tuple[str, str]]:
    if not settings.ANALYSIS_SOURCES:
        return []
    path = Path(settings.ANALYSIS_SOURCES)
    files = sorted(path.glob("*.toml")) if path.is_dir() else [path]
    try:
        return [(file.stem, file.read_text(encoding="utf-8", errors="replace")) for file in files]
    except OSError as error:
        raise Invalid(str(error), field="ANALYSIS_SOURCES", allowed="a TOML file or a folder of them") from None
