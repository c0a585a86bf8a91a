"""Words of English, German and Spanish that the comparison of claims treats by their role in a sentence.

Stems come from PostgreSQL's Snowball dictionaries, names of months and weekdays from Babel. The lists here are closed
classes of words, for which neither has data. In other languages, no word is ignored and none has a synonym.
"""

from __future__ import annotations

import re
from collections import defaultdict
from functools import lru_cache

from foundation.database import prepared_statements
from memories.models.fields import CONFIGURATIONS

LANGUAGES = ("en", "de", "es")  # languages whose words are listed here


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


ARTICLES = {
    "en": _words("the a an"),
    "de": _words("der die das des dem den ein eine einen einem einer eines"),
    "es": _words("el la los las lo un una unos unas"),
}
# Auxiliaries carry no content of their own, but they do carry the tense and the voice.
PRESENT = {
    "en": _words("am is are be being do does has have"),
    "de": _words("bin bist ist sind seid sein hat habe haben hast habt wird werden werde"),
    "es": _words("es son está están ser estar ha han haber"),
}
PAST = {
    "en": _words("was were did had been"),
    "de": _words("war waren warst wart hatte hatten wurde wurden worden gewesen"),
    "es": _words("era eran fue fueron estaba estaban había habían sido"),
}
AUXILIARIES = {
    word: auxiliary
    for auxiliary, forms in (
        ("be", "am is are be being was were been bin bist ist sind seid sein war waren warst wart gewesen"),
        ("have", "has have had hat habe haben hast habt hatte hatten"),
        ("become", "wird werden werde wurde wurden worden"),
        ("do", "do does did"),
    )
    for word in forms.split()
}
FUTURE = {"en": _words("will shall"), "de": frozenset[str]()}
FILLERS = {
    "en": _words("please kindly there our actually basically whether hi hello hey thanks"),
    "de": _words("bitte denn eigentlich mal doch genau es unser unsere unseren unserem unserer unseres danke hallo"),
}
# A negated sentence says the opposite; these words also count as content words.
NEGATIONS = {
    "en": _words("not no never none nobody nothing nowhere neither nor without cannot hardly"),
    "de": _words(
        "nicht nie niemals nichts niemand niemanden nirgends weder ohne kein keine keinen keinem keiner keines"
    ),
    "es": _words("no nunca jamás nada nadie ningún ninguno ninguna ni sin tampoco"),
}
PREPOSITIONS = {
    "en": _words(
        "about above across after against along among around as at before behind below beneath beside besides between"
        " beyond by despite during except for from in inside into near of off on onto out outside over per since"
        " than through throughout to toward towards under until till up upon via with without within versus vs"
    ),
    "de": _words(
        "ab an auf aus außer bei bis durch für gegen gegenüber hinter in mit nach neben ohne pro seit statt trotz über"
        " um unter von vor während wegen zu zwischen als je laut wie im"
    ),
    "es": _words(
        "a al ante bajo con contra de del desde durante en entre excepto fuera hacia hasta mediante para por según"
        " sin sobre tras"
    ),
}
QUESTION_WORDS = {
    "en": _words("who whom whose which what when where why how how_many how_much how_often"),
    "de": _words(
        "wer wen wem wessen welche welcher welches welchen welchem was wann wo wohin woher warum wie wie_viel wie_oft"
    ),
    "es": _words("quién quiénes qué cuál cuáles cuándo dónde cómo cuánto cuánta cuántos cuántas"),
}
# "There is", which has a tense, but no content.
EXISTENCE = {"gibt": "present", "gab": "past", "gaben": "past"}
# Pronouns and function words that are names if written in capitals, such as "US" and "IT".
CAPITALIZED_NAMES = _words("us it who am is in on at be do he me so no or and an as all to up")
CONJUNCTIONS = {"en": _words("and or"), "de": _words("und oder"), "es": _words("y e o u")}
# Words before which a time expression is only placed in time. After others, such as "before", it means something else.
TIME_PREPOSITIONS = _words("in on at for of during um an im zu von")

# Phrases of one meaning, each replaced by the first word. An empty replacement drops the phrase.
PHRASES: dict[str, tuple[tuple[str, str], ...]] = {
    "en": (
        (r"\b(?:can|could|would|will) you (?:please |kindly )?(?:tell|show|give|say to) (?:me|us)\b", ""),
        (r"\b(?:i|we)(?: would|'d)? (?:want|need|like|wish) to (?:know|see|find out|learn)\b", ""),
        (r"\b(?:i am|i'm|i was) (?:wondering|asking)\b|\bi wonder\b|\bdo you (?:happen to )?know\b", ""),
        (r"\b(?:please )?(?:tell|show|give) (?:me|us)\b|\blet (?:me|us) know\b|\bremind me\b|\bany idea\b", ""),
        (r"^\W*(?:please )?(?:list|name|enumerate) (?:all (?:of )?)?(?:the )?", "which "),
        (r"(?:\bwhat (?:is|was|are|were) )?(?:\bthe (?:total |overall )?|\btotal |^\W*)(?:number|count) of\b",
         "how_many "),
        (r"\bhow many times\b|\bhow (?:frequently|often)\b", "how_often "),
        (r"\b(?:for|by) (?:each|every)\b", "per "),
        (r"\bhow many\b", "how_many "),
        (r"\bhow much\b", "how_much "),
        (r"\b(?:at )?(?:what|which) time\b", "when "),
        (r"\bfor (?:what|which) reason\b|\bwhat (?:is|was) the reason (?:why|that)\b|\bhow come\b", "why "),
        (r"\b(?:which|what) person\b|\bwhom\b", "who "),
        (r"(?<=\bhow_many\b)(.*?)\b(?:in total|altogether|in all)\b", r"\1"),
        (r"\bon (?=(?:what|which) (?:date|day)\b)", ""),
        (r"\bin case\b", "if "),
        (r"\bas well as\b|&", " and "),
        (r"\b(?:at least|no less than|no fewer than|a minimum of)\b|≥|>=", " at_least "),
        (r"\b(?:at most|no more than|a maximum of)\b|≤|<=", " at_most "),
        (r"\b(?:more than|over|above|exceeding|upwards of)(?= [\d$€£])|>(?= ?\d)", " more_than "),
        (r"\b(?:less than|fewer than|under|below)(?= [\d$€£])|<(?= ?\d)", " less_than "),
        (r"\b(?:in order to|so as to)\b", "to "),
        (r"\bdue to\b|\bowing to\b|\bon account of\b", "because of "),
        (r"\bprior to\b", "before "),
        (r"\bno longer\b|\bnot any ?more\b", "no_longer "),
        (r"\bnot any\b", "no "),
    ),
    "de": (
        (r"\b(?:kannst du|können sie|könntest du|könnten sie) (?:mir|uns) (?:bitte )?(?:sagen|zeigen|nennen),?", ""),
        (r"\b(?:ich|wir) (?:möchte|möchten|will|wollen|würde gern|würden gern) (?:gern |gerne )?wissen,?", ""),
        (r"\b(?:weißt du|wissen sie|sag mir|sagen sie mir|zeig mir|zeige mir|zeigen sie mir|gib mir)(?: bitte)?,?", ""),
        (r"^\W*(?:bitte )?(?:liste|nenne|nenn|nennen sie) (?:mir )?(?:alle |die )?", "welche "),
        (r"\b(?:wie (?:hoch|groß) (?:ist|war) |was (?:ist|war) )?die (?:gesamt)?(?:anzahl|zahl) (?:der|von|an)\b",
         "wie_viel "),
        (r"\b(?:um wie ?viel uhr|zu welcher (?:uhr)?zeit|zu welchem zeitpunkt)\b", "wann "),
        (r"\bwie ?viele?\b", "wie_viel "),
        (r"\bwie (?:oft|häufig)\b", "wie_oft "),
        (r"\b(?:weshalb|wieso|aus welchem grund|weswegen)\b", "warum "),
        (r"\bwelche person\b", "wer "),
        (r"(?<=\bwie_viel\b)(.*?)\b(?:insgesamt|in summe)\b", r"\1"),
        (r"\bsowie\b|&", " und "),
        (r"\b(?:mindestens|wenigstens|zumindest)\b|≥|>=", " at_least "),
        (r"\b(?:höchstens|maximal)\b|≤|<=", " at_most "),
        (r"\b(?:mehr als|über)(?= [\d$€£])|>(?= ?\d)", " more_than "),
        (r"\b(?:weniger als|unter)(?= [\d$€£])|<(?= ?\d)", " less_than "),
        (r"\bnicht mehr\b", "no_longer "),
    ),
}  # fmt: skip
CONTRACTIONS = {
    "en": (
        (r"\bcan't\b|\bcannot\b", "can not"),
        (r"\bwon't\b", "will not"),
        (r"n't\b", " not"),
        (r"\b(who|what|when|where|why|how|which|it|he|she|there|that|here)'s\b", r"\1 is"),
        (r"'re\b", " are"), (r"'ve\b", " have"), (r"'ll\b", " will"), (r"\bi'm\b", "i am"), (r"'d\b", " would"),
    ),
    "de": (
        (r"\bim\b", "in dem"), (r"\bins\b", "in das"), (r"\bam\b", "an dem"), (r"\bans\b", "an das"),
        (r"\bvom\b", "von dem"), (r"\bzum\b", "zu dem"), (r"\bzur\b", "zu der"), (r"\bbeim\b", "bei dem"),
        (r"\bfürs\b", "für das"), (r"\baufs\b", "auf das"), (r"\bgibt's\b", "gibt es"), (r"\bwie's\b", "wie es"),
    ),
}  # fmt: skip

# Words that are exchangeable in every sentence, so that a question with another of them has the same answer.
SYNONYMS: dict[str, tuple[str, ...]] = {
    "en": (
        "what which", "begin start commence", "buy purchase", "big large", "everybody everyone", "anybody anyone",
        "nobody noone", "somebody someone", "client customer", "supplier vendor", "picture photo", "phone telephone",
        "until till", "vs versus", "average mean", "require need", "permit allow", "quick fast rapid",
        "quickly rapidly", "quickest fastest", "biggest largest", "bigger larger", "nearest closest", "ill sick",
        "repair fix mend", "lift elevator", "vacation holiday", "movie film", "lawyer attorney", "doctor physician",
        "choose select", "moist damp", "truck lorry", "help assist", "car automobile", "toward towards",
        "happen occur", "kid child", "shop store", "cancel cancelled canceled", "every each", "yearly annual",
        "maximum max", "minimum min", "percent percentage", "bike bicycle", "obtain get", "currently presently",
    ),
    "de": (
        "beginnen starten anfangen", "kaufen erwerben", "jede alle", "reparieren instandsetzen",
        "Lieferant Zulieferer", "Bild Foto", "Durchschnitt Mittelwert", "benötigen brauchen", "erlauben gestatten",
        "schnell rasch", "Aufzug Fahrstuhl", "gratis kostenlos", "kaputt defekt", "Passwort Kennwort", "Arzt Doktor",
        "Retoure Rücksendung", "zuständig verantwortlich", "Lastwagen Laster LKW", "Mitarbeiter Angestellter",
        "helfen unterstützen", "geschehen passieren", "Rechner Computer PC", "durchschnittlich mittlere",
        "aktuell derzeit momentan", "Chef Vorgesetzter",
    ),
}  # fmt: skip
ANTONYMS: dict[str, tuple[str, ...]] = {
    "en": (
        "with without", "before after", "top bottom", "more less", "more fewer", "most least", "most fewest",
        "high low", "higher lower", "highest lowest", "maximum minimum", "increase decrease", "rise fall",
        "grow shrink", "open close", "opened closed", "open closed", "include exclude", "included excluded",
        "first last", "buy sell", "import export", "enable disable", "enabled disabled", "allow forbid", "allow deny",
        "accept reject", "approve reject", "win lose", "gain lose", "gain loss", "profit loss", "start stop",
        "start end", "begin end", "add remove", "up down", "above below", "over under", "in out", "inside outside",
        "from to", "old new", "oldest newest", "early late", "earlier later", "earliest latest", "fast slow",
        "fastest slowest", "big small", "large small", "larger smaller", "largest smallest", "biggest smallest",
        "long short", "longest shortest", "longer shorter", "cheap expensive", "cheapest priciest", "best worst",
        "good bad", "better worse", "hot cold", "full empty", "true false", "pass fail", "succeed fail",
        "success failure", "public private", "internal external", "incoming outgoing", "inbound outbound",
        "arrive depart", "arrival departure", "hire fire", "always never", "all none", "everyone nobody",
        "manual automatic", "required optional", "upstream downstream", "read write", "push pull", "send receive",
        "lend borrow", "gross net", "debit credit", "asset liability", "online offline", "ascending descending",
        "upgrade downgrade", "present absent", "left right", "north south", "east west", "morning evening",
        "day night", "near far", "strong weak", "lock unlock", "mandatory optional", "rich poor", "dark light",
        "more_than less_than", "at_least at_most", "bought sold", "won lost", "rose fell", "began ended",
        "grew shrank", "sent received", "lent borrowed", "came went", "found lost", "kept lost", "encrypt decrypt",
        "attach detach", "appear disappear", "since until", "wholesale retail", "on off", "allowed forbidden",
        "allowed denied", "accepted rejected", "approved rejected", "full incremental", "complete partial",
        "percentage fraction", "always sometimes", "positive negative",
    ),
    "de": (
        "mit ohne", "vor nach", "mehr weniger", "meiste wenigste", "hoch niedrig", "höher niedriger",
        "höchste niedrigste", "steigen fallen", "steigen sinken", "zunehmen abnehmen", "öffnen schließen",
        "offen geschlossen", "geöffnet geschlossen", "erste letzte", "kaufen verkaufen", "Einkauf Verkauf",
        "Import Export", "importieren exportieren", "aktivieren deaktivieren", "aktiv inaktiv", "erlauben verbieten",
        "annehmen ablehnen", "genehmigen ablehnen", "gewinnen verlieren", "Gewinn Verlust", "beginnen enden",
        "über unter", "Anfang Ende", "starten stoppen", "hinzufügen entfernen", "alt neu", "älteste neueste",
        "früh spät", "von nach", "früher später", "früheste späteste", "schnell langsam", "schnellste langsamste",
        "groß klein", "größer kleiner", "größte kleinste", "lang kurz", "längste kürzeste", "billig teuer",
        "billigste teuerste", "beste schlechteste", "gut schlecht", "besser schlechter", "voll leer", "wahr falsch",
        "bestehen durchfallen", "öffentlich privat", "intern extern", "eingehend ausgehend", "Ankunft Abfahrt",
        "einstellen entlassen", "immer nie", "alle keine", "manuell automatisch", "Eingang Ausgang",
        "senden empfangen", "brutto netto", "online offline", "links rechts", "aufsteigend absteigend",
        "Norden Süden", "Osten Westen", "Tag Nacht", "oberhalb unterhalb", "innen außen",
        "einschließlich ausschließlich", "inklusive exklusive", "enthalten ausschließen", "erhöhen senken",
        "warm kalt", "verpflichtend freiwillig", "more_than less_than", "at_least at_most", "gekauft verkauft",
        "gestiegen gesunken", "gestiegen gefallen", "stieg sank", "stieg fiel", "gewonnen verloren",
        "angenommen abgelehnt", "erhöht gesenkt", "eingestellt entlassen", "aktiviert deaktiviert",
        "gesendet empfangen", "maximal minimal", "Maximum Minimum", "stark schwach", "heiß kalt", "seit bis",
        "enthalten ausgeschlossen", "inbegriffen ausgeschlossen", "erlaubt verboten", "erforderlich optional",
        "vollständig inkrementell",
    ),
    "es": (
        "con sin", "antes después", "incluir excluir", "incluye excluye", "incluyen excluyen", "incluido excluido",
        "más menos", "mayor menor", "máximo mínimo", "primero último", "bruto neto", "abierto cerrado",
        "abrir cerrar", "activo inactivo", "activado desactivado", "permitir prohibir", "permitido prohibido",
        "aceptar rechazar", "obligatorio opcional", "aumentar disminuir", "subir bajar", "siempre nunca",
        "comprar vender", "importar exportar", "público privado", "interno externo", "manual automático",
        "desde hasta", "ascendente descendente", "verdadero falso", "viejo nuevo", "antiguo nuevo",
    ),
}  # fmt: skip
# A prefix that turns a word into its opposite: "active" and "inactive".
OPPOSING_PREFIXES = {"en": ("un", "in", "im", "ir", "il", "dis", "non", "de"), "de": ("un", "in", "nicht", "ent")}

# Endings that change number, case or tense, but not the word.
INFLECTIONS = {
    "en": re.compile(r"(?:s|es|d|ed|ies|ied|y|e|)"),
    "de": re.compile(r"(?:e|en|n|es|s|em|t|te|et|est|st|ten|tet|nen|se|)"),
}
MAX_STEMS = 50_000  # number of words of each language whose stems are kept, because the texts of a company share them
_stems_of: defaultdict[str, dict[str, str]] = defaultdict(dict)  # by language
STEMS = "SELECT word, (ts_lexize(%s::text::regdictionary, word))[1] FROM unnest(%s::text[]) AS word"


def load_stems(words: frozenset[str], language: str) -> dict[str, str]:
    """Return each word's stem in a language. A stop word, and a word of a language without stemmer, is its own stem."""
    if language not in CONFIGURATIONS:
        return {word: word for word in words}
    stems = _stems_of[language]
    if unknown := sorted(words - stems.keys()):
        found = prepared_statements.rows(STEMS, [f"{CONFIGURATIONS[language]}_stem", unknown], public=True)
        if len(stems) > MAX_STEMS:
            stems = _stems_of[language] = {word: stems[word] for word in words & stems.keys()}
        stems.update((word, stem or word) for word, stem in found)
    return {word: stems[word] for word in words}


def key_of(word: str, stem: str, language: str) -> str:
    """Return a key that is equal for the inflected forms of a word, but not for words derived from one another.

    Stemmers unite "custom" and "customer", which are different things. So an ending that is no inflection is part of
    the key.
    """
    inflections = INFLECTIONS.get(language)
    if inflections is None:
        return stem
    spelled = fold(word) if language == "de" else word
    shared = 0
    while shared < min(len(stem), len(spelled)) and stem[shared] == spelled[shared]:
        shared += 1
    rest = spelled[shared:]
    if language == "en":
        if not inflections.fullmatch(rest):
            rest = rest.removesuffix("s")  # the plural of a derived word
        if rest == f"{stem[-1:]}ed":  # a doubled consonant, as in "shipped"
            rest = "ed"
    return stem if inflections.fullmatch(rest) else f"{stem}~{rest}"


def fold(word: str) -> str:
    """Return a word without umlauts, as German stems are written."""
    return word.replace("ä", "a").replace("ö", "o").replace("ü", "u").replace("ß", "ss")


@lru_cache(maxsize=4)
def _synonyms(language: str) -> dict[str, str]:
    """Return the key of the first word of its group, by the key of each word that has synonyms."""
    groups = [group.casefold().split() for group in SYNONYMS.get(language, ())]
    stems = load_stems(frozenset(word for group in groups for word in group), language)
    keys = {word: key_of(word, stem, language) for word, stem in stems.items()}
    return {keys[word]: keys[group[0]] for group in groups for word in group}


def synonym(key: str, language: str) -> str:
    """Return the key that stands for a word and its synonyms."""
    return _synonyms(language).get(key, key)


@lru_cache(maxsize=4)
def opposite_keys(language: str) -> dict[str, set[str]]:
    """Return the opposites of words. Words and opposites are both given as they are written and by their keys."""
    pairs = [pair.casefold().split() for pair in ANTONYMS.get(language, ())]
    stems = load_stems(frozenset(word for pair in pairs for word in pair), language)
    forms = {word: {word, key_of(word, stem, language)} for word, stem in stems.items()}
    opposites: dict[str, set[str]] = {}
    for first, second in pairs:
        for word, opposite in ((first, second), (second, first)):
            for form in forms[word]:
                opposites.setdefault(form, set()).update(forms[opposite])
    return opposites
