"""What a person or an agent looks for in the catalog: by words, as the catalog itself finds them, and documents and
glossary terms by what they mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from knowledge.catalog import document_index
from knowledge.catalog.embedded import summary
from knowledge.catalog.interface import Catalog, EntitySummary
from memories import embedding
from memories.retrieval.rank_fusion import fuse

MAX_UNSURE = 3  # of what may be meant


@dataclass(frozen=True)
class SearchHit:
    entities: list[EntitySummary]
    note: str = ""  # that nothing was looked for by its meaning, and why


def search(catalog: Catalog, query: str, *, types: Sequence[str] = (), limit: int = 10) -> SearchHit:
    """The best first: words and what is surely meant, fused by reciprocal rank, then what may be meant. What is found
    by its meaning says by which passage. Raises CatalogUnavailable or CatalogRefused."""
    by_words = {entity.urn: entity for entity in catalog.search(query, types=types, limit=limit)}
    if not query or not document_index.exist(types):
        return SearchHit(list(by_words.values()))
    try:
        vector, _ = embedding.embed_one(query)
    except embedding.EmbedderUnavailable as error:
        return SearchHit(list(by_words.values()), f"by words alone, not by meaning: {error}")
    near = document_index.nearest_documents(vector, types, limit)
    by_meaning = {match.entity.urn: replace(summary(match.entity), passage=match.passage) for match in near}
    scores = fuse([by_words, [match.entity.urn for match in near if match.cosine >= document_index.COSINE_SURE]])
    rest = [urn for urn in by_meaning if urn not in scores][:MAX_UNSURE]
    by_meaning |= {urn: replace(by_meaning[urn], is_unsure=True) for urn in rest}
    urns = [*sorted(scores, key=scores.__getitem__, reverse=True), *rest]
    return SearchHit([by_meaning.get(urn) or by_words[urn] for urn in urns][:limit])
