from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVectorField
from django.db import models
from django.db.models import Case, F, Q, Value, When
from django.db.models.fields.json import KeyTransform
from django.db.models.functions import Concat
from django.utils import timezone
from django.utils.translation import gettext_lazy

from foundation.links import url_for
from foundation.people.caller import Caller
from memories.models.fields import ContentKey, LanguageSearchText
from memories.models.validity import MAY_BE_OUTSIDE, state_at

EDITED_BY = "edited_by"  # metadata key: address of the person who wrote the text, if this is not the owner


class Dimension(models.TextChoices):
    """The kind of a memory, as in the LOCOMO benchmark."""

    KNOWLEDGE = "knowledge", gettext_lazy("Knowledge")
    EVENT = "event", gettext_lazy("Event")
    ENTITY = "entity", gettext_lazy("Entity")
    RELATIONSHIP = "relationship", gettext_lazy("Relationship")
    PREFERENCE = "preference", gettext_lazy("Preference")


class Category(models.TextChoices):
    CORRECTION = "correction", gettext_lazy("Correction")
    BUSINESS_CONTEXT = "business_context", gettext_lazy("Business context")
    DATA_QUALITY = "data_quality", gettext_lazy("Data quality")
    USAGE_GUIDANCE = "usage_guidance", gettext_lazy("Usage guidance")
    RELATIONSHIP = "relationship", gettext_lazy("Relationship")
    ENHANCEMENT = "enhancement", gettext_lazy("Enhancement")
    GENERAL = "general", gettext_lazy("General")


class Confidence(models.TextChoices):
    HIGH = "high", gettext_lazy("High")
    MEDIUM = "medium", gettext_lazy("Medium")
    LOW = "low", gettext_lazy("Low")


class Source(models.TextChoices):
    USER = "user", gettext_lazy("User")
    AGENT_DISCOVERY = "agent_discovery", gettext_lazy("Agent discovery")
    ENRICHMENT_GAP = "enrichment_gap", gettext_lazy("Enrichment gap")
    AUTOMATION = "automation", gettext_lazy("Automation")
    LINEAGE_EVENT = "lineage_event", gettext_lazy("Lineage event")
    NOTE = "note", gettext_lazy("Note")


class Status(models.TextChoices):
    ACTIVE = "active", gettext_lazy("Active")
    STALE = "stale", gettext_lazy("Stale")
    SUPERSEDED = "superseded", gettext_lazy("Superseded")
    ARCHIVED = "archived", gettext_lazy("Archived")


IN_USE = (Status.ACTIVE, Status.STALE)  # found by recall, as far as they are valid


class Visibility(models.TextChoices):
    PRIVATE = "private", gettext_lazy("Private")
    PERSONA = "persona", gettext_lazy("Persona")
    EVERYONE = "everyone", gettext_lazy("Everyone")


class Attachment(models.TextChoices):
    """The owner's choice whether a memory is attached to tool responses unasked."""

    AUTOMATIC = "automatic", gettext_lazy("Automatic")  # unless it was found to be of no use: `quiet_at`
    ALWAYS = "always", gettext_lazy("Always")
    NEVER = "never", gettext_lazy("Never")


class Tier(models.TextChoices):
    """The tier of a conversation memory. Facts have none."""

    NONE = "", gettext_lazy("None")
    SHORT_TERM = "stm", gettext_lazy("Short term")
    LONG_TERM = "ltm", gettext_lazy("Long term")


def readable_by(caller: Caller, prefix: str = "") -> Q:
    """Return the condition for rows that the caller may read.

    These are the caller's own rows, rows shared with a persona that the caller holds, and rows for everyone. Admins may
    read all rows.
    """
    if caller.is_admin:
        return Q()
    shared = Q(**{f"{prefix}visibility": Visibility.PERSONA, f"{prefix}persona__in": sorted(caller.personas)})
    everyone = Q(**{f"{prefix}visibility": Visibility.EVERYONE})
    return Q(**{f"{prefix}created_by": caller.email}) | shared | everyone


def about_any(urns: Sequence[str], prefix: str = "") -> Q:
    """Return the condition for rows about one of these entities, stated by a person or detected in the text."""
    stated = Q(**{f"{prefix}entity_urns__overlap": list(urns)})
    return stated | Q(**{f"{prefix}detected_urns__overlap": list(urns)})


# Kinds of facts that are about something in the catalog. Preferences and events need not be.
ABOUT_DATA = (Dimension.KNOWLEDGE, Dimension.ENTITY, Dimension.RELATIONSHIP)

# The condition for memories that may be attached to tool responses unasked, as far as their owner and use decide.
ATTACHED = Q(attachment=Attachment.ALWAYS) | Q(attachment=Attachment.AUTOMATIC, quiet_at__isnull=True)

# The SQL expression of MemoryRecord.spoken
SPOKEN = Case(
    When(author="", then=F("content")),
    default=Concat("author", Value(": "), "content", output_field=models.TextField()),
    output_field=models.TextField(),
)


class MemoryRecordQuerySet(models.QuerySet["MemoryRecord"]):
    def visible_to(self, caller: Caller) -> MemoryRecordQuerySet:
        """Filter to the records that the caller may read. All reads on behalf of a caller must use this."""
        return self.filter(readable_by(caller))

    def update(self, **values: Any) -> int:
        """Update the rows, and set their language to itself.

        If an UPDATE computes none of the generated columns, PostgreSQL 18 reads their expressions anew for each row and
        keeps them until the end of the statement: 100 kB and as much time again for a row. One of them depends on the
        language.
        """
        return super().update(**{"language": F("language"), **values})

    update.alters_data = True  # type: ignore[attr-defined]  # as Django's own: templates don't call it

    def facts(self) -> MemoryRecordQuerySet:
        """Exclude conversation memories."""
        return self.filter(tier=Tier.NONE)

    def lasting(self) -> MemoryRecordQuerySet:
        """Exclude conversation turns, but not the long-term memories derived from them."""
        return self.exclude(tier=Tier.SHORT_TERM)


class MemoryRecord(models.Model):
    """A memory of any kind: a fact, a conversation turn, an insight or a note."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    updated_at = models.DateTimeField(default=timezone.now, editable=False)
    created_by = models.CharField(max_length=254, help_text=gettext_lazy("The owner's e-mail address."))
    persona = models.CharField(max_length=60)
    visibility = models.CharField(max_length=10, choices=Visibility.choices, default=Visibility.PERSONA)

    dimension = models.CharField(max_length=20, choices=Dimension.choices, default=Dimension.KNOWLEDGE)
    category = models.CharField(max_length=20, choices=Category.choices, default=Category.BUSINESS_CONTEXT)
    confidence = models.CharField(max_length=10, choices=Confidence.choices, default=Confidence.MEDIUM)
    source = models.CharField(max_length=20, choices=Source.choices, default=Source.USER)

    content = models.TextField()
    summary = models.TextField(blank=True, default="")
    language = models.CharField(
        max_length=3,
        blank=True,
        default="",
        help_text=gettext_lazy("ISO 639-1 code from RECALL_LANGUAGES. Empty if it could not be detected."),
    )
    tags = ArrayField(models.CharField(max_length=80), default=list, blank=True)
    entity_urns = ArrayField(models.CharField(max_length=500), default=list, blank=True)
    related_columns = models.JSONField(default=list, blank=True)
    # Entities that the text mentions and that are not in `entity_urns`. They serve search and automatic context, but
    # never make the memory stale. An entity in `dismissed_urns` was removed by a person and is not detected again.
    detected_urns = ArrayField(models.CharField(max_length=500), default=list, blank=True, editable=False)
    dismissed_urns = ArrayField(models.CharField(max_length=500), default=list, blank=True, editable=False)
    entities_detected_at = models.DateTimeField(null=True, blank=True, editable=False)  # None: detection is due
    # Whether it is an open question which entities the memory is about. It is settled by stating them, or that there
    # are none.
    unsettled = models.BooleanField(default=False, editable=False)
    metadata = models.JSONField(default=dict, blank=True)
    scope = models.CharField(
        max_length=520,
        blank=True,
        default="",
        help_text=gettext_lazy("Where it holds: persona:NAME, domain:URN or purpose:NAME. Empty: everywhere."),
    )

    # Derived columns. `manage.py embed` rebuilds the embedding columns, `manage.py rebuild_search` rebuilds `search`.
    content_key = models.GeneratedField(
        expression=ContentKey("content"), output_field=models.CharField(max_length=32), db_persist=True
    )
    search = models.GeneratedField(
        expression=LanguageSearchText("author", "content", "summary"), output_field=SearchVectorField(), db_persist=True
    )
    embedding_model = models.CharField(max_length=200, blank=True, default="", editable=False)
    embedding_text_hash = models.BinaryField(null=True, editable=False)  # SHA-256 of the embedded text

    status = models.CharField(max_length=12, choices=Status.choices, default=Status.ACTIVE)
    stale_reason = models.TextField(blank=True, default="")
    stale_at = models.DateTimeField(null=True, blank=True)
    last_verified_at = models.DateTimeField(null=True, blank=True)

    # The time in which the memory is true, from `valid_from` to before `valid_until`, and while a condition holds. The
    # services set `condition_ended_at` when the condition has ended, so that a search compares columns only.
    valid_from = models.DateTimeField(null=True, blank=True)
    valid_until = models.DateTimeField(null=True, blank=True)
    valid_while = models.CharField(
        max_length=600,
        blank=True,
        default="",
        help_text=gettext_lazy("incident:<URN>, deprecated:<URN> or period:<name>. Empty if there is no condition."),
    )
    condition_ended_at = models.DateTimeField(null=True, blank=True, editable=False)

    # The correction chain. `supersedes` is authoritative. It is set only at insert, so that no cycle can arise.
    supersedes = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.SET_NULL, related_name="successors", db_index=False
    )
    superseded_by = models.UUIDField(null=True, blank=True, editable=False)
    superseded_at = models.DateTimeField(null=True, blank=True, editable=False)

    # Only conversation memories have these values.
    tier = models.CharField(max_length=3, choices=Tier.choices, default=Tier.NONE, blank=True)
    conversation_id = models.CharField(max_length=200, blank=True, default="")
    role = models.CharField(
        max_length=60, blank=True, default="", help_text=gettext_lazy("The speaker of a turn: human or ai.")
    )
    author = models.CharField(
        max_length=80, blank=True, default="", help_text=gettext_lazy("The speaker's name, if known.")
    )
    thread_position = models.PositiveIntegerField(null=True, blank=True)
    derived_from = models.UUIDField(  # no foreign key, because the memory may outlive the turn
        null=True,
        blank=True,
        editable=False,
        help_text=gettext_lazy("The turn that a long-term memory was derived from."),
    )

    importance = models.FloatField(default=0.5)
    access_count = models.PositiveIntegerField(default=0)
    last_accessed_at = models.DateTimeField(null=True, blank=True)
    enrichment_status = models.CharField(max_length=20, blank=True, default="")

    attachment = models.CharField(max_length=10, choices=Attachment.choices, default=Attachment.AUTOMATIC)
    # Derived from impressions (use/attachment_use.py): since when the memory is attached on request only, and
    # from when on its attachments count, if not from its creation.
    quiet_at = models.DateTimeField(null=True, blank=True, editable=False)
    counted_from = models.DateTimeField(null=True, blank=True, editable=False)

    expires_at = models.DateTimeField(null=True, blank=True)
    purge_after = models.DateTimeField(null=True, blank=True)

    mentions: Sequence[Any] = ()  # not a column: what the last detection of entities found, to be reported
    has_reports = True  # not a column: False if the query has found that there are no reports that the caller may see
    has_citations = True  # not a column: False if the query has found that no document cites the memory
    was_made_private = False  # not a column: whether this write has, because the text states a secret
    pending_message = ""  # not a column: that an edit was not made, because it waits for approval
    edit_note = ""  # not a column: what an edit tells its caller besides that it was made

    objects = MemoryRecordQuerySet.as_manager()

    class Meta:
        db_table = "memory_records"
        ordering = ["-created_at", "id"]
        verbose_name = gettext_lazy("memory")
        verbose_name_plural = gettext_lazy("memories")
        constraints = [
            models.CheckConstraint(condition=Q(status__in=Status.values), name="memory_status_known"),
            models.CheckConstraint(condition=Q(visibility__in=Visibility.values), name="memory_visibility_known"),
            models.CheckConstraint(condition=Q(dimension__in=Dimension.values), name="memory_dimension_known"),
            models.CheckConstraint(condition=Q(category__in=Category.values), name="memory_category_known"),
            models.CheckConstraint(condition=Q(confidence__in=Confidence.values), name="memory_confidence_known"),
            models.CheckConstraint(condition=Q(source__in=Source.values), name="memory_source_known"),
            models.CheckConstraint(condition=Q(tier__in=Tier.values), name="memory_tier_known"),
            models.CheckConstraint(condition=Q(attachment__in=Attachment.values), name="memory_attachment_known"),
            models.CheckConstraint(condition=~Q(created_by=""), name="memory_has_owner"),
            models.CheckConstraint(condition=~Q(content=""), name="memory_has_content"),
            models.CheckConstraint(
                condition=Q(importance__gte=0, importance__lte=1), name="memory_importance_in_unit_range"
            ),
            models.CheckConstraint(
                condition=~Q(status=Status.STALE) | Q(stale_at__isnull=False) & ~Q(stale_reason=""),
                name="memory_stale_has_reason",
            ),
            models.CheckConstraint(
                condition=~Q(status=Status.SUPERSEDED) | Q(superseded_by__isnull=False, superseded_at__isnull=False),
                name="memory_superseded_has_successor",
            ),
            models.CheckConstraint(
                condition=Q(supersedes__isnull=True) | ~Q(supersedes=F("id")),
                name="memory_not_its_own_successor",
            ),
            # Chains have no branches: a row has at most one successor that is not archived.
            models.UniqueConstraint(
                fields=["supersedes"],
                condition=~Q(status=Status.ARCHIVED),
                name="memory_one_living_successor",
            ),
            models.CheckConstraint(
                condition=Q(valid_from__isnull=True) | Q(valid_until__isnull=True) | Q(valid_until__gt=F("valid_from")),
                name="memory_valid_until_after_from",
            ),
            models.CheckConstraint(
                condition=Q(condition_ended_at__isnull=True) | ~Q(valid_while=""),
                name="memory_ended_condition_is_known",
            ),
            models.CheckConstraint(
                condition=Q(tier=Tier.NONE) | ~Q(conversation_id=""), name="memory_turn_has_conversation"
            ),
        ]
        indexes = [
            models.Index(fields=["created_by", "-created_at"], name="memory_owner_newest"),  # lists and exact scans
            models.Index(fields=["persona", "visibility", "-created_at"], name="memory_persona_newest"),  # lists, scans
            models.Index(  # the part of readable_by about rows for everyone
                fields=["-created_at"],
                condition=Q(visibility=Visibility.EVERYONE),
                name="memory_everyone_newest",
            ),
            models.Index(fields=["-created_at", "id"], name="memory_newest"),  # an admin's list
            models.Index(fields=["created_by", "persona", "content_key"], name="memory_same_text"),  # exact duplicates
            models.Index(fields=["stale_at"], condition=Q(status=Status.STALE), name="memory_stale"),  # review_stale
            models.Index(  # counts shown with the filters; the index is small, because most rows are active
                fields=["status", "-created_at"], condition=~Q(status=Status.ACTIVE), name="memory_not_active"
            ),
            models.Index(  # active memories that have not been verified for a long time
                F("last_verified_at").asc(nulls_first=True),
                condition=Q(status=Status.ACTIVE),
                name="memory_verify_next",
            ),
            models.Index(  # for the reconciler: memories without vectors of their current text
                fields=["id"],
                condition=Q(embedding_text_hash__isnull=True) & ~Q(status=Status.ARCHIVED),
                name="memory_no_vector",
            ),
            models.Index(fields=["embedding_model"], name="memory_vector_model"),  # for the reconciler: other models
            models.Index(  # a conversation, in order
                fields=["conversation_id", "thread_position"],
                condition=~Q(conversation_id=""),
                name="memory_thread",
            ),
            models.Index(  # the long-term memory derived from a turn
                fields=["derived_from"], condition=Q(derived_from__isnull=False), name="memory_derived"
            ),
            models.Index(  # a user's conversations
                fields=["created_by", "tier", "-created_at"], condition=~Q(tier=""), name="memory_conversations"
            ),
            models.Index(  # an admin's list of conversations
                fields=["-created_at"], condition=~Q(tier=""), name="memory_turns_newest"
            ),
            models.Index(fields=["quiet_at"], condition=Q(quiet_at__isnull=False), name="memory_quiet"),  # list, count
            models.Index(fields=["expires_at"], condition=Q(expires_at__isnull=False), name="memory_expiring"),
            models.Index(fields=["purge_after"], condition=Q(purge_after__isnull=False), name="memory_purging"),
            models.Index(
                fields=["valid_until"], condition=MAY_BE_OUTSIDE, name="memory_bounded"
            ),  # left out, ending soon
            models.Index(  # memories whose condition has ended
                fields=["valid_while"], condition=~Q(valid_while=""), name="memory_conditions"
            ),
            GinIndex(fields=["entity_urns"], name="memory_entities"),  # entity and graph recall, enrichment
            GinIndex(fields=["detected_urns"], name="memory_detected"),  # the same, for entities found in the text
            models.Index(  # memories in which entities have yet to be detected
                fields=["id"],
                condition=Q(entities_detected_at__isnull=True) & ~Q(status=Status.ARCHIVED) & ~Q(tier=Tier.SHORT_TERM),
                name="memory_undetected",
            ),
            models.Index(  # a person's memories of which nobody has said what they are about
                fields=["created_by", "-created_at"], condition=Q(unsettled=True), name="memory_unsettled"
            ),
            GinIndex(fields=["tags"], name="memory_tags"),  # filters
            GinIndex(fields=["search"], name="memory_words"),  # lexical search
            models.Index(  # later versions of imported memories
                F("created_by"),
                KeyTransform("source_key", "metadata"),
                condition=Q(metadata__has_key="source_key"),
                name="memory_source_key",
            ),
            models.Index(  # copies that a hand-over has archived, for erasing the memory that stayed
                fields=["created_by"], condition=Q(metadata__has_key="duplicate_of"), name="memory_duplicates"
            ),
        ]

    def __str__(self) -> str:
        return self.content if len(self.content) <= 80 else f"{self.content[:79]}…"

    def get_absolute_url(self) -> str:
        return url_for("memory", self.pk.hex)

    @property
    def validity(self) -> str:
        """Return "not_yet_valid", "expired", or "" if the memory is true now."""
        return self.validity_at(timezone.now())

    def validity_at(self, moment: datetime) -> str:
        return state_at(moment, self.valid_from, self.valid_until, self.condition_ended_at)

    @property
    def is_quiet(self) -> bool:
        """Return whether the memory is attached on request only because nobody has used it."""
        return self.attachment == Attachment.AUTOMATIC and self.quiet_at is not None

    @property
    def is_attached(self) -> bool:
        """Return whether the memory may be attached unasked: the rule of ATTACHED."""
        return self.attachment != Attachment.NEVER and not self.is_quiet

    @property
    def edited_by(self) -> str:
        """Return the address of the person who reworded the text, or "" if the owner wrote it."""
        return str(self.metadata.get(EDITED_BY) or "")

    @property
    def byline(self) -> str:
        """Return who wrote the text, for example "maya@example.org, reworded by priya@example.org"."""
        return f"{self.created_by}, reworded by {self.edited_by}" if self.edited_by else self.created_by

    @property
    def lacks_entities(self) -> bool:
        """Return whether this is a fact about data whose entity is not known.

        A text that names exactly one entity is about that one. Notes and conversations are no such facts.
        """
        is_fact = self.tier == Tier.NONE and self.source != Source.NOTE
        is_entity_known = bool(self.entity_urns) or len(self.detected_urns) == 1
        return is_fact and self.dimension in ABOUT_DATA and not is_entity_known

    @property
    def spoken(self) -> str:
        """Return the text to embed. It includes the author's name, because questions mention it."""
        return f"{self.author}: {self.content}" if self.author else self.content
