"""A newcomer's story in German: sign in, find a memory, correct it, propose it, and see it in the catalog."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from playwright.sync_api import expect

FOUND = "Black week starts on the Monday before Black Friday here, not on the day itself."
CORRECTED = "Black week starts on the Sunday before Black Friday here, not on the day itself."


def test_a_newcomer_finds_corrects_and_proposes_in_german(sign_in: Callable[..., Any], site: str) -> None:
    page = sign_in("maya", locale="de-DE")
    heading = page.get_by_role("heading", level=1)
    expect(page.locator("html")).to_have_attribute("lang", "de")
    expect(heading).to_have_text("Mein Wissen")

    page.get_by_placeholder("Nach Bedeutung oder Wörtern suchen").fill("Black week starts on")
    page.get_by_role("link", name=FOUND).click()
    page.get_by_role("link", name="Korrigieren").click()
    page.get_by_label("Was soll gemerkt werden?").fill(CORRECTED)
    page.get_by_role("button", name="Korrektur speichern").click()
    page.get_by_text("Korrigiert. Der alte Text bleibt im Verlauf.", exact=True).wait_for()
    expect(heading).to_have_text(CORRECTED)

    page.get_by_role("link", name="Für den Katalog vorschlagen").click()
    page.get_by_label("Neuer Text oder Wert").first.fill(CORRECTED)
    page.get_by_role("button", name="Vorschlagen", exact=True).click()
    page.get_by_text("Vorgeschlagen. Ein Kurator prüft es.").first.wait_for()

    curator = sign_in("priya", locale="de-DE")
    curator.goto("/review/all/")
    curator.get_by_role("link", name=CORRECTED).first.click()
    curator.get_by_role("button", name="Freigeben a").click()
    curator.get_by_text("Freigegeben.").first.wait_for()
    curator.goto("/review/all/?state=approved")
    curator.get_by_role("link", name=CORRECTED).first.click()
    curator.get_by_text("Anwenden …").first.click()
    curator.get_by_role("button", name="Anwenden", exact=False).last.click()
    curator.get_by_role("link", name="Änderungssatz ansehen").first.wait_for()

    page.goto("/insights/?state=applied")
    card = page.locator(".card", has_text=CORRECTED)
    expect(card).to_contain_text("Angewendet")
    card.get_by_role("link", name="Änderungen an fernhill.sales.promotions ansehen").click()
    expect(page.locator("main")).to_contain_text(CORRECTED)
