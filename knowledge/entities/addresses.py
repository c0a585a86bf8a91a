"""Catalog entities that a text mentions by an address: a path in an object store, the page of a dashboard or chart."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import accumulate

from knowledge.models import CatalogAspect, CatalogEntity

STORED = re.compile(r"\b(s3[an]?|gs|abfss?)://([^\s\"'<>`,;]{1,400})")
PAGE = re.compile(r"\bhttps?://[^\s\"'<>`,;)]{1,400}")
PLATFORMS = {"s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gcs", "abfs": "abs", "abfss": "abs"}  # of DataHub's sources
ENVIRONMENTS = ("PROD", "DEV", "TEST", "QA", "UAT", "EI", "PRE", "STG", "NON_PROD", "CORP")  # DataHub's FabricType
PAGES = {"dashboardInfo": "dashboardUrl", "chartInfo": "chartUrl"}  # aspect → its field with the address
MAX_ADDRESSES = 20
MAX_DEPTH = 12  # folders of a path


def urns_at(texts: Sequence[str]) -> list[str]:
    """Return the URNs of entities whose addresses the texts contain, in order.

    A path belongs to the data set with the longest path that contains it.
    """
    stored = [match for text in texts for match in STORED.findall(text)][:MAX_ADDRESSES]
    pages = [page for text in texts for page in PAGE.findall(text)][:MAX_ADDRESSES]
    urns = _of_paths(stored) if stored else []
    return list(dict.fromkeys([*urns, *(_of_pages(pages) if pages else [])]))


def _of_paths(stored: Sequence[tuple[str, str]]) -> list[str]:
    above = [[urn for path in _paths_above(path) for urn in _urns(PLATFORMS[scheme], path)] for scheme, path in stored]
    wanted = {urn for urns in above for urn in urns}
    known = set(CatalogEntity.objects.filter(urn__in=wanted, removed=False).values_list("urn", flat=True))
    return [next(urn for urn in reversed(urns) if urn in known) for urns in above if known & set(urns)]


def _paths_above(path: str) -> Iterable[str]:
    """Return the folders that contain a path, and the path, shortest first: a, a/b, a/b/c."""
    return list(accumulate(path.rstrip("/.").split("/")[:MAX_DEPTH], "{}/{}".format))


def _urns(platform: str, path: str) -> list[str]:
    return [f"urn:li:dataset:(urn:li:dataPlatform:{platform},{path},{name})" for name in ENVIRONMENTS]


def _of_pages(pages: Sequence[str]) -> list[str]:
    plain = [re.split(r"[?#]", page, maxsplit=1)[0].rstrip("/.") for page in pages]
    wanted = [form for page in plain for form in (page, f"{page}/")]
    found: dict[str, str] = {}
    for aspect, field in PAGES.items():
        rows = CatalogAspect.objects.filter(aspect=aspect, is_latest=True, **{f"value__{field}__in": wanted})
        found |= {str((value or {})[field]).rstrip("/"): urn for urn, value in rows.values_list("urn", "value")}
    return [found[page] for page in plain if page in found]
