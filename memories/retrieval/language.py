"""Which language a text is in, so that its words are stemmed by that language's rules.

Scripts without spaces are told by their characters; the rest by py3langid among RECALL_LANGUAGES, and only where it is
sure: a short text stays without a language, and is read by the installation's configuration.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from django.conf import settings

from memories.models.fields import CONFIGURATIONS, UNSPACED, text_search_config

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

SURE = 0.95  # of 6,200 English turns and facts none was taken for another language at this
MIN_LETTERS = 12
IDENTIFIERS = re.compile(r"\S*[\d_./:@#]\S*")  # say nothing of the language around them
KANA, HANGUL = re.compile("[\u3040-\u30ff]"), re.compile("[\uac00-\ud7a3]")
RUN = re.compile(f"[{UNSPACED}]{{2}}")


def language_of(text: str) -> str:
    """The ISO 639-1 code of the text's language, of RECALL_LANGUAGES; empty where it can't be told."""
    code = _script_language(text) or _likeliest(IDENTIFIERS.sub(" ", text))
    return code if code in settings.RECALL_LANGUAGES else ""


def configuration_of(code: str) -> str:
    """The text-search configuration of a language: the installation's where it has none of its own."""
    return CONFIGURATIONS.get(code) or text_search_config()


def warm_up() -> None:
    """Loads the model, a second's work, before somebody waits for it."""
    _identifier(tuple(settings.RECALL_LANGUAGES))


def _script_language(text: str) -> str:
    if not RUN.search(text):
        return ""
    if KANA.search(text):
        return "ja"
    return "ko" if HANGUL.search(text) else "zh"


def _likeliest(text: str) -> str:
    if len(settings.RECALL_LANGUAGES) < 2 or sum(map(str.isalpha, text)) < MIN_LETTERS:
        return ""
    code, probability = _identifier(tuple(settings.RECALL_LANGUAGES)).classify(text)
    return str(code) if probability >= SURE else ""


@lru_cache(maxsize=2)
def _identifier(languages: tuple[str, ...]) -> LanguageIdentifier:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier  # noqa: PLC0415 - takes a second with its model

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    identifier.set_languages(list(languages))
    return identifier
