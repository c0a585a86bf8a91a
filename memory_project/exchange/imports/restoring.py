"""Restoring the rows of an export.

A person's import makes the rows their own. It takes over nothing that is a statement of somebody else, because a file
proves nothing: verdicts, verifications and decisions of other people are refused, an insight waits for review again,
and names of others in a history are marked as imported. An admin's import of an installation keeps everything.

Rows are inserted as they are. Nobody is notified, and no hook of a change runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from django.contrib.auth import get_user_model
from django.db import DatabaseError, connection, transaction

from foundation.operations.errors import Conflict, DomainError, Forbidden, check_choice, from_database_error
from foundation.people.caller import Caller, require_user
from foundation.people.models import Persona
from memories.models import IN_USE, MemoryRecord, Status, Tombstone
from memories.models.index_job import Trigger
from memories.portability import ExportKind, Parent, Values, to_json
from memories.portable_kinds import PROPOSAL, kinds, marked
from memories.retrieval import indexing
from memories.writing.exact_duplicates import normalized_key, proposals
from memory_project.exchange.imports.rows import TakeOverOutcome

OF = "$of"  # key that the reader adds: the person whose export it is, perhaps the importer under another address


@dataclass
class RestoreCandidate:
    """A row of the file on its way into the database. `outcome` is set as soon as it is decided."""

    row: Mapping[str, Any]
    values: Values = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    links: Values = field(default_factory=dict)  # attname → primary key of a parent
    outcome: TakeOverOutcome | None = None

    def refuse(self, error: DomainError) -> None:
        self.outcome = TakeOverOutcome("conflicting" if isinstance(error, Conflict) else "refused", error.message)


def restore(
    caller: Caller, kind: str, rows: Sequence[Mapping[str, Any]], *, keep_owners: bool = False
) -> list[TakeOverOutcome]:
    """Restore rows of a kind, each with the keys of an export, and return what became of each.

    Rows that are there already are duplicates, so a repeated import changes nothing. With `keep_owners`, an admin
    restores the rows of an installation under the names of their owners.
    """
    require_user(caller)
    if keep_owners and not caller.is_admin:
        raise Forbidden("only admins can import for other people")
    chosen = kinds()[check_choice("kind", kind, kinds())]
    candidates = [RestoreCandidate(row) for row in rows]
    with transaction.atomic():
        Restoration(caller, chosen, keep_owners).run(candidates)
    return [candidate.outcome or TakeOverOutcome("refused", "was not written") for candidate in candidates]


@dataclass(frozen=True)
class Restoration:
    caller: Caller
    kind: ExportKind
    keep_owners: bool

    def run(self, candidates: Sequence[RestoreCandidate]) -> None:
        steps = [self._read, self._compare]
        if not self.keep_owners:
            steps += [self._make_own]
        for step in (*steps, self._find_parents, self._check_memories, self._compare):
            step([candidate for candidate in candidates if candidate.outcome is None])
        if self.keep_owners:
            self._report_missing(candidates)
        self._insert([candidate for candidate in candidates if candidate.outcome is None])

    # -- one row -------------------------------------------------------------------------------------------

    def _read(self, candidates: Sequence[RestoreCandidate]) -> None:
        for candidate in candidates:
            try:
                candidate.values = self.kind.parse({key: v for key, v in candidate.row.items() if key != OF})
                if not self.keep_owners:
                    self._name_importer(candidate.values, str(candidate.row.get(OF, "")))
            except DomainError as error:
                candidate.refuse(error)

    def _name_importer(self, values: Values, exported_by: str) -> None:
        """Put the importer in the place of the owner, and of the person whose export it is."""
        kind = self.kind
        if not kind.owner:
            raise Forbidden(f"only an import of the installation restores rows of the kind {kind.name}")
        for key in {kind.stated_by, *kind.names} - {""}:
            if exported_by and values[key] == exported_by:
                values[key] = self.caller.email
        if kind.owner_key:
            values[kind.owner_key] = self.caller.email

    def _make_own(self, candidates: Sequence[RestoreCandidate]) -> None:
        """Change rows to what the importer may write, and refuse what others have stated."""
        kind = self.kind
        for candidate in candidates:
            values = candidate.values
            try:
                if kind.stated_by and values[kind.stated_by] != self.caller.email:
                    raise Forbidden("is another person, whose statement can't be imported", field=kind.stated_by)
                for key in kind.names:
                    values[key] = marked(self.caller, values[key])
                if kind.adapt is not None:
                    kind.adapt(self.caller, values, candidate.remarks)
            except DomainError as error:
                candidate.refuse(error)

    # -- what rows refer to --------------------------------------------------------------------------------

    def _find_parents(self, candidates: Sequence[RestoreCandidate]) -> None:
        for parent in self.kind.parents:
            found = self._parents(parent, candidates)
            for candidate in candidates:
                self._link(candidate, parent, found)

    def _link(self, candidate: RestoreCandidate, parent: Parent, found: Mapping[tuple[Any, ...], Any]) -> None:
        key = _parent_key(parent, candidate.values)
        if None in key:
            return
        if key in found:
            candidate.links[parent.column] = found[key]
        elif parent.is_optional:
            candidate.links[parent.column] = candidate.values[parent.column] = None
            candidate.remarks.append(f"{parent.column.removesuffix('_id')} was dropped: it isn't among your rows.")
        elif candidate.outcome is None:
            name = "/".join(str(to_json(part)) for part in key)
            candidate.outcome = TakeOverOutcome("refused", f"belongs to {name}, which isn't among your rows here")

    def _parents(self, parent: Parent, candidates: Sequence[RestoreCandidate]) -> dict[tuple[Any, ...], Any]:
        """Return the primary keys of the parents that are here or come with the same rows, by their keys."""
        fields = list(parent.by.values()) or ["pk"]
        keys = [_parent_key(parent, candidate.values) for candidate in candidates]
        keys = [key for key in keys if None not in key]
        rows = parent.model._default_manager.filter(
            **{f"{name}__in": {key[index] for key in keys} for index, name in enumerate(fields)}
        )
        if not self.keep_owners:
            rows = rows.filter(**{parent.owner: self.caller.email}) if parent.owner else rows.none()
        found = {tuple(row[1:]): row[0] for row in rows.values_list("pk", *fields)}
        if parent.model is self.kind.model and not parent.by:
            found |= {(c.values["id"],): c.values["id"] for c in candidates if c.outcome is None}
        return found

    def _check_memories(self, candidates: Sequence[RestoreCandidate]) -> None:
        """Refuse memories that were erased here, and find those whose text the owner has under another id."""
        if self.kind.model is not MemoryRecord:
            return
        erased = set(Tombstone.objects.filter(pk__in=[c.values["id"] for c in candidates]).values_list("pk", flat=True))
        same_text = self._same_texts(candidates)
        for candidate in candidates:
            values = candidate.values
            if values["id"] in erased:
                candidate.outcome = TakeOverOutcome("refused", "was erased here for good")
            elif _is_fact_in_use(values) and not values.get(PROPOSAL):
                other = same_text.setdefault(_text_key(values), values["id"])
                if other != values["id"]:
                    candidate.outcome = TakeOverOutcome(
                        "duplicate", "the same text is remembered already", str(to_json(other))
                    )

    def _same_texts(self, candidates: Sequence[RestoreCandidate]) -> dict[tuple[str, ...], Any]:
        in_use = [c.values for c in candidates if _is_fact_in_use(c.values)]
        rows = MemoryRecord.objects.facts().filter(
            created_by__in={values["created_by"] for values in in_use},
            status__in=IN_USE,
            content__in={values["content"] for values in in_use},
        )
        found = list(rows.values_list("pk", "created_by", "persona", "content"))
        proposed = proposals([pk for pk, *_ in found])
        return {(owner, persona, normalized_key(text)): pk for pk, owner, persona, text in found if pk not in proposed}

    # -- what is there -------------------------------------------------------------------------------------

    def _compare(self, candidates: Sequence[RestoreCandidate]) -> None:
        """Find rows that are there already: a duplicate if the same, and conflicting if they differ.

        Called before and after rows are made the importer's own, because they may be there in either form.
        """
        here = self._stored(candidates)
        seen: set[str] = set()
        for candidate in candidates:
            name = self._name(candidate.values)
            stored = here.get(name)
            if stored is None and name in seen:
                candidate.outcome = TakeOverOutcome("duplicate", "is in the file twice", self._reference(name))
            elif stored is not None:
                is_same = stored == self._comparable(candidate.values)
                reason = "" if is_same else "a row with this id is there already, and differs"
                outcome: Literal["duplicate", "conflicting"] = "duplicate" if is_same else "conflicting"
                candidate.outcome = TakeOverOutcome(outcome, reason, self._reference(name))
            seen.add(name)

    def _stored(self, candidates: Sequence[RestoreCandidate]) -> dict[str, Values]:
        """Return the importer's rows with the keys of the candidates, as they would be compared, by name."""
        first = self.kind.key[0]
        rows = self.kind.model._default_manager.filter(
            **{f"{self.kind.lookup(first)}__in": {candidate.values[first] for candidate in candidates}}
        )
        if not self.keep_owners:
            rows = rows.filter(**{self.kind.owner: self.caller.email})
        found = {row["id"]: self._comparable(row) for row in self.kind.read(rows)}
        names = {self._name(candidate.values) for candidate in candidates}
        return {name: row for name, row in found.items() if name in names}

    def _name(self, values: Mapping[str, Any]) -> str:
        return self.kind.id_of({key: to_json(values[key]) for key in self.kind.key})

    def _reference(self, name: str) -> str:
        return name if self.kind.has_own_id else ""

    def _comparable(self, values: Mapping[str, Any]) -> Values:
        keys = set(self.kind.columns) - self.kind.counters
        return {key: to_json(values[key]) for key in keys if key in values}

    def _report_missing(self, candidates: Sequence[RestoreCandidate]) -> None:
        """Note rows of people and personas that aren't known here. No account and no persona is created."""
        key = self.kind.owner_key
        emails = {c.values[key] for c in candidates if c.outcome is None and key and c.values[key]}
        known = set(get_user_model().objects.filter(email__in=emails).values_list("email", flat=True))
        personas = set(Persona.objects.values_list("name", flat=True))
        for candidate in candidates:
            owner = candidate.values.get(key, "")
            persona = candidate.values.get("persona", "")
            if owner and owner not in known:
                candidate.remarks.append(f"{owner} has no account here.")
            if persona and persona not in personas:
                candidate.remarks.append(f"There is no persona {persona!r} here.")

    # -- writing -------------------------------------------------------------------------------------------

    def _insert(self, candidates: Sequence[RestoreCandidate]) -> None:
        """Insert the rows together, or one by one if PostgreSQL refuses one of them."""
        if not candidates:
            return
        try:
            self._insert_together(candidates)
        except DatabaseError:
            for candidate in candidates:
                try:
                    self._insert_together([candidate])
                except DatabaseError as error:
                    candidate.outcome = TakeOverOutcome("refused", _reason(error))
        self._index(
            [candidate for candidate in candidates if candidate.outcome and candidate.outcome.outcome == "kept"]
        )

    def _insert_together(self, candidates: Sequence[RestoreCandidate]) -> None:
        rows = [self._row(candidate) for candidate in candidates]
        with transaction.atomic():
            self.kind.model._default_manager.bulk_create(rows, ignore_conflicts=True)
            connection.check_constraints()  # references are otherwise checked when the whole transaction ends
        stored = self._stored(candidates)
        for candidate in candidates:
            name = self._name(candidate.values)
            if name in stored:
                candidate.outcome = TakeOverOutcome("kept", " ".join(candidate.remarks), self._reference(name))
            else:  # without telling whose it is
                candidate.outcome = TakeOverOutcome(
                    "refused", "its id, or its place among your rows, is taken by another row"
                )

    def _row(self, candidate: RestoreCandidate) -> Any:
        names = {key: self.kind.lookup(key) for key in self.kind.columns}
        values = {name: candidate.values[key] for key, name in names.items() if "__" not in name}
        row = self.kind.model(**values | candidate.links)
        if self.kind.prepare is not None:
            self.kind.prepare(row)
        return row

    def _index(self, kept: Sequence[RestoreCandidate]) -> None:
        if self.kind.index:
            ids = [c.values["id"] for c in kept if c.values.get("status") != Status.ARCHIVED]
            indexing.enqueue(self.kind.index, ids, Trigger.WRITE)


def _is_fact_in_use(values: Values) -> bool:
    return not values["tier"] and values["status"] in IN_USE


def _text_key(values: Values) -> tuple[str, ...]:
    return (values["created_by"], values["persona"], normalized_key(values["content"]))


def _parent_key(parent: Parent, values: Values) -> tuple[Any, ...]:
    return tuple(values[key] for key in parent.by or (parent.column,))


def _reason(error: DatabaseError) -> str:
    """Return why PostgreSQL refused a row, without values of other rows."""
    name = getattr(getattr(error.__cause__, "diag", None), "constraint_name", None)
    if name:
        return f"breaks the rule {name}"
    domain_error = from_database_error(error)
    return domain_error.message if domain_error else "was refused by the database"
