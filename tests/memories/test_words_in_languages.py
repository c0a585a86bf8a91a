"""What recall finds of inflected, compound and differently written words, in eight languages.

It is found by the words alone, or only together with a model that knows the language (multilingual-e5-small).

`WORDS` is what a reader expects of a search for words. `MEANING` is what no dictionary of PostgreSQL gives, so that the
model has to.
"""

from __future__ import annotations

from typing import Any

import pytest

from foundation import embedding
from foundation.people.caller import Caller
from memories import services
from memories.operations import RecallMemories, Remember
from memories.retrieval import term_statistics
from memories.retrieval.recall import recall

WORDS, MEANING = "by words", "by meaning"
# text of the memory, question, and how it is found
CASES = [
    # German: inflection, ß and ss, umlauts, compounds
    ("Die Rechnungen werden quartalsweise verschickt.", "Rechnung verschicken", WORDS),
    ("Kunden aus Österreich zahlen keine Gebühr.", "österreichische Kunden Gebühren", WORDS),
    ("Der Großhandel bekommt einen Nachlass.", "Grosshandel Nachlass", WORDS),
    ("Die Strasse gehört zur Anschrift.", "Straße Anschrift", WORDS),
    ("Die Maßeinheit ist Kilogramm.", "MASSEINHEIT", WORDS),
    ("Überstunden verfallen im Dezember.", "Ueberstunden Dezember", WORDS),
    ("Die Umsatzsteuervoranmeldung ist am Zehnten fällig.", "Umsatzsteuer", MEANING),
    ("Der Lagerbestand wird nachts gezählt.", "Bestand zählen", MEANING),
    ("Bücher haben sieben Prozent Steuer.", "Buch Steuern", MEANING),
    ("Häuser stehen in der Tabelle immobilien.", "Haus immobilien", WORDS),
    # Spanish: inflection, accents typed or not, ñ
    ("Los pedidos cancelados no se facturan.", "pedido cancelado", WORDS),
    ("La facturación electrónica empezó en enero.", "facturacion electronica", WORDS),
    ("El año fiscal termina en junio.", "ano fiscal", WORDS),
    ("Las devoluciones se descuentan del total.", "devolución", WORDS),
    ("El envío cuesta cuatro euros.", "envios", WORDS),
    ("Los índices bursátiles se leen a diario.", "indice bursatil", WORDS),
    ("Pagamos comisiones a los vendedores.", "comision vendedor", WORDS),
    ("El código postal tiene cinco cifras.", "CODIGO POSTAL", WORDS),
    # French: inflection, accents, elision, ligatures
    ("Les factures impayées sont relancées.", "facture impayée", WORDS),
    ("L'entrepôt de Lille est fermé le lundi.", "entrepot Lille", WORDS),
    ("Les données sont chiffrées.", "donnees chiffrees", WORDS),
    ("Les clients fidèles reçoivent un bon.", "client fidele", WORDS),
    ("Un bœuf pèse une tonne dans le modèle.", "boeuf tonne", WORDS),
    ("La marge brute exclut l'impôt.", "impôts marges", WORDS),
    ("Les commandes passées la nuit comptent double.", "commande nuit", WORDS),
    ("Le numéro d'œuvre est unique.", "numero oeuvre", WORDS),
    # Italian
    ("Gli ordini annullati restano in archivio.", "ordine annullato", WORDS),
    ("La città di spedizione è obbligatoria.", "citta spedizione", WORDS),
    ("I resi si registrano entro un mese.", "registrare reso", WORDS),
    ("Le fatture elettroniche partono di notte.", "fattura elettronica", WORDS),
    ("Più magazzini condividono le scorte.", "magazzino scorta", WORDS),
    ("L'utile netto non include gli interessi.", "utili netti interesse", WORDS),
    # Portuguese
    ("As devoluções são descontadas do total.", "devolucao descontada", WORDS),
    ("O preço médio ignora promoções.", "preco medio promocao", WORDS),
    ("Os clientes novos têm crédito limitado.", "cliente novo credito", WORDS),
    ("A informação fiscal vem do município.", "informacoes fiscais", WORDS),
    ("Armazéns fechados não contam.", "armazem fechado", WORDS),
    ("A ligação falha às terças.", "ligacao terca", WORDS),
    # Dutch
    ("Retouren worden per week verwerkt.", "retour verwerken", MEANING),
    ("De facturen zijn in euro's.", "factuur euro", WORDS),
    ("Kortingen gelden alleen online.", "korting geldt", WORDS),
    ("Het magazijn telt de voorraden op zondag.", "voorraad magazijn", WORDS),
    ("De één-op-ééngesprekken staan in de agenda.", "een-op-een agenda", WORDS),
    ("Klantenservice sluit om vijf uur.", "klanten vijf uur", WORDS),
    # Polish: PostgreSQL has no dictionary
    ("Zamówienia internetowe mają osobny numer.", "zamówienia numer", WORDS),
    ("Łódź należy do regionu centralnego.", "lodz region centralny", MEANING),
    ("Zwroty są księgowane w piątek.", "zwrot księgowany", MEANING),
    ("Źródło danych to system sprzedaży.", "zrodlo danych system", WORDS),
    ("Klienci hurtowi płacą przelewem.", "klient hurtowy przelew", MEANING),
    ("Rabaty nie łączą się ze sobą.", "RABATY", WORDS),
    # Japanese and Chinese: no spaces
    ("在庫は毎晩更新されます。", "在庫", WORDS),
    ("請求書は月末に発行します。", "請求書 月末", WORDS),
    ("返品率はカテゴリごとに計算します。", "返品率", WORDS),
    ("ポイントは一年で失効します。", "ポイント", WORDS),
    ("配送料はすべて無料です。", "配送料", WORDS),
    ("库存每天早上六点更新。", "库存", WORDS),
    # every language: width, case, ligatures, emoji, digits, identifiers
    ("The ﬁscal code has ﬁve digits.", "fiscal code five", WORDS),
    ("Use ＡＢＣ１２３ as the supplier's key.", "ABC123 supplier", WORDS),
    ("Tables that begin with 🚀 are experiments.", "🚀 experiments", WORDS),
    ("The naïve forecast is the baseline.", "naive forecast", WORDS),
    ("The column sales.orders_v2.amount is in cents.", "orders_v2", WORDS),
    ("O’Brien’s list has the exceptions.", "O'Brien exceptions", WORDS),
    ("Café revenue belongs to hospitality.", "cafe revenue", WORDS),
    ("Release 4.2 changed the time zone.", "4.2 time zone", WORDS),
]


@pytest.fixture
def memories(alice: Caller, db: None) -> dict[str, Any]:
    return {text: services.remember(alice, Remember(content=text)).record for text, _, _ in CASES}


def found(caller: Caller, question: str, strategy: str) -> list[str]:
    """Return the texts of the first five memories."""
    return [hit.record.content for hit in recall(caller, RecallMemories(query=question, strategy=strategy)).hits[:5]]


def test_words_are_found_as_they_are_inflected_and_written(alice: Caller, memories: dict[str, Any]) -> None:
    term_statistics.refresh()
    missed = [
        (text, question)
        for text, question, how in CASES
        if how == WORDS and text not in found(alice, question, "lexical")
    ]
    assert not missed, "\n".join(map(str, missed))


def test_the_model_finds_what_no_dictionary_knows(alice: Caller, settings: Any) -> None:
    settings.EMBEDDING_PROVIDER = "e5"
    embedding.reset()
    for text, _, _ in CASES:
        services.remember(alice, Remember(content=text))
    term_statistics.refresh()
    missed = [(text, question) for text, question, how in CASES if text not in found(alice, question, "auto")]
    assert not missed, "\n".join(map(str, missed))
