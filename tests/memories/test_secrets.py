"""Texts that state a secret, and texts that only look like it."""

from __future__ import annotations

import pytest

from foundation.operations.masking import MASK, masked
from foundation.operations.secrets import contains_secret, states_secret

TOKENS = (
    "cpl_0f9d8e7c6b5a",
    "sk_live_abcdefghijklmnop",
    "sk-ant-api03-Zx81kQvP7",
    "sk-proj-abcDEF123456",
    "sk-abcdefghijklmnopqrst",
    "ghp_abcdefghijklmnopqrstuvwx",
)


@pytest.mark.parametrize("token", TOKENS)
def test_tokens_are_told_by_how_they_begin(token: str) -> None:
    text = f"The loader signs in with {token} at night."
    assert states_secret(text)
    assert contains_secret(text)
    assert masked(text) == f"The loader signs in with {MASK} at night."


@pytest.mark.parametrize(
    "name", ["pk_customer_address_v2", "sk_fact_orders_2024", "sk-learn-pipeline-v2", "rk-feature-2025"]
)
def test_names_of_columns_and_models_are_no_tokens(name: str) -> None:
    assert not states_secret(f"The column {name} is the surrogate key since March.")
