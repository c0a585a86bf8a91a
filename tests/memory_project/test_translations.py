from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
from babel.messages.catalog import Catalog
from django.contrib import admin

from distribution import messages
from memory_project import field_names

TEMPLATE = """{% block title %}{% translate "Sign out" %}{% endblock %}
  {% if a %}
      {% blocktranslate trimmed count n=total %}
        {{ n }} memory
      {% plural %}
        {{ n }} memories
      {% endblocktranslate %}
{% endif %}{{ _("Theme")|title }} {% translate "May" context "month" %}"""
MODULE = """
class A:
    def b(self):
        # Translators: shown beside the graph
        raise Invalid(gettext("%(name)s is "
                              "unknown") % {"name": 1})
    C = ngettext_lazy("%(n)s day", "%(n)s days", "n")
    D = gettext(C)
"""


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(messages, "ROOT", tmp_path)
    monkeypatch.setattr(messages, "LOCALES", tmp_path / "locale")
    for path, text in {
        "templates/a/page.html": TEMPLATE,
        "memories/a.py": MODULE,
        "memories/migrations/0001.py": 'gettext("old")',
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


def translate(language: str, texts: dict[str, str | tuple[str, ...]]) -> None:
    catalog = messages.read(language)
    for message in catalog:
        if (name := messages.name_of(message)) in texts:
            message.string = texts[name]
    messages.path_of(language).write_bytes(messages.po_bytes(catalog))
    messages.path_of(language, "mo").write_bytes(messages.compile_catalog(language))


def test_messages_of_templates_and_modules_are_found(source: Path) -> None:
    found = {(message.context, message.id) for message in messages.extract() if message.id}
    assert found == {
        (None, "Sign out"),
        (None, ("%(n)s memory", "%(n)s memories")),
        (None, "Theme"),
        ("month", "May"),
        (None, "%(name)s is unknown"),
        (None, ("%(n)s day", "%(n)s days")),
    }


def test_an_update_keeps_translations_and_removes_what_nothing_uses(
    source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert messages.main([]) == 0
    assert messages.main(["--check"]) == 0
    assert messages.main(["--check", "--complete"]) == 1
    translate("de", {"Sign out": "Abmelden", "%(n)s day": ("%(n)s Tag", "%(n)s Tage")})
    before = messages.path_of("de").read_bytes()
    messages.main([])
    assert messages.path_of("de").read_bytes() == before
    assert b"page.html\n" in before  # the file, without the number of a line

    (source / "templates/a/page.html").write_text('{% translate "Sign out" %} {% translate "Sign in" %}')
    capsys.readouterr()
    assert messages.main(["--check"]) == 1
    output = capsys.readouterr().out
    assert "de: missing: 'Sign in'" in output
    assert "es: no longer used: 'Theme'" in output
    messages.main([])
    assert messages.main(["--check"]) == 0
    kept = {message.id: message.string for message in messages.read("de") if message.id and any(message.string or "")}
    assert kept == {"Sign out": "Abmelden", ("%(n)s day", "%(n)s days"): ("%(n)s Tag", "%(n)s Tage")}


def test_a_compiled_file_that_differs_is_reported(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    messages.main([])
    old = messages.path_of("de", "mo").read_bytes()
    translate("de", {"Sign out": "Abmelden"})
    messages.path_of("de", "mo").write_bytes(old)
    assert messages.main(["--check"]) == 1
    assert "django.mo is not what the .po file compiles to" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("source_text", "translation", "fault"),
    [
        ("%(n)s rows", "%(n)s %(m)s Zeilen", "unknown placeholder m"),
        ("%(n)s rows", "Zeilen", "placeholder n is missing"),
        ("%(n)s rows", "%(n)s Zeilen, 5 %", "a percent sign must be doubled"),
        ("<b>Rows</b>", "<i>Zeilen</i>", "other HTML tags"),
        ("Rows", 'Die "Zeilen"', 'a straight ", which would end an attribute of a page'),
        ("Rows ", "Zeilen", "other white space at the ends"),
        (("%(n)s row", "%(n)s rows"), ("%(n)s Zeile", ""), "2 plural forms are needed"),
        (("%(n)s row", "%(n)s rows"), ("eine Zeile", "Zeilen"), "placeholder n is missing"),
        (("%(n)s row", "%(n)s rows"), ("eine Zeile", "%(n)s Zeilen"), None),
        (("%(n)s of %(x)s", "%(n)s of %(x)s"), ("eine", "%(n)s von %(x)s"), "placeholder n, x is missing"),
        ("%(n)s of 100%%", "%(n)s von 100 %%", None),
        ("Rows", "", "not translated"),
    ],
)
def test_a_translation_that_does_not_fit_its_message_is_reported(
    source_text: str | tuple[str, str], translation: str | tuple[str, str], fault: str | None
) -> None:
    catalog = Catalog(locale="de", fuzzy=False)
    message = catalog.add(source_text, translation)
    assert list(messages.faults_of(message, catalog, True)) == ([fault] if fault else [])


def test_a_fuzzy_translation_is_reported() -> None:
    catalog = Catalog(locale="de", fuzzy=False)
    message = catalog.add("Rows", "Zeilen", flags=["fuzzy"])
    assert list(messages.faults_of(message, catalog, True)) == ["fuzzy"]


def test_every_language_of_the_pages_has_a_catalog(settings: Any) -> None:
    assert {"en", *messages.LANGUAGES} == {code for code, _ in settings.LANGUAGES}


def test_every_name_that_the_admin_derives_is_in_the_catalog() -> None:
    models = [model for model in admin.site._registry if model.__module__.partition(".")[0] in messages.APPS]
    names = {
        str(field.verbose_name)
        for model in models
        for field in (*model._meta.local_fields, *model._meta.local_many_to_many)
        if field._verbose_name is None  # type: ignore[attr-defined]  # the name that the model sets
    }
    assert names <= {*field_names.FIELDS, *field_names.TERMS.values()}
    tables = {
        str(getattr(model._meta, name))
        for model in models
        for name in ("verbose_name", "verbose_name_plural")
        if name not in model._meta.original_attrs
    }
    assert tables - set(field_names.TABLES) == set()


# Modules whose errors only agents, programs and operators see, or that run only in workers, which store the errors.
IN_ENGLISH = (
    "analysis/querying/", "analysis/sql/", "analysis/source_health.py", "analysis/sources/",
    "analysis/child_ingest.py", "analysis/export.py",
    "foundation/embedding/", "foundation/tools/declaration.py", "knowledge/catalog/", "knowledge/graph/",
    "knowledge/portable_kinds.py", "memories/conversation/web_search.py", "memories/portab",
    "memory_project/agents/client_files/", "memory_project/exchange/exports/",
    "memory_project/exchange/imports/formats/", "memory_project/exchange/imports/jobs.py",
    "memory_project/exchange/imports/restoring.py", "memory_project/exchange/imports/installation.py",
    "memory_project/operating/shared/key_change.py", "analysis/ingest.py", "analysis/storage/",
    "memory_project/agents/installation.py", "memory_project/mcp/", "memory_project/accounts/oauth/",
    "memory_project/operating/postgres/", "memory_project/rest/",
    "memory_project/exchange/subscriptions/", "memory_project/notifications/webhooks/sending.py",
)  # fmt: skip
MAX_ERRORS_IN_ENGLISH = 0  # goes down with every module whose errors are translated
ERRORS = {"Invalid", "NotFound", "Forbidden", "Conflict", "LimitReached", "Degraded", "Declined", "Upstream"}


def test_errors_that_pages_show_are_translated() -> None:
    found = []
    for app in messages.APPS:
        for file in sorted((messages.ROOT / app).rglob("*.py")):
            path = str(file.relative_to(messages.ROOT))
            if path.startswith(IN_ENGLISH) or {"mcp_tools", "management", "migrations", "demo"} & set(file.parts):
                continue
            if file.stem == "mcp_tools":
                continue
            for node in ast.walk(ast.parse(file.read_text())):
                if not isinstance(node, ast.Call) or getattr(node.func, "id", "") not in ERRORS:
                    continue
                for message in node.args[:1]:
                    if isinstance(message, ast.JoinedStr | ast.Constant):
                        found.append(f"{path}:{node.lineno} {ast.unparse(message)[:80]}")
    assert len(found) <= MAX_ERRORS_IN_ENGLISH, "\n".join(found)
