"""What the rules find in sessions, and above all what they leave alone."""

from __future__ import annotations

import subprocess
import sys
from base64 import b64encode
from pathlib import Path
from secrets import token_bytes, token_urlsafe

import pytest

from foundation.operations.masking import masked
from foundation.operations.secrets import contains_secret, states_secret
from memory_project.agents.hook_program.candidates import SessionMessage, SuggestionCandidate, find_candidates

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "bench"))

import suggestions as bench

ANSWER = SessionMessage("assistant", "Net revenue was 1.8 M in March, from sales.revenue_mart.")


def found(text: str, *, before: tuple[SessionMessage, ...] = (ANSWER,)) -> list[SuggestionCandidate]:
    return find_candidates([*before, SessionMessage("user", text)])


@pytest.mark.parametrize(("prefix", "floor"), [("known", 0.95), ("unseen", 0.6)])
def test_recorded_sessions(prefix: str, floor: float) -> None:
    total = bench.Score()
    for session in bench.sessions(prefix):
        total += bench.score(session)
    assert total.precision >= 0.8, total.wrong
    assert total.recall >= floor, total.missed


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("We decided that orders below 1 EUR are test orders and never count.", "decision"),
        ("From now on reports exclude the warehouses of the shop.", "decision"),
        ("Ab sofort zählen Retouren erst nach der Prüfung zum Bestand.", "decision"),
        ("A partir de ahora los informes de ventas excluyen los almacenes.", "decision"),
        ("No, net revenue excludes refunds, they are in refund_eur.", "correction"),
        ("That's wrong. Swiss orders land in sales.revenue_mart two days late.", "correction"),
        ("Nein, das stimmt nicht. Umsätze stehen in sales.revenue_mart ohne Steuer.", "correction"),
        ("Eso no es correcto: las ventas están sin IVA en net_amount.", "correction"),
    ],
)
def test_decisions_and_corrections_are_found(text: str, kind: str) -> None:
    assert [candidate.kind for candidate in found(text)] == [kind]


@pytest.mark.parametrize(
    "text",
    [
        "Should we exclude refunds from the revenue of the shop?",
        "If we decided to exclude refunds, revenue would be lower in March.",
        "Lena says we decided to exclude refunds from revenue in May.",
        "haha we decided to never refund orders again",
        "No, use tabs in the file of the revenue report please",
        "Fix the test of the orders table and run it again",
        "From now on I will make these revenue reports myself",
        "I think net revenue probably excludes refunds, not sure",
        "No, excludes refunds.",
        "> We decided that orders below 1 EUR are test orders.",
        "```\nWe decided that orders below 1 EUR are test orders.\n```",
        "<commonplace-memories>\nWe decided that orders below 1 EUR are test orders.\n</commonplace-memories>",
        "<system-reminder>We decided that orders below 1 EUR are test orders.</system-reminder>",
        "2025-10-02 12:00 We decided that orders below 1 EUR are test orders.",
        "We decided that the API uses token sk_live_9a8b7c6d5e4f3a2b1c0d for orders.",
    ],
)
def test_what_does_not_count(text: str) -> None:
    assert found(text) == []


def test_agents_and_tools_decide_nothing() -> None:
    text = "We decided that orders below 1 EUR are test orders and never count."
    assert (
        find_candidates([SessionMessage("assistant", text), SessionMessage("tool", text, "Bash", "cat notes.txt")])
        == []
    )


def test_a_decision_that_was_taken_back_is_not_proposed() -> None:
    decided = SessionMessage("user", "We decided to load fct_orders incrementally on order_date.")
    done = SessionMessage("assistant", "Done.")
    assert found("Wait, scratch that.", before=(ANSWER, decided, done)) == []


def test_a_statement_that_works_with_another_name() -> None:
    def call(sql: str, result: str, *, is_error: bool = False) -> list[SessionMessage]:
        given = {"command": f'psql -c "{sql}"'}
        return [SessionMessage("assistant", "", "Bash", given), SessionMessage("tool", result, "Bash", given, is_error)]

    fails = call("SELECT sum(net_revenue) FROM sales.mart", 'column "net_revenue" does not exist', is_error=True)
    works = call("SELECT sum(net_revenue_eur) FROM sales.mart", "1820331")
    (candidate,) = find_candidates([*fails, *works])
    assert candidate.kind == "failed_statement"
    assert candidate.text == "In sales.mart, the column is net_revenue_eur. A column net_revenue does not exist."
    assert candidate.entities == ("sales.mart",)
    assert find_candidates(fails) == []
    refused = call("SELECT sum(net_revenue) FROM sales.mart", "connection refused", is_error=True)
    assert find_candidates([*refused, *works]) == []
    slip = call("SELECT sum(net_revenue_eu) FROM sales.mart", 'column "net_revenue_eu" does not exist', is_error=True)
    assert find_candidates([*slip, *works]) == []


def test_long_sessions_and_hostile_texts_are_read_quickly_and_have_a_limit() -> None:
    many = [
        SessionMessage("user", f"We decided that orders of shop number {n}{n} are test orders.") for n in range(2_000)
    ]
    assert len(find_candidates([ANSWER, *many])) == 10
    hostile = ["isn't " * 500, "<a-b" * 5_000, '"' * 20_000, "we have wir haben " * 150, " | " * 6_000]
    assert find_candidates([ANSWER, *(SessionMessage("user", text) for text in hostile)]) == []


def test_the_rules_need_no_django() -> None:
    code = """import sys, memory_project.agents.hook_program.candidates
assert not any(m.startswith('django') for m in sys.modules)"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the password is hunter22", True),
        ("DB_PASSWORD=hunter22", True),
        ("postgres://ana:geheim@db/sales", True),
        ("export KEY=AKIAIOSFODNN7EXAMPLE", True),
        ("digest 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", True),
        ("tokens are counted in usage_by_customer_and_month_2025", False),
        ("urn:li:dataset:(urn:li:dataPlatform:postgres,sales.revenue_mart_daily_2025,PROD)", False),
        ("the memory 3f2c1b7e-5d7c-4b57-9a51-0d8f6a1c2b3d says so", False),
    ],
)
def test_secrets(text: str, expected: bool) -> None:
    assert contains_secret(text) == expected


SECRETS = (
    "the password for warehouse: hunter2!",
    "DB_PASSWORD=hunter22",
    "pwd: geheim12",
    "The API key of the mail service is 9fk2-33ab-77",
    "postgres://ana:geheim@db/sales",
    "mysql -u root -phunter2 sales",
    "Authorization: Basic dXNlcjpwYXNzMTIz",
    "AccountKey=Zm9vYmFy0123==;EndpointSuffix=core",
    "-----BEGIN RSA PRIVATE KEY-----",
    "token glpat-abcdefghijklmnop1234 for the runner",
)
FACTS = (
    "The password is stored hashed in the users table.",
    "The token is required for every call.",
    "authorization: curators only",
    "The column api_key: text is never exported.",
    "Passwords expire after 90 days, so expect failed logins.",
    "The secret of good revenue numbers is a clean calendar.",
    "The table credentials has 12 columns.",
    "Access key holders are listed in sales.keys_2025.",
    "usage_by_customer_and_month_2025 counts tokens.",
    "urn:li:dataset:(urn:li:dataPlatform:postgres,sales.revenue_mart_daily_2025,PROD)",
)


@pytest.mark.parametrize("text", SECRETS)
def test_stated_secrets(text: str) -> None:
    assert states_secret(text)


@pytest.mark.parametrize("text", FACTS)
def test_facts_about_secrets_state_none(text: str) -> None:
    assert not states_secret(text)


def test_tokens_of_our_own_are_always_recognized_and_masked() -> None:
    for number in range(3_000):
        made = [
            f"cpl_{token_urlsafe(32)}",
            f"whsec_{token_urlsafe(18 + number % 15)}",
            f"whsec_{b64encode(token_bytes(24)).decode()}",
        ]
        for token in made:
            text = f"The agent uses {token} for its calls."
            assert contains_secret(text), token
            assert states_secret(text), token
            assert token not in masked(text), token
