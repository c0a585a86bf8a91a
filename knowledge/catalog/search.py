"""Catalog search: by words in the catalog itself, and by meaning over documents and glossary terms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from foundation import embedding
from knowledge.catalog import document_index
from knowledge.catalog.embedded import summary
from knowledge.catalog.interface import Catalog, EntitySummary
from memories.retrieval.rank_fusion import fuse

MAX_UNSURE = 3  # maximum number of weak matches by meaning in a result


@dataclass(frozen=True)
class CatalogSearchResult:
    entities: list[EntitySummary]
    note: str = ""  # why the search by meaning was left out; empty otherwise


def search(catalog: Catalog, query: str, *, types: Sequence[str] = (), limit: int = 10) -> CatalogSearchResult:
    """Search the catalog, best matches first.

    Matches by words and strong matches by meaning are fused by reciprocal rank. At most MAX_UNSURE weak matches by
    meaning follow them. Matches by meaning carry their passage. Raises CatalogUnavailable or CatalogRefused.
    """
    by_words = {entity.urn: entity for entity in catalog.search(query, types=types, limit=limit)}
    if not query or not document_index.has_texts(types):
        return CatalogSearchResult(list(by_words.values()))
    try:
        vector, model = embedding.embed_query(query)
    except embedding.EmbedderUnavailable as error:
        return CatalogSearchResult(list(by_words.values()), f"results are by words alone: {error}")
    similar = document_index.nearest_documents(vector, model, types, limit)
    by_meaning = {match.entity.urn: replace(summary(match.entity), passage=match.passage) for match in similar}
    scores = fuse([by_words, [match.entity.urn for match in similar if match.cosine >= document_index.COSINE_SURE]])
    rest = [urn for urn in by_meaning if urn not in scores][:MAX_UNSURE]
    by_meaning |= {urn: replace(by_meaning[urn], is_unsure=True) for urn in rest}
    urns = [*sorted(scores, key=scores.__getitem__, reverse=True), *rest]
    return CatalogSearchResult([by_meaning.get(urn) or by_words[urn] for urn in urns][:limit])
