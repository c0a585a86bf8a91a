"""Checks of what recall needs: the embedding model, and vectors that this model has computed."""

from __future__ import annotations

from django.conf import settings
from django.db import connection
from django.utils.translation import gettext_noop

from foundation import embedding
from foundation.database import identity
from foundation.embedding import EmbedderUnavailable
from foundation.embedding.minilm import NAME as PACKAGED
from memory_project.operating.doctor.findings import FindingText, HealthFinding, ok, problem, text, unknown, warning

SAMPLE = 1_000
# The rows that are read first are mostly the oldest ones, which a change of the model leaves behind.
MODELS = """
    SELECT embedding_model, count(*) FROM
        (SELECT embedding_model FROM memory_records WHERE embedding_model <> '' LIMIT %s) sample
    GROUP BY 1 ORDER BY 2 DESC"""
PROBE = "How does the checkup find its way?"


def configured_model() -> str:
    """Return the name under which vectors of the configured model are stored, or "" without a model."""
    return {
        "minilm": PACKAGED,
        "deterministic": f"deterministic-{settings.EMBEDDING_DIMENSIONS}",
        "none": "",
    }.get(settings.EMBEDDING_PROVIDER, settings.EMBEDDING_MODEL)


def provider() -> HealthFinding:
    """Report the model of this process without loading it."""
    state = embedding.state()
    detail = state["detail"] or state["state"]
    match state["state"]:
        case "off":
            found = text(gettext_noop("no embedding provider: recall matches words only, not meaning"))
            return warning(found, text(gettext_noop("Unset EMBEDDING_PROVIDER to use the packaged model.")))
        case "failed" | "away":
            return problem(
                text(gettext_noop("the embedding model is unavailable: %(detail)s"), detail=detail), model_fix()
            )
        case _:
            return ok(gettext_noop("%(provider)s: %(detail)s"), provider=state["provider"], detail=detail)


def model_fix() -> FindingText:
    if settings.EMBEDDING_PROVIDER == "openai":
        return text(
            gettext_noop("Check EMBEDDING_URL, EMBEDDING_MODEL and EMBEDDING_API_KEY, and that the server runs.")
        )
    return text(gettext_noop("Check EMBEDDING_PROVIDER and EMBEDDING_MODEL, and that COMMONPLACE_HOME can be written."))


def model_answers() -> HealthFinding:
    """Embed a short text. It may have to load the model first, so it is slow."""
    if settings.EMBEDDING_PROVIDER == "none":
        return provider()
    try:
        _, name = embedding.embed([PROBE])
    except EmbedderUnavailable as error:
        return problem(
            text(gettext_noop("the embedding model is unavailable: %(detail)s"), detail=str(error)), model_fix()
        )
    return ok(gettext_noop("the embedding model %(name)s answers"), name=name)


@identity.service("operation")
def stored_vectors() -> HealthFinding:
    """Compare the name stored with vectors with the configured model, for a sample of the memories."""
    expected = configured_model()
    if not expected:
        return unknown(gettext_noop("not compared, because there is no embedding model"))
    with connection.cursor() as cursor:
        cursor.execute(MODELS, [SAMPLE])
        counts = dict(cursor.fetchall())
    others = {name: count for name, count in counts.items() if name != expected}
    if not others:
        return ok(gettext_noop("stored vectors are those of %(name)s"), name=expected)
    values = {"other": next(iter(others)), "count": sum(others.values()), "all": sum(counts.values()), "name": expected}
    found = gettext_noop(
        "%(count)s of %(all)s vectors looked at are of the model %(other)s, and the configured one is %(name)s"
    )
    fix = gettext_noop("Run the command `embed`, which computes them anew, or configure the model %(other)s again.")
    return problem(text(found, **values), text(fix, **values))
