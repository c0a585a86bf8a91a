"""The translations of the pages: collect the messages of the source into the .po files, compile and check them.

    python -m distribution.messages              update locale/*/LC_MESSAGES/django.po and write the .mo files
    python -m distribution.messages --check      list what is out of date or inconsistent, and exit with status 1
    python -m distribution.messages --check --complete      also list messages without a translation

Needs no GNU gettext: Django turns templates into Python, and Babel reads Python and the formats of the catalogs.
"""

from __future__ import annotations

import argparse
import io
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from babel.messages.catalog import Catalog, Message
from babel.messages.extract import extract_python
from babel.messages.mofile import read_mo, write_mo
from babel.messages.pofile import read_po, write_po
from django.utils.translation.template import templatize

ROOT = Path(__file__).resolve().parent.parent
LOCALES = ROOT / "locale"
LANGUAGES = ("de", "es")
APPS = ("analysis", "foundation", "knowledge", "memories", "memory_project")
# The positions of the arguments that are part of the message. "c" marks the context.
KEYWORDS: dict[str, tuple[int | tuple[int, str], ...]] = {
    "_": (1,),  # Django's templatize writes it for `_("…")` in a template's tag
    "gettext": (1,),
    "gettext_lazy": (1,),
    "gettext_noop": (1,),
    "ngettext": (1, 2),
    "ngettext_lazy": (1, 2),
    "pgettext": ((1, "c"), 2),
    "pgettext_lazy": ((1, "c"), 2),
    "npgettext": ((1, "c"), 2, 3),
    "npgettext_lazy": ((1, "c"), 2, 3),
}
COMMENTS = ["Translators:"]
PLACEHOLDER = re.compile(r"%\((\w+)\)[-#0 +]*\d*(?:\.\d+)?[a-zA-Z]")
TAG = re.compile(r"</?[a-zA-Z][^>]*>")
HEADERS = ("Language:", "Plural-Forms:", "MIME-Version:", "Content-Type:", "Content-Transfer-Encoding:")
WRITTEN = datetime(2026, 1, 1, tzinfo=UTC)  # the time of writing would change the compiled files each time


def sources() -> Iterator[tuple[Path, str]]:
    """Yield each file that may contain messages, with its text as Python."""
    for app in APPS:
        for file in sorted((ROOT / app).rglob("*.py")):
            if "migrations" not in file.parts:
                yield file, file.read_text()
    for file in sorted((ROOT / "templates").rglob("*")):
        if file.suffix in (".html", ".txt"):
            # What templatize leaves of the indentation isn't valid Python. Messages are on one line each.
            code = templatize(file.read_text(), origin=str(file.relative_to(ROOT)))
            yield file, "\n".join(line.strip() for line in code.splitlines())


def extract() -> Catalog:
    """Return the messages of the source, with the files that use them."""
    catalog = Catalog(fuzzy=False)
    for file, code in sources():
        calls = extract_python(io.BytesIO(code.encode()), KEYWORDS, COMMENTS, {"encoding": "utf-8"})
        for _, function, arguments, comments in calls:
            found = message_of(function, arguments)
            if found is not None:
                context, singular, plural = found
                catalog.add(
                    (singular, plural) if plural else singular,
                    context=context,
                    locations=[(str(file.relative_to(ROOT)), 1)],
                    auto_comments=comments or (),
                )
    return catalog


def message_of(function: object, arguments: object) -> tuple[str | None, str, str | None] | None:
    """Return context, singular and plural of a call, or None if its message is no literal."""
    given = arguments if isinstance(arguments, tuple | list) else (arguments,)
    texts: list[str] = []
    context = None
    for position in KEYWORDS[str(function)]:
        index = position[0] if isinstance(position, tuple) else position
        text = given[index - 1] if index <= len(given) else None
        if not isinstance(text, str) or not text:
            return None
        if isinstance(position, tuple):
            context = text
        else:
            texts.append(text)
    return context, texts[0], texts[1] if len(texts) > 1 else None


def path_of(language: str, suffix: str = "po") -> Path:
    return LOCALES / language / "LC_MESSAGES" / f"django.{suffix}"


def read(language: str) -> Catalog:
    """Return the catalog of a language, empty if there is no file yet."""
    path = path_of(language)
    if not path.exists():
        return Catalog(locale=language, domain="django", fuzzy=False)
    with path.open("rb") as file:
        return read_po(file, locale=language, domain="django", abort_invalid=True)


def po_bytes(catalog: Catalog) -> bytes:
    catalog.header_comment = "# Translations of Commonplace. See locale/GLOSSARY.md for the terms."
    buffer = io.BytesIO()
    write_po(buffer, catalog, width=100, sort_output=True, include_lineno=False, ignore_obsolete=True)
    header, end, messages = buffer.getvalue().partition(b"\n\n")
    lines = header.decode().splitlines()
    kept = [line for line in lines if not line.startswith('"') or line[1:].startswith(HEADERS)]
    return "\n".join(kept).encode() + end + messages


def compile_catalog(language: str) -> bytes:
    """Return the .mo file of a language, without messages that are not translated: those are shown in English."""
    catalog = read(language)
    for message in messages_of(catalog).values():
        if message.fuzzy or not all(texts_of(message.string)):
            catalog.delete(message.id, message.context)
    catalog.creation_date = catalog.revision_date = WRITTEN
    buffer = io.BytesIO()
    write_mo(buffer, catalog)
    return buffer.getvalue()


def translations_of(catalog: Catalog) -> dict[tuple[object, object], list[str]]:
    """Return the messages that are translated in all their forms."""
    texts = {key: texts_of(message.string) for key, message in messages_of(catalog).items()}
    return {key: forms for key, forms in texts.items() if all(forms)}


def update(language: str, template: Catalog) -> None:
    """Write the files of a language: new messages are added, unused ones removed, translations kept."""
    catalog = read(language)
    catalog.update(template, no_fuzzy_matching=True, update_header_comment=False)
    path_of(language).parent.mkdir(parents=True, exist_ok=True)
    path_of(language).write_bytes(po_bytes(catalog))
    path_of(language, "mo").write_bytes(compile_catalog(language))


def read_compiled(path: Path) -> Catalog:
    with path.open("rb") as file:
        return read_mo(file)


def name_of(message: Message) -> str:
    text = message.id if isinstance(message.id, str) else message.id[0]
    return f"{message.context}: {text}" if message.context else text


def key_of(message: Message) -> tuple[object, object]:
    return message.context, tuple(texts_of(message.id))


def messages_of(catalog: Catalog) -> dict[tuple[object, object], Message]:
    return {key_of(message): message for message in catalog if message.id}


def find_faults(language: str, template: Catalog, *, complete: bool) -> Iterator[str]:
    """Yield what is wrong with the files of a language."""
    path = path_of(language)
    if not path.exists():
        yield f"{path.relative_to(ROOT)} is missing"
        return
    catalog = read(language)
    wanted, present = messages_of(template), messages_of(catalog)
    yield from (f"missing: {name_of(wanted[key])!r}" for key in wanted.keys() - present.keys())
    yield from (f"no longer used: {name_of(present[key])!r}" for key in present.keys() - wanted.keys())
    yield from (f"obsolete: {name_of(message)!r}" for message in catalog.obsolete.values())
    for key in present.keys() & wanted.keys():
        yield from (f"{fault}: {name_of(present[key])!r}" for fault in faults_of(present[key], catalog, complete))
    compiled = path_of(language, "mo")
    if not compiled.exists() or translations_of(read_compiled(compiled)) != translations_of(catalog):
        yield f"{compiled.relative_to(ROOT)} is not what the .po file compiles to"


def texts_of(text: str | Sequence[str] | None) -> list[str]:
    """Return the text of a message for each plural form."""
    return [text] if isinstance(text, str) else list(text or ())


def faults_of(message: Message, catalog: Catalog, complete: bool) -> Iterator[str]:
    """Yield what is wrong with one translation."""
    sources, translations = texts_of(message.id), texts_of(message.string)
    if message.fuzzy:
        yield "fuzzy"
    if not any(translations):
        if complete:
            yield "not translated"
        return
    if len(translations) != (catalog.num_plurals if len(sources) > 1 else 1) or not all(translations):
        yield f"{catalog.num_plurals} plural forms are needed"
        return
    every = set(PLACEHOLDER.findall(" ".join(sources)))
    for text in translations:
        used = set(PLACEHOLDER.findall(text))
        if used - every:
            yield f"unknown placeholder {', '.join(sorted(used - every))}"
    for index, text in enumerate(translations):
        source = sources[0] if index == 0 else sources[-1]
        lacking = set(PLACEHOLDER.findall(source)) - set(PLACEHOLDER.findall(text))
        # The form for one thing may leave out the number: "a memory".
        if len(lacking) > (len(translations) > 1 and index == 0):
            yield f"placeholder {', '.join(sorted(lacking))} is missing"
    if PLACEHOLDER.search(sources[-1]) and any(
        "%" in PLACEHOLDER.sub("", text).replace("%%", "") for text in translations
    ):
        yield "a percent sign must be doubled"
    if any(Counter(TAG.findall(text)) != Counter(TAG.findall(sources[-1])) for text in translations):
        yield "other HTML tags"
    if any('"' in text for text in translations) and not any('"' in text for text in sources):
        yield 'a straight ", which would end an attribute of a page'
    if any(text[:1].isspace() != sources[-1][:1].isspace() for text in translations) or any(
        text[-1:].isspace() != sources[-1][-1:].isspace() for text in translations
    ):
        yield "other white space at the ends"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Update or check the translations in locale/.")
    parser.add_argument("--check", action="store_true", help="change nothing; list what is wrong")
    parser.add_argument("--complete", action="store_true", help="with --check: also list messages without translation")
    options = parser.parse_args(arguments)
    template = extract()
    if not options.check:
        for language in LANGUAGES:
            update(language, template)
        return 0
    faults = [
        f"{language}: {fault}"
        for language in LANGUAGES
        for fault in sorted(find_faults(language, template, complete=options.complete))
    ]
    if faults:
        print("\n".join(faults))
        print("`python -m distribution.messages` updates locale/.")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
