"""The expected catalog: entities, and the values that others and changesets gave them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Snapshot:
    """What matters for staleness about an entity at one moment."""

    exists: bool
    deprecated: bool
    columns: tuple[tuple[str, str, bool], ...]  # name, type, nullable


@dataclass
class Layer:
    """A value at a place, and the changeset that relies on it. The lowest layer is what others gave."""

    value: Any  # None means that there is no value
    changeset: str = ""


@dataclass
class Entity:
    name: str
    exists: bool
    columns: dict[str, tuple[str, bool]]
    layers: dict[str, list[Layer]] = field(default_factory=dict)  # by place: description, deprecation, tag …

    def value(self, place: str) -> Any:
        return self.layers[place][-1].value if place in self.layers else None

    def set_by_others(self, place: str, value: Any) -> None:
        self.layers[place] = [Layer(value)]

    def set_by(self, changeset: str, place: str, value: Any) -> None:
        self.layers.setdefault(place, [Layer(None)]).append(Layer(value, changeset))

    def snapshot(self) -> Snapshot:
        columns = tuple(sorted((name, kind, nullable) for name, (kind, nullable) in self.columns.items()))
        return Snapshot(self.exists, self.value("deprecation") is not None, columns if self.exists else ())


def catalog() -> dict[str, Entity]:
    """The catalog in which each story begins. Nobody touches `anchor`: the check skips an empty catalog."""
    number, text = ("NUMBER", False), ("VARCHAR", True)
    entities = [
        Entity("orders", True, {"order_id": number, "amount": number, "status": text}),
        Entity("refunds", True, {"refund_id": number, "reason": text}),
        Entity("plans", True, {"planNo": number, "name": text}),
        Entity("drafts", False, {"draft_id": number, "title": text}),
        Entity("anchor", True, {"anchor_id": number}),
    ]
    return {entity.name: entity for entity in entities}
