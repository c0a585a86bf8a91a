"""Patterns for decisions, corrections and facts about data, in English, German and Spanish.

Each pattern is matched with single sentences of what a person typed. They are written for precision: what is left out
costs a person nothing, and what is proposed wrongly costs them a look.
"""

from __future__ import annotations

import re


def _words(*alternatives: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(alternatives)})\b", re.IGNORECASE)


def _start(*alternatives: str) -> re.Pattern[str]:
    return re.compile(rf"\W{{0,10}}(?:{'|'.join(alternatives)})(?!\w)", re.IGNORECASE)


# -- sentences that state a decision ---------------------------------------------------------------------------

DECIDED = _words(
    r"we(?:['’]ve| have)?(?: all| now| just)? (?:decided|agreed|settled on|defined)",
    r"(?:from (?:now|here|today) on|going forward|as of (?:now|today))",
    r"we(?:['’]re| are) going with|we(?:['’]ll| will) (?:go with|stick with)|the decision is",
    r"(?:wir haben|haben wir|wurde) [^.!?]{0,120}?(?:beschlossen|entschieden|geeinigt|vereinbart|festgelegt)",
    r"wir haben uns (?:darauf |dazu |dafür )?(?:geeinigt|entschieden|entschlossen|verständigt)",
    r"ab (?:jetzt|sofort|heute)|künftig|in zukunft|von nun an",
    r"(?:hemos )?(?:decidimos|decidido|acordamos|acordado)|quedamos en que",
    r"a partir de (?:ahora|hoy)|de ahora en adelante|en adelante",
)
# Counts only if it gives the reason and names something that occurred in a statement.
LETS = re.compile(
    r"\blet['’]s\b.{0,300}\b(?:because|since)\b"
    r"|\b(?:lass uns|nehmen wir)\b.{0,300}\bweil\b|\busemos\b.{0,300}\bporque\b",
    re.I,
)

# -- sentences that correct the agent --------------------------------------------------------------------------

# At the beginning of a sentence; what follows is the correction.
REFUSES = _start(
    r"(?:no|nope|nein|nee)[,.!:;–-]+(?= )",
    r"(?:no,? )?(?:that|this|it)(?:['’]s| is| was)(?: just| simply)? (?:wrong|incorrect|false)",
    r"(?:no,? )?(?:that|this|it)(?:['’]s| is| was) not (?:right|true|correct)",
    r"(?:well,? )?actually",
    r"(?:nein,? )?das (?:ist|war) (?:falsch|nicht richtig|nicht korrekt)|(?:nein,? )?das stimmt (?:so )?nicht",
    r"eigentlich|tatsächlich",
    r"(?:no,? )?eso (?:está mal|es incorrecto|es falso|no es (?:correcto|cierto|así))|en realidad",
)
CONTRAST = re.compile(
    r"[,;(] ?(?:and )?not \w|\binstead of\b|\brather than\b|, ?(?:und )?nicht \w|\b(?:statt|anstatt|anstelle)\b"
    r"|, ?(?:y )?no \w|\ben (?:lugar|vez) de\b|(?:isn['’]t|aren['’]t|wasn['’]t)\b.{0,200}[.:,;] ?(?:it|they|the)\b",
    re.IGNORECASE,
)
CHANGED = _words(
    r"(?:was|were|is|are|got|has been|have been) (?:renamed|replaced|moved|merged|migrated|split|superseded)",
    r"(?:wurden?|ist|sind) [^.!?]{0,80}?(?:umbenannt|ersetzt|zusammengelegt|verschoben|abgelöst|aufgeteilt)",
    r"(?:fue|fueron|se ha|se han) (?:renombrad|reemplazad|sustituid|fusionad|migrad|movid)[oa]s?|ahora se llama",
)
STATES = _words(
    r"is|are|isn['’]t|aren['’]t|was|were|has|have|includes?|excludes?|contains?|counts?|means?|refers?|holds?|lands?",
    r"ist|sind|war|wurden?|hat|haben|heißt|steht|stehen|enthält|zählt|zählen|bedeutet|werden|wird",
    r"es|son|está|están|incluyen?|excluyen?|contienen?|significan?|tienen?|cuentan?",
)
FIRM = _words(
    r"always|never|only|alone|both|the same|immer|nie|niemals|nur|erst|dasselbe|siempre|nunca|solo|sólo|únicamente"
)

# -- what keeps a sentence from counting -----------------------------------------------------------------------

QUESTION = _start(
    r"(?:do|does|did|should|could|can|would|is|are|was|were|why|how|what|which|who|when|where)(?= (?!we decided))",
    r"sollten? |können |kannst |könntest |warum |wieso |wie (?:viele|oft|kann)|was |welche|wer |wann |wo ",
    r"¿|debería|podrías?|por qué |cómo |cuánt|cuál|qué ",
)
CONDITION = _words(r"if|unless|when|falls|wenn|si|cuando")
HYPOTHETICAL = _words(
    r"suppose|imagine|assuming|what if|would|could|might|may|maybe|perhaps|should|let me (?:check|ask)",
    r"angenommen|würden?|könnten?|sollten?|vielleicht|eventuell|womöglich|mal sehen",
    r"supongamos|suponiendo|sería|podrían?|deberían?|deberíamos|quizás?|tal vez|a lo mejor",
)
UNSURE = _words(
    r"I (?:think|guess|believe|suppose|assume|forget|doubt)|probably|looks|look|seems?|not (?:sure|final)|no idea",
    r"I disagree|not (?:yet )?(?:decided|agreed|settled)|ich (?:glaube|denke|vermute)|wahrscheinlich|vermutlich",
    r"scheint|keine ahnung|glaube ich (?:aber )?nicht|noch nicht|nicht sicher|bin mir nicht",
    r"creo|supongo|parece|parecen|probablemente|ni idea|no (?:lo )?sé|no estoy segur[oa]|todavía no",
)
REPORTED = _words(
    r"(?!I\b|we\b)\w+ (?:says?|said|thinks?|claims?|claimed|wrote|writes|believes?|told (?:me|us)|insists?|argues?)",
    r"according to|apparently|rumou?r|allegedly|laut|angeblich|anscheinend",
    r"\w+ (?:sagt|sagte|meint|meinte|behauptet|glaubt|schreibt|findet)",
    r"\w+ (?:dice|dijo|opina|cree|piensa|afirma|escribió)|según|al parecer",
)
JOKE = re.compile(
    r"\b(?:lol|rofl|lmao|haha+|hehe+|jaja+|xd|just kidding|kidding|scherz)\b|[:;]-?[)DP](?!\w)|[😀-😆🤣😂😉😜]", re.I
)
OF_ONESELF = _words(
    r"I(?:['’]m|['’]ll|['’]d|['’]ve)?|me|myself|you|your|ich|mich|mir|du|dir|dich|sie mir|yo|mí|tú|contigo|conmigo"
)
# Words that begin a task for the agent. A statement about data does not begin with any of them.
TASK = _start(
    r"(?:ok(?:ay)?,? |and |then |now |also |just |so |please )*(?:please|use|fix|make|run|add|remove|put|write|rewrite"
    r"|delete|drop|sort|show|export|change|rename|commit|push|try|format|create|save|send|move|keep|leave|ignore|do"
    r"|don['’]t|check|look|go|give|set|update|replace|split|merge|round|compute|recompute|list|plot|open|start|stop"
    r"|test|revert|undo|explain|summari[sz]e|translate|let me|let['’]s|i (?:want|need|would|['’]d)|like that|not like)",
    r"(?:bitte|mach|mache|nimm|schreib|schreibe|zeig|füge|lösche|entferne|ändere|benutze|verwende|sortiere|runde|setze)",
    r"(?:ich (?:möchte|brauche|will)|führe|starte|prüfe|lass|gib|lege|speichere|exportiere|kürze|duze)",
    r"(?:por favor|usa|pon|quita|haz|ejecuta|añade|elimina|borra|cambia|ordena|muestra|exporta|escribe|guarda|envía)",
    r"(?:déjalo|deja|quiero|necesito|prueba|revisa|mira|dame|corrige|quédate)",
)
POLITE = _words(r"please|pls|bitte|por favor")
RETRACTION = _words(
    r"scratch that|forget (?:it|that|what I said)|never ?mind|ignore (?:that|what I said)|my bad|my mistake",
    r"I was wrong|I (?:mixed (?:it|that|them) up|misremembered|take (?:it|that) back)|oh true|no idea then|strike that",
    r"vergiss (?:es|das)|mein fehler|ich (?:habe mich geirrt|lag falsch)|doch nicht|nehme (?:ich )?zurück",
    r"olvídalo|me equivoqué|error mío|lo retiro|me confundí",
)

# -- what a sentence is about ----------------------------------------------------------------------------------

IDENTIFIER = re.compile(r"\b[A-Za-z][A-Za-z0-9]*(?:[_.][A-Za-z0-9<>]+)+|\b[A-Z]{2}[A-Z0-9]*+\b|`[^`]+`")
DATA = _words(
    r"data(?:base|set|sets)?|warehouse|tables?|columns?|views?|models?|schemas?|quer(?:y|ies)|rows?|records?|fields?|keys?",
    r"metrics?|kpis?|reports?|reported|dashboards?|numbers?|figures?|rates?|revenues?|sales|orders?|refunds?|returns?",
    r"customers?|subscriptions?|accounts?|tickets?|products?|stock|stores?|shops?|shipments?|invoices?|payments?|prices?",
    r"margins?|costs?|spend|budgets?|churn|trials?|attribution|conversions?|campaigns?|channels?|headcount|employees",
    r"quarters?|months?|weeks?|weekends?|fiscal|days?|years?|tax|vat|currency|units?|time ?zones?|nulls?|duplicates?",
    r"daten|tabellen?|spalten?|berichte?|berichten|kennzahl(?:en)?|zahlen|bestand|bestände|lager|umsatz|umsätze|retouren",
    r"kunden|bestellungen|auftr[aä]ge|mengen|stellen?|mitarbeiter|kopfzahl(?:en)?|monat\w*|quartale?|jahre?|steuer",
    r"datos|tablas?|columnas?|informes?|métricas?|ventas|pedidos|clientes|tiendas?|almac[eé]n(?:es)?|envíos?|iva|mes(?:es)?",
    r"importes?|facturas?|precios?|devoluciones|existencias|trimestres?",
)
