from __future__ import annotations

import pytest

from tests.model.machine import Stories, run
from tests.model.test_stories import callers  # noqa: F401

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("seed", [11, 12, 13, 14])
def test_long(seed, callers, monkeypatch):  # noqa: F811
    monkeypatch.setattr(Stories, "callers", callers)
    run(seed=seed, examples=40, steps=40)
