"""The graph that a connection works on: the user's own graph, or the graph of a persona.

The connection determines the graph. A tool argument can't change it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from uuid import UUID

from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext

from foundation.database import prepared_statements
from foundation.operations.errors import Forbidden, NotFound, check_choice
from foundation.people.caller import Caller, require_user
from foundation.people.models import Persona
from knowledge.graph.models import Graph
from memories.models import Visibility

# Every read needs the graph and every write updates it, so the SQL is written by hand: the ORM takes longer to build
# these statements than PostgreSQL to run them (bench/graph.py).
COLUMNS = [field.attname for field in Graph._meta.concrete_fields]
GRAPH = "SELECT {columns} FROM graphs WHERE {rule}"
OF_PERSON = GRAPH.format(columns=", ".join(COLUMNS), rule="created_by = %(created_by)s AND created_by <> ''")
OF_PERSONA = GRAPH.format(columns=", ".join(COLUMNS), rule="persona = %(persona)s AND created_by = ''")
CHANGED = """
    WITH touched AS (UPDATE graph_entities SET updated_at = %(now)s WHERE id = ANY(%(touched)s))
    UPDATE graphs SET changed_at = %(now)s, last_number = %(last_number)s WHERE id = %(graph)s"""


def lookup(caller: Caller) -> tuple[str, dict[str, str]]:
    """Return the SQL that selects the connection's graph, and its parameters.

    Raises Forbidden if the connection has no user, or if the user neither holds the persona nor is an admin. Raises
    NotFound if an admin names a persona that doesn't exist.
    """
    key = _key(caller)
    return OF_PERSON if key["created_by"] else OF_PERSONA, key


def graph_of(caller: Caller) -> Graph | None:
    """Return the connection's graph, or None if nothing was written to it yet. Raises the errors of lookup()."""
    return _read(*lookup(caller))


@contextmanager
def locked_graph(caller: Caller) -> Iterator[Graph]:
    """Lock the connection's graph for a transaction, creating it if necessary.

    Writers of one graph take turns, so no write is lost and there are no deadlocks. Raises the errors of lookup().
    """
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
                pass  # another transaction has just created it
            graph = Graph.objects.select_for_update().get(**key)
        yield from _saving(graph)


@contextmanager
def lock_graph(graph: Graph) -> Iterator[Graph]:
    """Lock any graph for a transaction. The calling code has to check permissions."""
    with transaction.atomic():
        yield from _saving(Graph.objects.select_for_update().get(pk=graph.pk))


def _saving(graph: Graph) -> Iterator[Graph]:
    """Yield the graph. Then save its last number and the time of change of the graph and the entities in `touched`."""
    graph.touched = set()
    yield graph
    values = {"now": timezone.now(), "touched": list(graph.touched), "graph": graph.pk}
    prepared_statements.rows(CHANGED, values | {"last_number": graph.last_number}, primary=True)


def _read(statement: str, key: Mapping[str, str]) -> Graph | None:
    return next((Graph.from_db("default", COLUMNS, row) for row in prepared_statements.rows(statement, key)), None)


def take_number(graph: Graph) -> int:
    graph.last_number += 1
    return graph.last_number


def share(caller: Caller, *, graph_id: UUID, visibility: str) -> Graph:
    """Set who may read a user's graph besides its owner. A persona's graph can't be shared further."""
    check_choice("visibility", visibility, Visibility.values)
    graph = Graph.objects.visible_to(caller).exclude(created_by="").filter(pk=graph_id).first()
    if graph is None:
        raise NotFound(gettext("no such graph"), field="graph")
    if not caller.can_edit_for(graph.created_by):
        raise Forbidden(gettext("only the owner or an admin can share a graph"))
    graph.visibility = visibility
    graph.save(update_fields=["visibility"])
    return graph


def _key(caller: Caller) -> dict[str, str]:
    require_user(caller)
    if not caller.graph:
        return {"created_by": caller.email}
    if caller.graph not in caller.personas:
        if not caller.is_admin:
            raise Forbidden(gettext("you do not hold the persona %(graph)r") % {"graph": caller.graph}, field="graph")
        if not Persona.objects.filter(name=caller.graph).exists():
            raise NotFound(gettext("there is no persona %(graph)r") % {"graph": caller.graph}, field="graph")
    return {"created_by": "", "persona": caller.graph}
