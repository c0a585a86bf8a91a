"""Tables of the knowledge graph.

Every row belongs to a graph, either directly or through its parent row. Tools refer to rows by `number`, an integer
that is counted within each graph.
"""

from __future__ import annotations

import uuid

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import F, Func, Q
from django.db.models.functions import MD5
from django.utils import timezone
from django.utils.translation import gettext_lazy

from foundation.people.caller import Caller
from foundation.people.columns import PSEUDONYM, PersonColumn
from memories.models import Visibility
from memories.models.fields import EmbeddingField, exact_words
from memories.models.passage import TextPassage
from memories.models.record import readable_by

# Maximum size, in kB, of the list of new entries that a GIN index has not sorted in yet. The limit is low, because
# every search scans these entries one by one.
PENDING_KB = 64


class GraphQuerySet(models.QuerySet["Graph"]):
    def visible_to(self, caller: Caller) -> GraphQuerySet:
        """Restrict to graphs that the caller may read. Every read on behalf of a caller has to use this."""
        return self.filter(readable_by(caller))


class Graph(models.Model):
    """The graph of a user, or of a persona. A persona's graph has an empty `created_by`."""

    person_columns = (PersonColumn("created_by", handed_over_as="knowledge graphs", unique=()),)

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    created_by = models.CharField(max_length=254, blank=True)
    persona = models.CharField(max_length=60)
    visibility = models.CharField(max_length=10, choices=Visibility.choices, default=Visibility.PRIVATE)
    created_at = models.DateTimeField(default=timezone.now)
    changed_at = models.DateTimeField(default=timezone.now)
    last_number = models.BigIntegerField(
        default=0, help_text=gettext_lazy("The last integer assigned to a row of this graph.")
    )

    touched: set[uuid.UUID]  # ids of entities with new observations; only set while the graph is locked

    objects = GraphQuerySet.as_manager()

    class Meta:
        db_table = "graphs"
        constraints = [
            models.UniqueConstraint(fields=["created_by"], condition=~Q(created_by=""), name="graph_of_person"),
            models.UniqueConstraint(fields=["persona"], condition=Q(created_by=""), name="graph_of_persona"),
            models.CheckConstraint(condition=Q(visibility__in=Visibility.values), name="graph_visibility_known"),
        ]

    def __str__(self) -> str:
        return self.created_by or f"persona {self.persona}"


class Entity(models.Model):
    """A node of the graph. A placeholder was created because a relation mentioned its name. It is hidden."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    graph = models.ForeignKey(Graph, on_delete=models.CASCADE, related_name="entities", db_index=False)
    number = models.BigIntegerField()
    name = models.CharField(max_length=5_000)
    entity_type = models.CharField(max_length=200, default="Generic")
    status = models.CharField(max_length=60, default="active")
    urn = models.CharField(max_length=500, blank=True, help_text=gettext_lazy("The catalog entity that it represents."))
    is_placeholder = models.BooleanField(default=False)
    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(default=timezone.now)
    deleted_at = models.DateTimeField(null=True, blank=True)

    # Derived from name and type: the case-folded text and its trigrams.
    folded = models.TextField(default="", editable=False)
    grams = ArrayField(models.CharField(max_length=3), default=list, editable=False)
    # Derived from accesses.
    access_count = models.PositiveIntegerField(default=1)
    access_days = models.PositiveIntegerField(default=0)
    last_access = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "graph_entities"
        ordering = ["number"]
        verbose_name_plural = gettext_lazy("entities")
        constraints = [
            # By hash, because an index entry can't hold a long name.
            models.UniqueConstraint(F("graph"), MD5("name"), condition=Q(deleted_at=None), name="entity_name_once"),
            models.UniqueConstraint(fields=["graph", "number"], name="entity_number_once"),
            models.CheckConstraint(condition=~Q(name=""), name="entity_has_name"),
        ]
        indexes = [
            GinIndex(fields=["grams"], name="entity_grams", gin_pending_list_limit=PENDING_KB),  # search_nodes
            models.Index(F("graph"), MD5(Func("name", function="NORMALIZE")), name="entity_name_form"),  # sql.NAMED
            models.Index(fields=["urn"], condition=~Q(urn=""), name="entity_urn"),  # catalog_links
            models.Index(fields=["deleted_at"], condition=Q(deleted_at__isnull=False), name="entity_deleted"),
        ]

    def __str__(self) -> str:
        return self.name


class Observation(models.Model):
    """A text about an entity. It ends when it is deleted, replaced or removed as a duplicate, or with its entity.

    An ended observation can be read with `as_of` until it is purged.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    entity = models.ForeignKey(Entity, on_delete=models.CASCADE, related_name="observations", db_index=False)
    graph = models.ForeignKey(Graph, on_delete=models.CASCADE, related_name="observations", db_index=False)
    number = models.BigIntegerField()
    text = models.TextField()
    kind = models.CharField(max_length=60, default="generic")
    similarity_flag = models.BooleanField(
        default=False, help_text=gettext_lazy("Nearly the same as another observation of the entity.")
    )
    is_flag_due = models.BooleanField(
        default=False,
        editable=False,
        help_text=gettext_lazy("Waits for its embedding, which decides on similarity_flag."),
    )
    supersedes = models.BigIntegerField(
        null=True, blank=True, help_text=gettext_lazy("The number of the observation that it replaces.")
    )
    superseded_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    ended_at = models.DateTimeField(null=True, blank=True)

    folded = models.TextField(default="", editable=False)
    grams = ArrayField(models.CharField(max_length=3), default=list, editable=False)
    embedding_model = models.CharField(max_length=200, blank=True, default="", editable=False)
    embedding_text_hash = models.BinaryField(null=True, editable=False)

    class Meta:
        db_table = "graph_observations"
        ordering = ["number"]
        constraints = [
            models.UniqueConstraint(fields=["graph", "number"], name="observation_number_once"),
            models.CheckConstraint(condition=~Q(text=""), name="observation_has_text"),
        ]
        indexes = [
            models.Index(fields=["entity", "number"], name="observation_of_entity"),
            GinIndex(fields=["grams"], name="observation_grams", gin_pending_list_limit=PENDING_KB),
            models.Index(fields=["ended_at"], condition=Q(ended_at__isnull=False), name="observation_ended"),
            GinIndex(exact_words("text"), name="observation_words"),  # texts with the words of an erased one
        ]

    def __str__(self) -> str:
        return self.text[:80]


class ObservationMove(models.Model):
    """An entity that an observation belonged to until a split moved it. Reads with `as_of` find it there."""

    observation = models.ForeignKey(Observation, on_delete=models.CASCADE, related_name="moves")
    entity = models.ForeignKey(
        Entity, on_delete=models.CASCADE, related_name="+", help_text=gettext_lazy("The former entity.")
    )
    moved_at = models.DateTimeField(default=timezone.now)

    class Meta:
        db_table = "graph_observation_moves"

    def __str__(self) -> str:
        return f"{self.observation_id} from {self.entity_id}"


class ObservationPassage(TextPassage):
    """The embedding of a part of an observation's text.

    There is no vector index, because a search compares all passages of one graph.
    """

    observation = models.ForeignKey(Observation, on_delete=models.CASCADE, related_name="passages")

    class Meta:
        db_table = "graph_passages"

    def __str__(self) -> str:
        return f"{self.observation_id} {self.start}-{self.stop}"


class Relation(models.Model):
    """A directed edge between two entities.

    An ended relation is kept until one of its entities is purged, and can be read as ended. A deleted relation has
    ended, too, but only reads with `as_of` find it until it is purged. Once a relation has ended, another one of the
    same entities and type can be created.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    graph = models.ForeignKey(Graph, on_delete=models.CASCADE, related_name="relations", db_index=False)
    number = models.BigIntegerField()
    source = models.ForeignKey(Entity, on_delete=models.CASCADE, related_name="outgoing", db_index=False)
    target = models.ForeignKey(Entity, on_delete=models.CASCADE, related_name="incoming")
    relation_type = models.CharField(max_length=200)
    context = models.TextField(blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    ended_at = models.DateTimeField(null=True, blank=True)
    deleted_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "graph_relations"
        ordering = ["number"]
        constraints = [
            models.UniqueConstraint(
                fields=["source", "target", "relation_type"], condition=Q(ended_at=None), name="relation_once"
            ),
            models.UniqueConstraint(fields=["graph", "number"], name="relation_number_once"),
        ]

    def __str__(self) -> str:
        return f"{self.source_id} {self.relation_type} {self.target_id}"


class Reflection(models.Model):
    """Prose about an entity, a relation, a session, or the whole graph."""

    person_columns = (PersonColumn("created_by", PSEUDONYM),)

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    graph = models.ForeignKey(Graph, on_delete=models.CASCADE, related_name="reflections", db_index=False)
    number = models.BigIntegerField()
    target_type = models.CharField(max_length=10)
    entity = models.ForeignKey(Entity, null=True, blank=True, on_delete=models.CASCADE, related_name="reflections")
    relation = models.ForeignKey(Relation, null=True, blank=True, on_delete=models.CASCADE, related_name="reflections")
    author = models.CharField(
        max_length=60, blank=True, help_text=gettext_lazy("Whose words it gives, if not its writer's own.")
    )
    created_by = models.CharField(
        max_length=254, blank=True, help_text=gettext_lazy("Its writer. Empty for older reflections.")
    )
    mood = models.CharField(max_length=60, blank=True)
    content = models.TextField()
    created_at = models.DateTimeField(default=timezone.now)
    vector = EmbeddingField(null=True)
    embedding_model = models.CharField(max_length=200, blank=True, default="", editable=False)
    embedding_text_hash = models.BinaryField(null=True, editable=False)

    class Meta:
        db_table = "graph_reflections"
        ordering = ["-number"]
        constraints = [models.UniqueConstraint(fields=["graph", "number"], name="reflection_number_once")]
        indexes = [GinIndex(exact_words("content"), name="reflection_words")]  # texts with the words of an erased one

    def __str__(self) -> str:
        return self.content[:80]


class AccessDay(models.Model):
    entity = models.ForeignKey(Entity, on_delete=models.CASCADE, related_name="days", db_index=False)
    day = models.DateField()
    count = models.PositiveIntegerField(default=0)

    class Meta:
        db_table = "graph_access_days"
        constraints = [models.UniqueConstraint(fields=["entity", "day"], name="access_day_once")]

    def __str__(self) -> str:
        return f"{self.entity_id} {self.day}"


class CoOccurrence(models.Model):
    """The number of responses that contained both entities."""

    first = models.ForeignKey(Entity, on_delete=models.CASCADE, related_name="+", db_index=False)
    second = models.ForeignKey(Entity, on_delete=models.CASCADE, related_name="+")
    count = models.PositiveIntegerField(default=0)
    last_at = models.DateTimeField(default=timezone.now)

    class Meta:
        db_table = "graph_co_occurrences"
        constraints = [
            models.UniqueConstraint(fields=["first", "second"], name="pair_once"),
            models.CheckConstraint(condition=Q(first__lt=F("second")), name="pair_in_order"),
        ]

    def __str__(self) -> str:
        return f"{self.first_id} {self.second_id}"


class UpkeepKind(models.TextChoices):
    SPLIT = "split", gettext_lazy("Split an entity")
    DUPLICATE = "duplicate", gettext_lazy("End a duplicate")


class UpkeepState(models.TextChoices):
    OPEN = "open", gettext_lazy("Open")
    ACCEPTED = "accepted", gettext_lazy("Accepted")
    DISMISSED = "dismissed", gettext_lazy("Dismissed")


class UpkeepProposal(models.Model):
    """A proposal to split an entity or to end a near-duplicate observation, and the admin's decision."""

    person_columns = (PersonColumn("decided_by", PSEUDONYM),)

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    entity = models.ForeignKey(Entity, on_delete=models.CASCADE, related_name="+")
    kind = models.CharField(max_length=10, choices=UpkeepKind.choices)
    ends = models.ForeignKey(Observation, null=True, blank=True, on_delete=models.CASCADE, related_name="+")
    stays = models.ForeignKey(Observation, null=True, blank=True, on_delete=models.CASCADE, related_name="+")
    score = models.FloatField(
        help_text=gettext_lazy("For duplicates their similarity, for a split how much the entity exceeds its limits.")
    )
    state = models.CharField(max_length=10, choices=UpkeepState.choices, default=UpkeepState.OPEN)
    created_at = models.DateTimeField(default=timezone.now)
    decided_at = models.DateTimeField(null=True, blank=True)
    decided_by = models.CharField(max_length=254, blank=True)

    class Meta:
        db_table = "graph_upkeep_proposals"
        ordering = ["-score"]
        constraints = [
            models.UniqueConstraint(
                fields=["entity", "kind", "ends", "stays"], nulls_distinct=False, name="upkeep_proposed_once"
            ),
        ]
        indexes = [
            models.Index(fields=["-created_at"], condition=Q(state="open"), name="upkeep_waiting"),  # the inbox
        ]

    def __str__(self) -> str:
        if self.kind == UpkeepKind.SPLIT:
            return f"Split {self.entity}"
        return f"{self.entity}: end “{self.ends}”, keep “{self.stays}”"
