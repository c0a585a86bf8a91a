"""Documents that cite memories: what they should say, beside what the product says."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from memories.citations import queries
from memories.citations.operations import ChangeCiting
from memories.citations.services import add_citations, change
from memories.models import Citation, CitingDocument
from memory_project.models import Notification
from tests.model.expected import Expected, Memory, Person
from tests.model.world import World, email

NOT_FOUND = "not_found"


@dataclass
class Cited:
    """A citation. `noted` is the reason that its author has acknowledged."""

    text: str
    noted: str = ""
    reason: str = ""
    insight_state: str = ""
    is_rolled_back: bool = False

    @property
    def is_open(self) -> bool:
        return bool(self.reason) and self.noted != self.reason


@dataclass
class Document:
    owner: str
    cited: dict[str, Cited] = field(default_factory=dict)  # by the name of the memory
    erased: int = 0


class Documents:
    """The documents of a story by address. Each person registers one, which has their name."""

    def __init__(self, e: Expected, world: World) -> None:
        self.e, self.world = e, world
        self.rows: list[tuple[str, Document]] = []

    def of(self, person: str) -> Document | None:
        return next((row for address, row in self.rows if row.owner == person and address == person), None)

    def open(self) -> list[str]:
        """Return the people whose own document cites something that has changed."""
        rows = [row for address, row in self.rows if row.owner == address]
        return [row.owner for row in rows if row.erased or any(cited.is_open for cited in row.cited.values())]

    # -- the verbs ------------------------------------------------------------------------------------------

    def may_cite(self, person: Person, m: Memory) -> set[str]:
        return set() if self.e.sees(person, m) else {NOT_FOUND}

    def cite(self, person: Person, m: Memory) -> None:
        document = self.of(person.name)
        if document is None:
            document = Document(person.name)
            self.rows.append((person.name, document))
        state = m.insight.state if m.insight else ""
        document.cited.setdefault(m.name, Cited(str(m.text), insight_state=state))

    def acknowledge(self, person: Person) -> None:
        """A corrected memory is followed to its last correction that the person may read."""
        document = self.of(person.name)
        assert document
        document.erased = 0
        for name in [name for name, cited in document.cited.items() if cited.is_open]:
            cited, last = document.cited[name], self._last(person, self.e.memories[name])
            if cited.reason != "superseded" or last.name == name:
                cited.text, cited.noted = str(self.e.memories[name].text), ""
                self._update(name, cited)
                cited.noted = cited.reason
                continue
            del document.cited[name]
            if last.name not in document.cited:
                state = last.insight.state if last.insight else ""
                document.cited[last.name] = Cited(str(last.text), insight_state=state)

    def _last(self, person: Person, m: Memory) -> Memory:
        while m.state == "superseded" and self.e.sees(person, m):
            following = self.e.memories[m.superseded_by]
            if not self.e.sees(person, following):
                break
            m = following
        return m

    def hand_over(self, old: str, new: str) -> None:
        taken = {address for address, row in self.rows if row.owner == new}
        for address, row in self.rows:
            if row.owner == old and address not in taken:
                row.owner = new

    # -- on the product -------------------------------------------------------------------------------------

    def do_cite(self, who: str, name: str) -> None:
        add_citations(who, [self.world.ids[name]], caller=self.world.callers[who])

    def do_acknowledge(self, who: str) -> None:
        caller = self.world.callers[who]
        document = queries.documents(caller).get(address=who)
        until = queries.last_change(document, queries.cited_by(caller, document))
        if until:
            change(ChangeCiting(document_id=document.pk, acknowledged_until=until), caller=caller)

    # -- comparison -----------------------------------------------------------------------------------------

    def differences(self) -> list[str]:
        """Let what has happened to memories take effect, and compare."""
        for _, document in self.rows:
            for name in [name for name in document.cited if name not in self.e.memories]:
                del document.cited[name]
                document.erased += 1
            for name, cited in document.cited.items():
                self._update(name, cited)
        if not self.rows:
            return []
        expected = {(email(row.owner), address): self._expected(row) for address, row in self.rows}
        found = self._found()
        return [
            f"the document {address} of {owner} has {found.get((owner, address))}, not {right}"
            for (owner, address), right in expected.items()
            if found.get((owner, address)) != right
        ]

    def _update(self, name: str, cited: Cited) -> None:
        m = self.e.memories[name]
        state = m.insight.state if m.insight else ""
        if state != cited.insight_state:
            cited.is_rolled_back = cited.insight_state == "applied" and state == "pending"
            cited.insight_state = state
        if m.status != "active":
            cited.reason = m.status
        elif str(m.text) != cited.text:
            cited.reason = "edited"
        else:
            cited.reason = "rolled_back" if cited.is_rolled_back else ""
        if cited.noted != cited.reason:
            cited.noted = ""

    def _expected(self, row: Document) -> Any:
        return row.erased, {name: (cited.reason, cited.is_open) for name, cited in row.cited.items()}

    def _found(self) -> dict[tuple[str, str], Any]:
        names = {pk: name for name, pk in self.world.ids.items()}
        found: dict[tuple[str, str], Any] = {}
        keys = {}
        for pk, owner, address, erased in CitingDocument.objects.values_list("pk", "created_by", "address", "erased"):
            found[owner, address] = (erased, {})
            keys[pk] = owner, address
        for citation in Citation.objects.all():
            found[keys[citation.document_id]][1][names[citation.record_id]] = citation.reason, citation.is_open
        return found | self._unread(found, keys)

    def _unread(self, found: dict[tuple[str, str], Any], keys: dict[Any, tuple[str, str]]) -> dict[Any, Any]:
        """A document of which nothing is open has no unread notification."""
        unread = set(Notification.objects.filter(kind="cited", read_at=None).values_list("record_id", flat=True))
        settled = {
            pk for pk, key in keys.items() if not found[key][0] and not any(o for _, o in found[key][1].values())
        }
        return {keys.get(pk, pk): "an unread notification of nothing" for pk in unread & settled}
