from __future__ import annotations

from typing import Any

import pytest

from knowledge.changesets import diff
from knowledge.models import Change
from memory_project.portal.templatetags.portal import word_diff
from tests.knowledge.conftest import V2_COLUMN


@pytest.mark.parametrize(
    ("aspect", "path", "title"),
    [
        ("editableDatasetProperties", ["description"], "Description"),
        ("glossaryTermInfo", ["definition"], "Definition"),
        (
            "editableSchemaMetadata",
            ["editableSchemaFieldInfo", V2_COLUMN, "description"],
            "Description of column customer.id",
        ),
        (
            "editableSchemaMetadata",
            ["editableSchemaFieldInfo", "status", "globalTags", "tags", "urn:li:tag:PII"],
            "Tag of column status",
        ),
        ("globalTags", ["tags", "urn:li:tag:PII"], "Tag"),
        ("someNewAspect", [], "Some new aspect"),
    ],
)
def test_a_path_has_a_readable_title(aspect: str, path: list[str], title: str) -> None:
    assert diff.title(aspect, path) == title


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", "plain"),
        (None, ""),
        (True, "yes"),
        ({"tag": "urn:li:tag:PII"}, "PII"),
        ({"tag": "urn:li:tag:QualityIssue", "context": "2 % test sales"}, "QualityIssue: 2 % test sales"),
        ({"owner": "urn:li:corpuser:maya@x.org", "type": "DATA_STEWARD"}, "Owner: maya@x.org\nType: DATA_STEWARD"),
        (["urn:li:domain:Sales", "urn:li:domain:Web"], "Sales, Web"),
        ({"text": "The body.", "lastModified": {"time": 1}}, "The body."),
        (
            {"name": "Net", "definition": "After refunds.", "termSource": "INTERNAL"},
            "Name: Net\nDefinition: After refunds.",
        ),
    ],
)
def test_values_are_shown_without_audit_stamps(value: Any, text: str) -> None:
    assert diff.text_of(value) == text


def plain(diff: str) -> str:
    for mark, sign in (("<del>", "["), ("</del>", "]"), ("<ins>", "{"), ("</ins>", "}")):
        diff = diff.replace(mark, sign)
    return diff.replace('<span class="sr">removed </span>', "-").replace('<span class="sr">added </span>', "+")


def test_a_diff_marks_words_and_merges_changes_around_a_short_match() -> None:
    assert plain(word_diff("Revenue excludes all refunds.", "Revenue includes all refunds.")) == (
        "Revenue [-excludes] {+includes} all refunds."
    )
    before, after = "a b c one d e f two g h i", "a b c 1 d e f 2 g h i"
    assert plain(word_diff(before, after)) == "a b c [-one] {+1} d e f [-two] {+2} g h i"
    assert plain(word_diff("x y z old and old q r s", "x y z new and new q r s")) == (
        "x y z [-old and old] {+new and new} q r s"
    )


def test_texts_with_little_in_common_are_shown_one_after_the_other() -> None:
    assert plain(word_diff("Training tills", "True for stores 9001 to 9099.")) == (
        "[-Training tills] <br>{+True for stores 9001 to 9099.}"
    )
    assert plain(word_diff("", "new")) == "{+new}"
    assert plain(word_diff("old", "")) == "[-old] "
    assert plain(word_diff("", "")) == ""


def test_a_diff_escapes_both_sides() -> None:
    assert "<b>" not in word_diff("one <b> two three four", "one <i> two three four")
    assert "<i>" not in word_diff("alpha", "<i>beta</i>")


def test_a_diff_names_entities_by_the_names_that_it_writes(db: None) -> None:
    urn = "urn:li:glossaryTerm:6631f08c-21c5-4f6e-9b0e-0a4a5a0d1c11"
    creation = Change(
        urn=urn, aspect="glossaryTermInfo", written={"name": "Net revenue", "definition": "After refunds."}
    )
    usage = Change(urn="urn:li:dataset:(x,y,z)", aspect="glossaryTerms", path=["terms", urn], written={"urn": urn})
    bookkeeping = Change(urn=urn, aspect="subTypes", written={"typeNames": ["Insight"]})
    first, second = diff.of_changes([creation, usage, bookkeeping])
    assert (first.entity, second.after) == ("Net revenue", "Net revenue")
