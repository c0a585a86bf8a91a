"""Documents that cite memories: who may register them, and what they should say then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.model.expected import Expected, Memory, Person, Text

NOT_FOUND = "not_found"


@dataclass
class Cited:
    """A citation. `noted` is the reason that its author has acknowledged."""

    text: Text
    noted: str = ""
    reason: str = ""
    rollbacks: int = 0  # of the cited insight, as far as they were noticed
    is_rolled_back: bool = False
    is_unsure: bool = False  # whether it is open is taken over from the product

    @property
    def is_open(self) -> bool:
        return bool(self.reason) and self.noted != self.reason


@dataclass
class Document:
    owner: str
    cited: dict[str, Cited] = field(default_factory=dict)  # by the name of the memory
    erased: int = 0


def rollbacks_of(m: Memory) -> int:
    return m.insight.rollbacks if m.insight else 0


def may_cite(e: Expected, person: Person, m: Memory) -> set[str]:
    return set() if e.sees(person, m) else {NOT_FOUND}


class Documents:
    """The documents of a story by address. Each person registers one, which has their name."""

    def __init__(self, e: Expected) -> None:
        self.e = e
        self.rows: list[tuple[str, Document]] = []

    def of(self, person: str) -> Document | None:
        return next((row for address, row in self.rows if row.owner == person and address == person), None)

    def open(self) -> list[str]:
        """Return the people whose own document cites something that has changed."""
        rows = [row for address, row in self.rows if row.owner == address]
        return [row.owner for row in rows if row.erased or any(cited.is_open for cited in row.cited.values())]

    # -- the verbs ------------------------------------------------------------------------------------------

    def cite(self, e: Expected, person: Person, m: Memory) -> None:
        document = self.of(person.name)
        if document is None:
            document = Document(person.name)
            self.rows.append((person.name, document))
        document.cited.setdefault(m.name, Cited(m.text, rollbacks=rollbacks_of(m)))

    def acknowledge(self, person: Person) -> None:
        """A corrected memory is followed to its last correction that the person may read."""
        document = self.of(person.name)
        assert document
        document.erased = 0
        for name in [name for name, cited in document.cited.items() if cited.is_open]:
            cited, last = document.cited[name], self._last(person, self.e.memories[name])
            if cited.reason != "superseded" or last.name == name:
                cited.text, cited.noted = self.e.memories[name].text, ""
                self._update(name, cited)
                cited.noted = cited.reason
                continue
            del document.cited[name]
            if last.name not in document.cited:
                document.cited[last.name] = Cited(last.text, rollbacks=rollbacks_of(last))

    def _last(self, person: Person, m: Memory) -> Memory:
        while m.state == "superseded" and self.e.sees(person, m):
            following = self.e.memories[m.superseded_by]
            if not self.e.sees(person, following):
                break
            m = following
        return m

    def note_change(self, name: str) -> None:
        """The memory was perhaps active for a moment, after which a citation is open again."""
        for _, document in self.rows:
            if cited := document.cited.get(name):
                cited.is_unsure = True

    def hand_over(self, old: str, new: str, only: list[str] | None = None) -> list[str]:
        """Move documents whose addresses the other one has not registered. Return the addresses of those that move."""
        taken = {address for address, row in self.rows if row.owner == new}
        moved = []
        for address, row in self.rows:
            if row.owner == old and address not in taken and (only is None or address in only):
                row.owner = new
                moved.append(address)
        return moved

    # -- comparison -----------------------------------------------------------------------------------------

    def follow(self) -> None:
        """Let what has happened to the memories take effect."""
        for _, document in self.rows:
            for name in [name for name in document.cited if name not in self.e.memories]:
                del document.cited[name]
                document.erased += 1
            for name, cited in document.cited.items():
                self._update(name, cited)

    def differences(self, found: Mapping[tuple[str, str], Any]) -> list[str]:
        """Compare with what the product says of each document, by owner and address."""
        for address, row in self.rows:
            in_product: Mapping[str, Any] = (found.get((row.owner, address)) or (0, {}))[1]
            for name, cited in row.cited.items():
                if cited.is_unsure and name in in_product:
                    cited.noted = "" if in_product[name][1] else cited.reason
                cited.is_unsure = False
        expected = {
            (row.owner, address): (row.erased, {name: (c.reason, c.is_open) for name, c in row.cited.items()})
            for address, row in self.rows
        }
        return [
            f"the document {address} of {owner} has {found.get((owner, address))}, not {right}"
            for (owner, address), right in expected.items()
            if found.get((owner, address)) != right
        ]

    def _update(self, name: str, cited: Cited) -> None:
        m = self.e.memories[name]
        if rollbacks_of(m) > cited.rollbacks:
            cited.is_rolled_back = True
        elif m.insight and m.insight.state == "applied":
            cited.is_rolled_back = False
        cited.rollbacks = rollbacks_of(m)
        if m.status != "active":
            cited.reason = m.status
        elif m.text != cited.text:
            cited.reason = "edited"
        elif m.ends == "past":
            cited.reason = "invalid"
        else:
            cited.reason = "rolled_back" if cited.is_rolled_back else ""
        if cited.noted != cited.reason:
            cited.noted = ""
