"""What a database distributed over several servers would not accept, or would answer from all of them.

The plan is that of docs/scaling.md: memories are distributed by the hash of their id, and the rows that belong to one
memory lie with it. All other tables are on every server or on one. The rules are those of Citus: a unique constraint of
a distributed table contains the distribution column, a foreign key between two of them leads from one distribution
column to the other, they are joined by that column, and rows are locked on one server at a time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from django.apps import apps
from django.db import models
from sqlglot import exp, parse_one
from sqlglot.optimizer.scope import Scope, traverse_scope

# the column that distributes each table
DISTRIBUTED = {
    "memory_records": "id",
    "caveat_waivers": "record_id",
    "contradiction_scans": "record_id",
    "entity_baselines": "record_id",
    "insights": "record_id",
    "insight_decisions": "insight_id",
    "memory_checks": "record_id",
    "memory_citations": "record_id",
    "memory_feedback": "record_id",
    "memory_passages": "record_id",
    "memory_quotations": "record_id",
    "memory_reports": "record_id",
    "memory_revisions": "record_id",
    "memory_showings": "record_id",
    "memory_tombstones": "record_id",
    "memory_verifications": "record_id",
    "suggestions": "record_id",
}
PLACEHOLDER = re.compile(r"%\(\w+\)s|%s")


# -- tables ----------------------------------------------------------------------------------------------


def problems_of_tables() -> Iterator[str]:
    for model in apps.get_models():
        if not model._meta.proxy:
            yield from _problems_of_keys(model)
            yield from _problems_of_references(model)


def _problems_of_keys(model: type[models.Model]) -> Iterator[str]:
    table = model._meta.db_table
    if key := DISTRIBUTED.get(table):
        for columns in _unique_columns(model):
            if key not in columns:
                yield f"{table}: unique ({', '.join(columns)}) lacks {key}"


def _unique_columns(model: type[models.Model]) -> Iterator[list[str]]:
    columns = {field.name: str(field.column) for field in model._meta.concrete_fields}
    for field in model._meta.concrete_fields:
        if field.unique and not (field.primary_key and can_be_extended(model)):
            yield [str(field.column)]
    for constraint in model._meta.constraints:
        if isinstance(constraint, models.UniqueConstraint):
            expressions = [str(expression) for expression in constraint.expressions]
            yield [columns[name] for name in constraint.fields] + expressions


def can_be_extended(model: type[models.Model]) -> bool:
    """Return whether the table's primary key can get the distribution column as a second one, by one statement.

    It can if no foreign key refers to it. Rows are still found by the first column, and the code does not change.
    """
    return not any(getattr(relation.field, "db_constraint", True) for relation in model._meta.related_objects)


def extended_keys() -> list[str]:
    """Return the statements that extend these keys before the tables are distributed."""
    return sorted(
        f"ALTER TABLE {table} DROP CONSTRAINT {table}_pkey,"
        f" ADD PRIMARY KEY ({model._meta.pk.column}, {DISTRIBUTED[table]})"
        for model in apps.get_models()
        if (table := model._meta.db_table) in DISTRIBUTED
        and model._meta.pk.column != DISTRIBUTED[table]
        and can_be_extended(model)
    )


def _problems_of_references(model: type[models.Model]) -> Iterator[str]:
    table = model._meta.db_table
    for field in model._meta.concrete_fields:
        if field.remote_field is None or not getattr(field, "db_constraint", True):
            continue
        target = field.remote_field.model._meta.db_table
        if target in DISTRIBUTED and table not in DISTRIBUTED:
            yield f"{table}.{field.column} refers to the distributed table {target}"
        elif target in DISTRIBUTED and field.column != DISTRIBUTED[table]:
            yield f"{table}.{field.column} refers to {target} on another server"


# -- statements ------------------------------------------------------------------------------------------

Place = tuple[int, str]  # a table in a FROM clause: the scope's number in memory, and the table's name there


def problems_of_statement(statement: str) -> Iterator[str]:
    """Yield what the rules forbid, and "asks every server: TABLES" if no value chooses the server."""
    tree = parse_one(PLACEHOLDER.sub("$1", statement), dialect="postgres")
    tables = {table.name for table in tree.find_all(exp.Table)} & DISTRIBUTED.keys()
    if not tables or (isinstance(tree, exp.Insert) and isinstance(tree.expression, exp.Values)):
        return  # a new row goes to the server of its key
    names = ", ".join(sorted(tables))
    is_joined, has_value = _joined_by_key(_as_query(tree.copy()))
    if not is_joined:
        yield f"joins otherwise than by the key: {names}"
    if not has_value:
        yield f"asks every server: {names}"
        if tree.find(exp.Lock):
            yield f"locks rows on every server: {names}"
    if any(isinstance(cte.this, exp.Insert | exp.Update | exp.Delete) for cte in tree.find_all(exp.CTE)):
        yield f"changes rows within WITH: {names}"


def _as_query(tree: exp.Expr) -> exp.Expr:
    """Return a SELECT of the rows that an UPDATE or DELETE changes; other statements as they are."""
    for part in [tree, *(cte.this for cte in tree.find_all(exp.CTE))]:
        if isinstance(part, exp.Update | exp.Delete):
            query = exp.select("1").from_(part.this.copy()).where(part.args["where"].this.copy())
            if part is tree:
                return query
            part.replace(query)
    return tree


def _joined_by_key(tree: exp.Expr) -> tuple[bool, bool]:
    """Return whether all joins are by keys, and whether every table, or one joined with it, has a value for its key.

    Equations count wherever they are, also within OR and NOT.
    """
    scopes = list(traverse_scope(tree))
    root = {(id(scope), name): (id(scope), name) for scope in scopes for name in scope.sources if _key(scope, name)}
    place_of: dict[int, Place] = {}
    for scope in scopes:  # inner ones first, whose columns the outer ones list again
        for column in scope.columns:
            if place := _place(scope, column):
                place_of.setdefault(id(column), place)

    def find(place: Place) -> Place:
        return place if root[place] == place else find(root[place])

    valued: set[Place] = set()
    for equation in tree.find_all(exp.EQ, exp.In):
        query = equation.args.get("query") or (equation.expression if equation.find(exp.Any) else None)
        other = query.find(exp.Select).selects[0] if query and query.find(exp.Select) else equation.expression
        left, right = (place_of.get(id(side.unnest())) if side else None for side in (equation.this, other))
        if left and right:
            root[find(left)] = find(right)
        elif (side := left or right) and not equation.find(exp.Select):
            valued.add(side)
    is_joined = all(len({find(place) for place in _joined(scope)}) < 2 for scope in scopes)
    return is_joined, {find(place) for place in root} <= {find(place) for place in valued}


def _joined(scope: Scope) -> Iterator[Place]:
    """Yield a place for each source of a SELECT, and one of the SELECT around it that it refers to."""
    for source in [*scope.tables, *scope.derived_tables]:
        yield from islice(_places(scope, source.alias_or_name), 1)
    if scope.is_correlated_subquery and scope.parent:
        yield from islice(_joined(scope.parent), 1)


def _places(scope: Scope, name: str) -> Iterator[Place]:
    """Yield the table, or those whose keys a subquery selects. One that selects no key, such as a count, goes along."""
    source = scope.sources.get(name)
    if isinstance(source, Scope):
        names = source.outer_columns or [part.alias_or_name for part in _selects(source)]
        yield from (place for column in names if (place := _selected_place(source, column)))
    elif source is not None and _key(scope, name):
        yield (id(scope), name)


def _key(scope: Scope, name: str) -> str:
    source = scope.sources[name]
    return DISTRIBUTED.get(source.name, "") if isinstance(source, exp.Table) else ""


def _place(scope: Scope, column: exp.Column) -> Place | None:
    """Return the table whose key the column is, also through subqueries that select it."""
    chosen = {source.alias_or_name for source in [*scope.tables, *scope.derived_tables]}
    name = column.table or (chosen.pop() if len(chosen) == 1 else "")
    source = scope.sources.get(name)
    if isinstance(source, Scope):
        return _selected_place(source, column.name)
    return (id(scope), name) if source is not None and _key(scope, name) == column.name else None


def _selected_place(scope: Scope, name: str) -> Place | None:
    if scope.set_operation_scopes:
        return _selected_place(scope.set_operation_scopes[0], name)
    names = scope.outer_columns or [part.alias_or_name for part in _selects(scope)]
    selected = dict(zip(names, _selects(scope), strict=False)).get(name, exp.null()).unalias()
    return _place(scope, selected) if isinstance(selected, exp.Column) else None


def _selects(scope: Scope) -> list[exp.Expr]:
    return list(scope.expression.selects) if isinstance(scope.expression, exp.Query) else []
