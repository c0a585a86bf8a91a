"""Sources of records: the built-in model of memories, and sources declared in TOML files or in the admin."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from django.conf import settings
from django.utils.translation import gettext

from analysis.models import DeclaredSource
from analysis.sources import memories
from analysis.sources.declaration import OPENERS, Resource, Source, kind_of, parse
from analysis.sources.files import FileUpstream
from analysis.sources.interface import Upstream
from foundation.operations.errors import DomainError, Invalid
from foundation.people.caller import Caller

log = logging.getLogger(__name__)

OTHER_KINDS = ("sql", "s3")  # warehouses and object stores, which are declared in the same files and table


@dataclass(frozen=True)
class SourceModel:
    """A model, the name that tools use for it, and its source. The built-in model has no source."""

    name: str
    resource: Resource
    source: Source | None = None

    def is_readable_by(self, caller: Caller) -> bool:
        # The built-in model needs no check, because it contains only memories that the caller may see.
        return self.source is None or is_permitted(caller, self.source.read_personas)

    def is_writable_by(self, caller: Caller) -> bool:
        personas = self.source.act_personas if self.source else ()
        return caller.is_admin or bool(caller.personas & set(personas))


def _open_rest(source: Source, resource: Resource, as_user: str) -> Upstream:
    from analysis.sources.rest import RestUpstream  # noqa: PLC0415 - its HTTP client takes a tenth of a second to import

    return RestUpstream(source, resource, as_user=as_user)


OPENERS.register("rest", _open_rest)
OPENERS.register("file", lambda source, resource, as_user: FileUpstream(resource))


def is_permitted(caller: Caller, read_personas: Collection[str]) -> bool:
    """Return whether the caller may read a source. One that names no personas is for operators only."""
    if not read_personas:
        return caller.is_operator
    return caller.is_admin or bool(caller.personas & set(read_personas))


def readable_models(caller: Caller) -> dict[str, SourceModel]:
    return {name: model for name, model in declared().items() if model.is_readable_by(caller)}


def withheld_models(caller: Caller) -> set[str]:
    """Return the names of models whose records the caller may not read, because of their source's `read_personas`.

    Whoever ingested records may have lost the source since, or may have received the analysis of somebody else. Records
    are known by the name that their model had then: its own, or that of its source and its own. A child that is called
    like a declared model counts as that model. Records of a source that is no longer declared are not withheld.
    """
    models: dict[str, list[bool]] = {}  # whether the caller may read the sources that declare the name
    children: dict[str, list[bool]] = {}
    for source in _record_sources(declared_texts(only_enabled=False)):
        is_readable = is_permitted(caller, source.read_personas)
        for name, resource in source.models.items():
            for known_as in (name, f"{source.name}.{name}"):
                models.setdefault(known_as, []).append(is_readable)
            for child, association in resource.children().items():
                children.setdefault(association.model or child, []).append(is_readable)
    withheld = {name for name, are_readable in models.items() if not all(are_readable)}
    withheld |= {name for name, are_readable in children.items() if name not in models and not any(are_readable)}
    return withheld - {memories.MODEL}


def declared() -> dict[str, SourceModel]:
    """Return the built-in model and the models of all valid record sources, by the name that tools use.

    A declared model is named `source.model` if another source, or the built-in one, has a model of the same name.
    """
    return models_of(declared_texts())


def models_of(declarations: Iterable[Declaration]) -> dict[str, SourceModel]:
    sources = _record_sources(declarations)
    name_counts = Counter(name for source in sources for name in source.models)
    name_counts[memories.MODEL] += 1
    models = {memories.MODEL: SourceModel(memories.MODEL, memories.resource())}
    for source in sources:
        for name, resource in source.models.items():
            full_name = name if name_counts[name] == 1 else f"{source.name}.{name}"
            models[full_name] = SourceModel(full_name, resource, source)
    return models


class Declaration(NamedTuple):
    name: str
    text: str  # TOML
    is_from_file: bool


def declared_texts(*, only_enabled: bool = True) -> list[Declaration]:
    """Return every declaration in a file, and every enabled one in the admin, or all of them there."""
    declarations = DeclaredSource.objects.filter(is_enabled=True) if only_enabled else DeclaredSource.objects.all()
    rows = declarations.values_list("name", "declaration")
    return [*_from_files(), *(Declaration(name, text, False) for name, text in rows)]


def get_source_model(caller: Caller, model: str) -> SourceModel:
    """Return the model of this name. Raises Invalid if there is none that the caller may read."""
    models = readable_models(caller)
    if model not in models:
        hidden = declared().get(model)
        if hidden and hidden.source and not hidden.source.read_personas:
            problem = f"{model[:80]!r} is for operators only, because the source's declaration names no read_personas"
            raise Invalid(problem, field="model", allowed=", ".join(sorted(models)))
        raise Invalid(
            gettext("%(model)r is unknown") % {"model": model[:80]}, field="model", allowed=", ".join(sorted(models))
        )
    return models[model]


def declared_fields(model: str) -> set[str]:
    """Return the names of the attributes that the model's declaration lists, or an empty set if it isn't declared."""
    source_model = declared().get(model)
    return set(source_model.resource.attributes) if source_model else set()


def open_upstream(caller: Caller, model: SourceModel, *, as_user: str = "") -> Upstream:
    """Open the model's upstream with the source's own credential.

    A REST source with an impersonation_header tells the upstream which user to act for: `as_user`, or the caller if
    `as_user` is "". Other kinds of sources ignore `as_user`.

    Raises Degraded if the credential is missing, UpstreamFailed if the source's file is missing or outside of
    ANALYSIS_FILES, and Invalid if a REST source can't pass on `as_user`.
    """
    if model.source is None:
        return memories.MemoryUpstream(caller)
    as_user = as_user or (caller.email if model.source.impersonation_header else "")
    upstream: Upstream = OPENERS[model.source.kind](model.source, model.resource, as_user)
    return upstream


def _record_sources(declarations: Iterable[Declaration]) -> list[Source]:
    entries = [entry for entry in declarations if kind_of(entry.text) not in OTHER_KINDS]
    return [source for entry in entries if (source := _parsed(entry))]


def _parsed(declaration: Declaration) -> Source | None:
    try:
        return parse(declaration.name, declaration.text, is_from_file=declaration.is_from_file)
    except DomainError as error:
        # An invalid declaration must not make the other sources unusable.
        log.error("skipping the invalid source %s: %s", declaration.name, error.message)
        return None


def _from_files() -> list[Declaration]:
    if not settings.ANALYSIS_SOURCES:
        return []
    path = Path(settings.ANALYSIS_SOURCES)
    files = sorted(path.glob("*.toml")) if path.is_dir() else [path]
    try:
        texts = [(file.stem, file.read_text(encoding="utf-8", errors="replace")) for file in files]
        return [Declaration(name, text, True) for name, text in texts]
    except OSError as error:
        problem = error.strerror or "can't be read"  # the whole message has the path
        raise Invalid(
            problem, field="ANALYSIS_SOURCES", allowed=gettext("a TOML file or a folder of TOML files")
        ) from None
