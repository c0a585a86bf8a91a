"""Values of structured properties follow the type, cardinality, allowed values and entity types of the definition."""

from __future__ import annotations

from typing import Any

import pytest

from foundation.operations.errors import Invalid
from foundation.people.caller import Caller
from knowledge.catalog.interface import Catalog
from knowledge.changesets import rollback
from knowledge.changesets.property_values import parse_values
from tests.knowledge.changeset_examples import apply, change
from tests.knowledge.conftest import ORDERS, put

PROPERTY = "urn:li:structuredProperty:retention"
CORA = "urn:li:corpuser:cora@example.org"


def definition(kind: str, **fields: Any) -> dict[str, Any]:
    return {"valueType": f"urn:li:dataType:datahub.{kind}", "cardinality": "MULTIPLE", **fields}


def define(kind: str, **fields: Any) -> None:
    carriers = ["urn:li:entityType:datahub.dataset"]
    put(
        PROPERTY,
        "propertyDefinition",
        {"qualifiedName": "retention", "entityTypes": carriers, **definition(kind, **fields)},
    )


def stored(catalog: Catalog) -> list[dict[str, Any]]:
    aspect = catalog.read([ORDERS], ["structuredProperties"])[ORDERS]["structuredProperties"].value or {}
    return [value for entry in aspect.get("properties", []) for value in entry["values"]]


@pytest.mark.parametrize(
    ("kind", "detail", "values"),
    [
        ("string", "4711", [{"string": "4711"}]),
        ("string", '["007", 9007199254740993]', [{"string": "007"}, {"string": "9007199254740993"}]),
        ("number", "4711", [{"double": 4711.0}]),
        ("number", "[1e22, -0.1]", [{"double": 1e22}, {"double": -0.1}]),
        ("date", "2026-03-31", [{"string": "2026-03-31"}]),
        ("urn", CORA, [{"string": CORA}]),
        ("rich_text", "**[see](x)** 90", [{"string": "**[see](x)** 90"}]),
    ],
)
def test_a_value_is_stored_by_the_type_of_the_property(
    either_catalog: Catalog, alice: Caller, cora: Caller, kind: str, detail: str, values: list[Any]
) -> None:
    define(kind)
    applied = apply(alice, cora, change("set_structured_property", "retention", detail))
    assert (applied.changeset.state, stored(either_catalog)) == ("applied", values)
    undone = rollback.roll_back(cora, changeset_id=applied.changeset.pk)
    assert (undone.conflicts, stored(either_catalog)) == ([], [])


@pytest.mark.parametrize("detail", ["NaN", "[NaN]", "9007199254740993"])
def test_a_value_that_does_not_fit_is_refused_before_anything_is_written(
    either_catalog: Catalog, alice: Caller, cora: Caller, detail: str
) -> None:
    define("number")
    with pytest.raises(Invalid, match=r"^detail: .*number"):
        apply(alice, cora, change("set_structured_property", "retention", detail))
    assert stored(either_catalog) == []


@pytest.mark.parametrize(
    ("kind", "detail", "message"),
    [
        (
            "number",
            "ninety",
            "'ninety' is not a number; allowed: a finite number, because the property's type is number",
        ),
        ("number", "١٢", "is not a number"),  # digits of another script
        ("number", "1_000", "is not a number"),
        ("number", "Infinity", "is not a number"),
        ("number", "[-Infinity]", "contains -Infinity, which is not JSON"),
        ("number", "[true]", "value 1 is empty, or neither a text nor a number"),
        ("number", "[[1]]", "value 1 is empty, or neither a text nor a number"),
        ("number", "[]", "is an empty list"),
        ("number", "[" * 9000, "is not a number"),
        ("number", "1e999", "is out of range"),
        ("number", "1e-400", "as 0"),
        ("number", "9007199254740993", "would be stored as 9007199254740992"),
        ("number", "1e23", "would be stored as 99999999999999991611392"),
        ("number", "0.12345678901234567891", "would be stored as 0.12345678901234568"),
        ("date", "2026-02-30", "'2026-02-30' is not a date; allowed: an ISO 8601 date such as 2026-03-31"),
        ("date", "20260331", "is not a date"),
        ("date", "2026-03-31T12:00:00Z", "is not a date"),
        ("urn", "sales.orders", "is not a URN"),
        ("urn", "urn:li:corpuser", "is not a DataHub URN"),
        ("string", '["", "a"]', "value 1 is empty"),
    ],
)
def test_a_refusal_names_the_value_and_what_is_allowed(kind: str, detail: str, message: str) -> None:
    with pytest.raises(Invalid) as error:
        parse_values(definition(kind), detail)
    assert error.value.field == "detail"
    assert message in error.value.message


def test_a_property_takes_several_values_only_if_it_says_so() -> None:
    assert len(parse_values(definition("string"), '["a", "b"]')) == 2
    for cardinality in ("SINGLE", None):
        with pytest.raises(Invalid, match="one value, because the property is single-valued"):
            parse_values(definition("string", cardinality=cardinality), '["a", "b"]')


def test_only_allowed_values_and_entity_types_are_accepted() -> None:
    levels = definition("number", allowedValues=[{"value": {"double": 1}}, {"value": {"double": 2.0}}])
    assert parse_values(levels, "[1, 2.0]") == [{"double": 1.0}, {"double": 2.0}]
    with pytest.raises(Invalid, match=r"'3.0' is not an allowed value of the property; allowed: 1, 2.0"):
        parse_values(levels, "[1, 3]")
    people = definition("urn", typeQualifier={"allowedTypes": ["urn:li:entityType:datahub.corpUser"]})
    assert parse_values(people, CORA) == [{"string": CORA}]
    with pytest.raises(Invalid, match="is a tag; allowed: URNs of corpUser"):
        parse_values(people, "urn:li:tag:x")


def test_a_type_that_is_not_known_is_refused() -> None:
    with pytest.raises(Invalid, match=r"^target: is a property of type geo; allowed: properties of type string"):
        parse_values(definition("geo"), "52.1")


def test_a_property_is_set_only_on_the_entities_that_it_is_defined_for(
    either_catalog: Catalog, alice: Caller, cora: Caller
) -> None:
    define("string")
    with pytest.raises(Invalid, match=r"^target: is a property of dataset; allowed: properties of glossaryTerm"):
        apply(alice, cora, change("set_structured_property", "retention", "x"), urn="urn:li:glossaryTerm:net")
