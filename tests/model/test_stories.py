"""The product obeys the rules of the plain model in random stories, and in those that once broke them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from memories.identity.caller import Caller
from tests.model.machine import Stories, run
from tests.model.story import Story, catalog
from tests.model.world import populate

pytestmark = pytest.mark.django_db
EXAMPLES = 100


@pytest.fixture
def callers(db: None) -> dict[str, Caller]:
    return populate(catalog().values())


@pytest.fixture
def story(callers: dict[str, Caller]) -> Iterator[Story]:
    story = Story(callers)
    yield story
    story.close()


def test_the_product_agrees_with_the_model_in_random_stories(
    callers: dict[str, Caller], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Stories, "callers", callers)
    run(seed=None, examples=EXAMPLES, steps=30)
