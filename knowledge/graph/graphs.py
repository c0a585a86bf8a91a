"""Which graph a connection has: its person's own, or a persona's that they hold. Never an argument of a tool."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from uuid import UUID

from django.db import IntegrityError, transaction
from django.utils import timezone

from knowledge.graph.models import Graph
from memories.contract.errors import Forbidden, NotFound, check_choice
from memories.database import prepared_statements
from memories.identity.caller import Caller
from memories.models import Persona, Visibility

# Written out, as every call asks and every change says it: the ORM takes longer than PostgreSQL (bench/graph.py).
COLUMNS = [field.attname for field in Graph._meta.concrete_fields]
GRAPH = "SELECT {columns} FROM graphs WHERE {rule}"
OF_PERSON = GRAPH.format(columns=", ".join(COLUMNS), rule="created_by = %(created_by)s AND created_by <> ''")
OF_PERSONA = GRAPH.format(columns=", ".join(COLUMNS), rule="persona = %(persona)s AND created_by = ''")
CHANGED = """
    WITH touched AS (UPDATE graph_entities SET updated_at = %(now)s WHERE id = ANY(%(touched)s))
    UPDATE graphs SET changed_at = %(now)s, last_number = %(last_number)s WHERE id = %(graph)s"""


def lookup(caller: Caller) -> tuple[str, dict[str, str]]:
    """The statement that finds the connection's graph, if anything was written to it, and its values. Raises
    Forbidden."""
    key = _key(caller)
    return OF_PERSON if key["created_by"] else OF_PERSONA, key


def graph_of(caller: Caller) -> Graph | None:
    """The connection's graph, unless nothing was written to it yet. Raises Forbidden."""
    return _read(*lookup(caller))


@contextmanager
def changing(caller: Caller) -> Iterator[Graph]:
    """The connection's graph, made if need be and locked for the transaction: writers of one graph take turns, so
    nothing is lost between them and no two wait for each other."""
    statement, key = lookup(caller)
    with transaction.atomic():
        graph = _read(f"{statement} FOR UPDATE", key)
        if graph is None:
            try:
                with transaction.atomic():
                    persona = caller.graph or caller.persona
                    visibility = Visibility.PERSONA if caller.graph else Visibility.PRIVATE
                    Graph.objects.create(**{"persona": persona, "visibility": visibility, **key})
            except IntegrityError:
                pass  # somebody was quicker
            graph = Graph.objects.select_for_update().get(**key)
        yield from _changed(graph)


@contextmanager
def changing_one(graph: Graph) -> Iterator[Graph]:
    """As changing(), for whoever may change a graph that is not their connection's."""
    with transaction.atomic():
        yield from _changed(Graph.objects.select_for_update().get(pk=graph.pk))


def _changed(graph: Graph) -> Iterator[Graph]:
    graph.touched = set()
    yield graph
    values = {"now": timezone.now(), "touched": list(graph.touched), "graph": graph.pk}
    prepared_statements.rows(CHANGED, values | {"last_number": graph.last_number})


def _read(statement: str, key: Mapping[str, str]) -> Graph | None:
    return next((Graph.from_db("default", COLUMNS, row) for row in prepared_statements.rows(statement, key)), None)


def take_number(graph: Graph) -> int:
    graph.last_number += 1
    return graph.last_number


def share(*, caller: Caller, graph_id: UUID, visibility: str) -> Graph:
    """Sets who may read a person's graph besides its owner; a persona's is its persona's."""
    check_choice("visibility", visibility, Visibility.values)
    graph = Graph.objects.visible_to(caller).exclude(created_by="").filter(pk=graph_id).first()
    if graph is None:
        raise NotFound("no such graph", field="graph")
    if not caller.can_edit_for(graph.created_by):
        raise Forbidden("only its owner or an admin shares a graph")
    graph.visibility = visibility
    graph.save(update_fields=["visibility"])
    return graph


def _key(caller: Caller) -> dict[str, str]:
    if not caller.email:
        raise Forbidden("this connection has no identity, so it has no graph")
    if not caller.graph:
        return {"created_by": caller.email}
    if caller.graph not in caller.personas:
        if not caller.is_admin:
            raise Forbidden(f"you do not hold the persona {caller.graph!r}", field="graph")
        if not Persona.objects.filter(name=caller.graph).exists():
            raise NotFound(f"there is no persona {caller.graph!r}", field="graph")
    return {"created_by": "", "persona": caller.graph}
