"""Where records come from: the built-in source, TOML files, and what admins declared."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from analysis.models import DeclaredSource
from analysis.sources.declaration import Resource, Source, parse
from analysis.sources.files import FileUpstream
from analysis.sources.own_records import RESOURCE, OwnRecords
from analysis.sources.port import Upstream
from analysis.sources.rest import RestUpstream
from memories.access import Caller
from memories.errors import Invalid


@dataclass(frozen=True)
class Known:
    """A model by the name that tools use, and where it comes from; no source: the built-in one."""

    name: str
    resource: Resource
    source: Source | None = None


def known() -> dict[str, Known]:
    """Every model; one that two sources declare is called by `source.model`."""
    sources = [
        *_from_files(),
        *(parse(row.name, row.declaration) for row in DeclaredSource.objects.filter(is_enabled=True)),
    ]
    times = Counter(name for source in sources for name in source.models)
    times[RESOURCE.name] += 1
    found = {RESOURCE.name: Known(RESOURCE.name, RESOURCE)}
    for source in sources:
        for name, resource in source.models.items():
            called = name if times[name] == 1 else f"{source.name}.{name}"
            found[called] = Known(called, resource, source)
    return found


def find(model: str) -> Known:
    models = known()
    if model not in models:
        raise Invalid(f"{model[:80]!r} is unknown", field="model", allowed=", ".join(sorted(models)))
    return models[model]


def open_upstream(caller: Caller, one: Known, *, as_user: str = "") -> Upstream:
    """The model's upstream, spoken to with the source's own credential. Raises Degraded or UpstreamFailed."""
    if one.source is None:
        return OwnRecords(caller)
    if one.source.kind == "file":
        return FileUpstream(one.resource)
    return RestUpstream(one.source, one.resource, as_user=as_user)


def _from_files() -> list[Source]:
    if not settings.ANALYSIS_SOURCES:
        return []
    place = Path(settings.ANALYSIS_SOURCES)
    files = sorted(place.glob("*.toml")) if place.is_dir() else [place]
    try:
        return [parse(file.stem, file.read_text()) for file in files]
    except OSError as error:
        raise Invalid(str(error), field="ANALYSIS_SOURCES", allowed="a TOML file or a folder of them") from None
