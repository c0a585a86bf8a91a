"""Languages without rules: the rules of another one never take texts for the same, nor for a contradiction.

English, German and Spanish have rules. The other languages of the pairs have none.
"""

from __future__ import annotations

import pytest

from memories.texts.comparison import DifferenceKind, TextVerdict, compare

# Two claims of each pair differ in meaning, but for the ninth, which has other words only.
PAIRS = {
    "fr": [
        ("Le chiffre d'affaires inclut les remboursements.", "Le chiffre d'affaires n'inclut pas les remboursements."),
        ("Le chiffre d'affaires inclut la TVA.", "Le chiffre d'affaires exclut la TVA."),
        ("Les commandes sont livrées avant midi.", "Les commandes sont livrées après midi."),
        ("Les retours sont acceptés pendant trente jours.", "Les retours sont acceptés pendant trois jours."),
        ("Le magasin est ouvert le lundi.", "Le magasin est fermé le lundi."),
        ("Tous les clients reçoivent un bon.", "Aucun client ne reçoit de bon."),
        ("L'entrepôt de Lille ferme à six heures.", "L'entrepôt de Lyon ferme à six heures."),
        ("Les prix contiennent la taxe.", "Les prix sont sans taxe."),
        ("Le rapport est mis à jour chaque matin.", "Le rapport est actualisé tous les matins."),
        ("Paul remplace Marie.", "Marie remplace Paul."),
    ],
    "it": [
        ("Il fatturato include i rimborsi.", "Il fatturato non include i rimborsi."),
        ("Il fatturato include l'IVA.", "Il fatturato esclude l'IVA."),
        ("Gli ordini partono prima di mezzogiorno.", "Gli ordini partono dopo mezzogiorno."),
        ("I resi si accettano per trenta giorni.", "I resi si accettano per tre giorni."),
        ("Il negozio è aperto il lunedì.", "Il negozio è chiuso il lunedì."),
        ("Tutti i clienti ricevono un buono.", "Nessun cliente riceve un buono."),
        ("Il deposito di Roma chiude alle sei.", "Il deposito di Torino chiude alle sei."),
        ("I prezzi sono con imposta.", "I prezzi sono senza imposta."),
        ("Il rapporto si aggiorna ogni mattina.", "Il rapporto viene aggiornato tutte le mattine."),
        ("Paolo sostituisce Maria.", "Maria sostituisce Paolo."),
    ],
    "pt": [
        ("A receita inclui reembolsos.", "A receita não inclui reembolsos."),
        ("A receita inclui o IVA.", "A receita exclui o IVA."),
        ("Os pedidos saem antes do meio-dia.", "Os pedidos saem depois do meio-dia."),
        ("As devoluções são aceitas por trinta dias.", "As devoluções são aceitas por três dias."),
        ("A loja está aberta no domingo.", "A loja está fechada no domingo."),
        ("Todos os clientes recebem um vale.", "Nenhum cliente recebe um vale."),
        ("O armazém do Porto fecha às seis.", "O armazém de Lisboa fecha às seis."),
        ("Os dados estão no armazém.", "Os dados estão fora do armazém."),
        ("O relatório é atualizado toda manhã.", "O relatório é renovado todas as manhãs."),
        ("Paulo substitui Maria.", "Maria substitui Paulo."),
    ],
    "nl": [
        ("De omzet is inclusief terugbetalingen.", "De omzet is exclusief terugbetalingen."),
        ("De omzet bevat btw.", "De omzet bevat geen btw."),
        ("Orders vertrekken voor de middag.", "Orders vertrekken na de middag."),
        ("Retouren worden dertig dagen aangenomen.", "Retouren worden drie dagen aangenomen."),
        ("De winkel is op maandag open.", "De winkel is op maandag dicht."),
        ("Alle klanten krijgen een bon.", "Geen klant krijgt een bon."),
        ("Het magazijn in Gent sluit om zes uur.", "Het magazijn in Breda sluit om zes uur."),
        ("Prijzen zijn met belasting.", "Prijzen zijn zonder belasting."),
        ("Het rapport wordt elke ochtend ververst.", "Iedere ochtend wordt het rapport bijgewerkt."),
        ("Piet vervangt Anna.", "Anna vervangt Piet."),
    ],
    "pl": [
        ("Przychody obejmują zwroty.", "Przychody nie obejmują zwrotów."),
        ("Ceny zawierają podatek.", "Ceny są bez podatku."),
        ("Zamówienia wychodzą przed południem.", "Zamówienia wychodzą po południu."),
        ("Zwroty przyjmujemy przez trzydzieści dni.", "Zwroty przyjmujemy przez trzy dni."),
        ("Sklep jest otwarty w niedzielę.", "Sklep jest zamknięty w niedzielę."),
        ("Wszyscy klienci dostają bon.", "Żaden klient nie dostaje bonu."),
        ("Magazyn w Łodzi zamyka o szóstej.", "Magazyn w Gdyni zamyka o szóstej."),
        ("Dane są aktualne.", "Dane są nieaktualne."),
        ("Raport odświeża się co rano.", "Raport jest aktualizowany każdego ranka."),
        ("Piotr zastępuje Annę.", "Anna zastępuje Piotra."),
    ],
}
CASES = [(language, *pair) for language, pairs in PAIRS.items() for pair in pairs]
# What these rules read is the same in every language.
OF_ALL_LANGUAGES = {DifferenceKind.NAME, DifferenceKind.ORDER, DifferenceKind.NUMBER}


@pytest.mark.django_db
@pytest.mark.parametrize(("language", "first", "second"), CASES)
def test_no_rule_of_another_language_decides(language: str, first: str, second: str) -> None:
    comparison = compare(first, second)
    assert comparison.verdict != TextVerdict.SAME
    if comparison.verdict == TextVerdict.DIFFERENT:
        deciding = {each.kind for each in comparison.differences} - {DifferenceKind.WORDS}
        assert deciding <= OF_ALL_LANGUAGES, str(comparison)


@pytest.mark.django_db
@pytest.mark.parametrize("language", sorted(PAIRS))
def test_a_text_is_the_same_as_itself_in_every_language(language: str) -> None:
    for first, _ in PAIRS[language]:
        assert compare(first, f" {first.removesuffix('.')}!").verdict == TextVerdict.SAME
