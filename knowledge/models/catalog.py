from __future__ import annotations

import uuid

from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVectorField
from django.db import models
from django.db.models import F, Func, Q, Value
from django.db.models.functions import Lower
from django.utils import timezone
from django.utils.translation import gettext_lazy

from memories.models.fields import SearchText
from memories.models.passage import TextPassage


class CatalogAspect(models.Model):
    """One version of one aspect of one entity, in the embedded catalog or in the copy of a DataHub.

    Versions count up from 1, and the newest has `is_latest`. A NULL value means that the aspect was removed.
    """

    id = models.BigAutoField(primary_key=True)
    urn = models.CharField(max_length=500)
    aspect = models.CharField(max_length=100)
    version = models.PositiveIntegerField()
    value = models.JSONField(null=True)
    system_metadata = models.JSONField(default=dict)
    is_latest = models.BooleanField(default=True)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        db_table = "catalog_aspects"
        ordering = ["urn", "aspect", "-version"]
        constraints = [
            models.UniqueConstraint(fields=["urn", "aspect", "version"], name="catalog_version_once"),
            models.UniqueConstraint(
                fields=["urn", "aspect"], condition=Q(is_latest=True), name="catalog_one_latest_version"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.urn} {self.aspect} v{self.version}"


class CatalogEntity(models.Model):
    """An entity as search and pages show it. Derived from its aspects."""

    urn = models.CharField(max_length=500, primary_key=True)
    entity_type = models.CharField(max_length=60)
    name = models.CharField(max_length=500)
    qualified_name = models.CharField(max_length=500, blank=True)
    description = models.TextField(blank=True)
    columns = models.TextField(blank=True, help_text=gettext_lazy("Column names, for search."))
    platform = models.CharField(max_length=100, blank=True)
    removed = models.BooleanField(default=False)
    deprecated = models.BooleanField(default=False)
    tail = models.GeneratedField(  # `orders` for fernhill.sales.orders; used to look up table names in SQL statements
        expression=Lower(Func(F("qualified_name"), Value("."), Value(-1), function="split_part")),
        output_field=models.TextField(),
        db_persist=True,
    )
    search = models.GeneratedField(
        expression=SearchText("qualified_name", "name", "description", "columns"),
        output_field=SearchVectorField(),
        db_persist=True,
    )

    class Meta:
        db_table = "catalog_entities"
        verbose_name_plural = "catalog entities"
        ordering = ["name", "urn"]
        indexes = [
            GinIndex(fields=["search"], name="catalog_words"),  # catalog_search
            models.Index(fields=["entity_type", "name"], name="catalog_by_type"),
            models.Index(fields=["tail"], name="catalog_by_tail"),  # entity_linking.resolve
        ]

    def __str__(self) -> str:
        return self.qualified_name or self.name


class CatalogText(models.Model):
    """Search index row of a document or glossary term, with the state of its embedding. Derived data."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    entity = models.OneToOneField(CatalogEntity, on_delete=models.CASCADE, related_name="prose")
    embedding_model = models.CharField(max_length=200, blank=True, default="", editable=False)
    embedding_text_hash = models.BinaryField(null=True, editable=False)

    class Meta:
        db_table = "catalog_texts"

    def __str__(self) -> str:
        return self.entity_id


class CatalogPassage(TextPassage):
    """An embedded passage of a document or glossary term. Derived data.

    The table has no vector index, because documents and terms are few enough to compare one by one.
    """

    text = models.ForeignKey(CatalogText, on_delete=models.CASCADE, related_name="passages")

    class Meta:
        db_table = "catalog_passages"

    def __str__(self) -> str:
        return f"{self.text_id} {self.start}-{self.stop}"


class LineageEdge(models.Model):
    """A lineage edge, derived from an aspect of the entity `said_by`: `downstream` is made from `upstream`."""

    id = models.BigAutoField(primary_key=True)
    downstream = models.CharField(max_length=500)
    upstream = models.CharField(max_length=500)
    said_by = models.CharField(max_length=500, default="")

    class Meta:
        db_table = "catalog_lineage"
        constraints = [
            models.UniqueConstraint(fields=["downstream", "upstream", "said_by"], name="lineage_edge_once_a_source")
        ]
        indexes = [
            models.Index(fields=["upstream", "downstream"], name="lineage_of_upstream"),
            models.Index(fields=["said_by"], name="lineage_said_by"),
        ]

    def __str__(self) -> str:
        return f"{self.upstream} → {self.downstream}"


class ColumnEdge(models.Model):
    """A lineage edge between columns, derived from an aspect of the entity `said_by`. Paths of columns are simple."""

    id = models.BigAutoField(primary_key=True)
    downstream = models.CharField(max_length=500)
    downstream_column = models.CharField(max_length=300)
    upstream = models.CharField(max_length=500)
    upstream_column = models.CharField(max_length=300)
    said_by = models.CharField(max_length=500)

    class Meta:
        db_table = "catalog_column_lineage"
        indexes = [
            models.Index(fields=["downstream", "downstream_column"], name="column_lineage_of_downstream"),
            models.Index(fields=["said_by"], name="column_lineage_said_by"),
        ]

    def __str__(self) -> str:
        return f"{self.upstream}.{self.upstream_column} → {self.downstream}.{self.downstream_column}"


class CatalogCursor(models.Model):
    """State of a job that reads the catalog: offset in the event stream, time of the last copy, or note of a check."""

    name = models.CharField(max_length=40, primary_key=True)
    value = models.CharField(max_length=500, blank=True)
    updated_at = models.DateTimeField(default=timezone.now)

    class Meta:
        db_table = "catalog_cursors"

    def __str__(self) -> str:
        return f"{self.name}: {self.value}"
