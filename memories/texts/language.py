"""Language detection, so that the words of a text are stemmed by the rules of its language.

A text with two adjacent Chinese, Japanese or Korean characters is recognized by its characters. For any other text,
py3langid chooses one of RECALL_LANGUAGES. If the text is short or the classifier is unsure, the text gets no language,
and the installation's text-search configuration applies.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from django.conf import settings

from memories.models.fields import CONFIGURATIONS, UNSPACED, text_search_config

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

# Minimum probability of a language. At this value none of 6,200 English turns and facts was taken for another language.
MIN_PROBABILITY = 0.95
MIN_LETTERS = 12  # minimum number of letters of a text that is classified
# Removed before classification, because they have no language. The lookbehind keeps the search linear: a word without
# such a character is read once, and not again from each of its letters.
IDENTIFIERS = re.compile(r"(?<!\S)[^\s\d_./:@#]*+[\d_./:@#]\S*")
KANA, HANGUL = re.compile("[\u3040-\u30ff]"), re.compile("[\uac00-\ud7a3]")
RUN = re.compile(f"[{UNSPACED}]{{2}}")


def language_of(text: str) -> str:
    """Return the ISO 639-1 code of the text's language, or "" if it is unknown or not among RECALL_LANGUAGES."""
    code = _script_language(text) or _most_likely_language(IDENTIFIERS.sub(" ", text))
    return code if code in settings.RECALL_LANGUAGES else ""


def configuration_of(code: str) -> str:
    """Return the text-search configuration of a language, or the installation's if the language has none or is ""."""
    return CONFIGURATIONS.get(code) or text_search_config()


def warm_up() -> None:
    """Load the model, which takes a second, before a request needs it."""
    _identifier(tuple(settings.RECALL_LANGUAGES))


def _script_language(text: str) -> str:
    if not RUN.search(text):
        return ""
    if KANA.search(text):
        return "ja"
    return "ko" if HANGUL.search(text) else "zh"


def _most_likely_language(text: str) -> str:
    if len(settings.RECALL_LANGUAGES) < 2 or sum(map(str.isalpha, text)) < MIN_LETTERS:
        return ""
    code, probability = _identifier(tuple(settings.RECALL_LANGUAGES)).classify(text)
    return str(code) if probability >= MIN_PROBABILITY else ""


@lru_cache(maxsize=2)
def _identifier(languages: tuple[str, ...]) -> LanguageIdentifier:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier  # noqa: PLC0415 - the import and its model take a second

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    identifier.set_languages(list(languages))
    return identifier
