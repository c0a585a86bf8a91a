"""Check the fake DataHub with DataHub's own programs: patch builders of the SDK, command line, and aspect schemas."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from datahub.emitter.mce_builder import make_dataset_urn
from datahub.emitter.mcp import MetadataChangeProposalWrapper
from datahub.emitter.rest_emitter import DatahubRestEmitter
from datahub.metadata import schema_classes as schema
from datahub.specific.dataset import DatasetPatchBuilder
from django.conf import settings

from knowledge.catalog.current import get_catalog
from knowledge.catalog.interface import CatalogRefused, Write, WriteRun
from tests.fake_datahub import Faults, Handler
from tests.knowledge.conftest import ORDERS

pytestmark = pytest.mark.django_db
RUN = WriteRun("cs-1", "cora@example.org", {"changeset": "1"})


def emit(builder: DatasetPatchBuilder) -> None:
    emitter = DatahubRestEmitter(settings.DATAHUB_GMS_URL)
    for proposal in builder.build():
        emitter.emit(proposal)


def value(aspect: str, urn: str = ORDERS) -> Any:
    return Handler.store.value(urn, aspect)


def test_patches_of_the_sdk_are_applied_as_on_a_real_server(gms: Faults) -> None:
    stamp = schema.AuditStampClass(time=0, actor="urn:li:corpuser:x")
    emit(
        DatasetPatchBuilder(ORDERS)
        .add_tag(schema.TagAssociationClass("urn:li:tag:A"))
        .add_term(schema.GlossaryTermAssociationClass("urn:li:glossaryTerm:net"))
        .add_owner(schema.OwnerClass("urn:li:corpuser:x", schema.OwnershipTypeClass.DATA_STEWARD))
        .add_upstream_lineage(schema.UpstreamClass(make_dataset_urn("snowflake", "raw"), "COPY", auditStamp=stamp))
        .set_structured_property("urn:li:structuredProperty:pii", "none")
    )
    emit(DatasetPatchBuilder(ORDERS).add_tag(schema.TagAssociationClass("urn:li:tag:B")))
    emit(DatasetPatchBuilder(ORDERS).remove_tag("urn:li:tag:A"))
    assert [tag["tag"] for tag in value("globalTags")["tags"]] == ["urn:li:tag:B"]
    assert [term["urn"] for term in value("glossaryTerms")["terms"]] == ["urn:li:glossaryTerm:net"]
    assert "urn:li:corpuser:x" in [owner["owner"] for owner in value("ownership")["owners"]]
    assert value("upstreamLineage")["upstreams"][0]["type"] == "COPY"
    assert value("structuredProperties")["properties"][0]["values"] == [{"string": "none"}]
    # our adapter reads what the SDK wrote
    read = get_catalog().read([ORDERS], ["globalTags"])[ORDERS]["globalTags"].value
    assert read == value("globalTags")


def test_an_aspect_that_violates_the_schema_of_the_sdk_is_rejected(gms: Faults) -> None:
    wrong = Write(ORDERS, "institutionalMemory", ("elements", "https://wiki/x"), "add", {"url": "https://wiki/x"})
    with pytest.raises(CatalogRefused, match="required"):
        get_catalog().write(wrong, RUN)
    assert value("institutionalMemory") is None


@pytest.mark.parametrize("kind", ["terms", "tags"])
def test_terms_and_tags_of_a_column_form_a_valid_aspect(gms: Faults, kind: str) -> None:
    """A glossary term on a column needs the audit stamp of its list, which no patch builder adds."""
    aspect, key, urn = (
        ("glossaryTerms", "urn", "urn:li:glossaryTerm:net")
        if kind == "terms"
        else ("globalTags", "tag", "urn:li:tag:A")
    )
    path = ("editableSchemaFieldInfo", "amount", aspect, kind, urn)
    get_catalog().write(Write(ORDERS, "editableSchemaMetadata", path, "add", {key: urn}), RUN)
    metadata = value("editableSchemaMetadata")
    assert schema.EditableSchemaMetadataClass.from_obj(metadata, tuples=True).validate()
    (field,) = metadata["editableSchemaFieldInfo"]
    assert [element[key] for element in field[aspect][kind]] == [urn]


def test_the_datahub_command_line_reads_and_writes_aspects(gms: Faults, tmp_path: Path) -> None:
    file = tmp_path / "tags.json"
    file.write_text(json.dumps({"tags": [{"tag": "urn:li:tag:ByHand"}]}))
    environment = {
        **os.environ,
        "DATAHUB_GMS_URL": settings.DATAHUB_GMS_URL,
        "DATAHUB_TELEMETRY_ENABLED": "false",
        "HOME": str(tmp_path),
    }

    def datahub(*arguments: str) -> str:
        command = [sys.executable, "-m", "datahub", *arguments]
        process = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
        assert process.returncode == 0, process.stderr[-2_000:]
        return process.stdout

    datahub("put", "--urn", ORDERS, "--aspect", "globalTags", "-d", str(file))
    assert value("globalTags") == {"tags": [{"tag": "urn:li:tag:ByHand"}]}
    assert "urn:li:tag:ByHand" in datahub("get", "--urn", ORDERS, "--aspect", "globalTags")


def test_a_complete_aspect_of_the_sdk_is_accepted(gms: Faults) -> None:
    aspect = schema.GlobalTagsClass(tags=[schema.TagAssociationClass("urn:li:tag:C")])
    DatahubRestEmitter(settings.DATAHUB_GMS_URL).emit(MetadataChangeProposalWrapper(entityUrn=ORDERS, aspect=aspect))
    assert value("globalTags") == {"tags": [{"tag": "urn:li:tag:C"}]}
