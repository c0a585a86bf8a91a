"""Entities that calls mention by a path in an object store, or by the page of a dashboard."""

from __future__ import annotations

import pytest

from knowledge.entities import entity_linking
from tests.knowledge.conftest import put

pytestmark = pytest.mark.django_db
FOLDER = "urn:li:dataset:(urn:li:dataPlatform:s3,lake/raw/orders,PROD)"
BUCKET = "urn:li:dataset:(urn:li:dataPlatform:s3,lake,DEV)"
BOARD = "urn:li:dashboard:(looker,dashboards.7)"


@pytest.fixture(autouse=True)
def entities() -> None:
    put(FOLDER, "datasetProperties", {"name": "orders", "customProperties": {}, "tags": []})
    put(BUCKET, "datasetProperties", {"name": "lake", "customProperties": {}, "tags": []})
    stamps = {
        "created": {"time": 0, "actor": "urn:li:corpuser:x"},
        "lastModified": {"time": 0, "actor": "urn:li:corpuser:x"},
    }
    put(
        BOARD,
        "dashboardInfo",
        {
            "title": "Sales",
            "description": "",
            "charts": [],
            "dashboardUrl": "https://looker.example.com/dashboards/7/",
            "lastModified": stamps,
            "customProperties": {},
        },
    )


@pytest.mark.parametrize(
    ("text", "urns"),
    [
        ("aws s3 cp s3://lake/raw/orders/2026/11.parquet .", [FOLDER]),
        ("read s3a://lake/raw/orders.", [FOLDER]),
        ("s3://lake/other/file.csv, then https://looker.example.com/dashboards/7?tab=2#top.", [BUCKET, BOARD]),
        ("(https://looker.example.com/dashboards/7)", [BOARD]),
        ("s3://lake2/raw/orders and https://looker.example.com/dashboards/77", []),
        ("gs://lake/raw/orders", []),
    ],
)
def test_entities_are_found_by_their_addresses(text: str, urns: list[str]) -> None:
    assert entity_linking.mentions_of_call({"command": text}, {}).requested == urns
    assert entity_linking.mentions_of_call({}, {"text": text}).answered == urns
