"""Checks of what recall needs: the embedding model, and vectors that this model has computed."""

from __future__ import annotations

from importlib.util import find_spec

from django.conf import settings
from django.utils.translation import gettext_noop

from foundation import embedding
from foundation.embedding import EmbedderUnavailable, calibration, e5
from memory_project.operating.doctor.findings import FindingText, HealthFinding, ok, problem, text, unknown, warning
from memory_project.operating.doctor.machine_facts import configured_model
from memory_project.operating.doctor.registry import Reads, health_check
from memory_project.operating.doctor.table_facts import TableFacts

OTHER_LANGUAGES = 0.2  # share of memories in other languages above which a model for them pays
CALIBRATE = gettext_noop("Run the command `embed --calibrate` once there are %(count)s memories.")
PROBE = "How does the checkup find its way?"


@health_check("recall", gettext_noop("Embedding model"), Reads.SETTINGS, number="W001")
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
    if settings.EMBEDDING_PROVIDER == "e5":
        return text(gettext_noop("Install it: pip install 'commonplace[e5]', or choose another provider."))
    return text(gettext_noop("Check EMBEDDING_PROVIDER and EMBEDDING_MODEL, and that COMMONPLACE_HOME can be written."))


@health_check("recall", gettext_noop("Name of the model"), Reads.SETTINGS, number="E007")
def model_named() -> HealthFinding:
    if settings.EMBEDDING_PROVIDER not in ("openai", "sentence-transformers") or settings.EMBEDDING_MODEL:
        return ok(gettext_noop("the model is known"))
    found = text(gettext_noop("EMBEDDING_PROVIDER=%(provider)s needs a model."), provider=settings.EMBEDDING_PROVIDER)
    return problem(found, text(gettext_noop("Name the model in EMBEDDING_MODEL.")))


@health_check("recall", gettext_noop("Calibration of the model"), Reads.SETTINGS)
def model_calibrated() -> HealthFinding:
    if settings.EMBEDDING_PROVIDER not in calibration.PROVIDERS:
        return ok(gettext_noop("the model needs none"))
    values = {"name": settings.EMBEDDING_MODEL}
    try:
        is_calibrated = calibration.name_of_vectors(settings.EMBEDDING_MODEL) != settings.EMBEDDING_MODEL
    except EmbedderUnavailable as error:
        return problem(text(gettext_noop("%(error)s"), error=str(error)), text(CALIBRATE, count=calibration.MIN_TEXTS))
    if is_calibrated:
        return ok(gettext_noop("the cosines of %(name)s are calibrated with memories of this installation"), **values)
    found = gettext_noop(
        "the cosines of %(name)s are not calibrated: thresholds, such as that of near-duplicates, are those of MiniLM"
    )
    return warning(text(found, **values), text(CALIBRATE, count=calibration.MIN_TEXTS))


@health_check("recall", gettext_noop("Package of the models"), Reads.SETTINGS, number="E010")
def models_installed() -> HealthFinding:
    if settings.EMBEDDING_PROVIDER == "e5":
        try:
            e5.packaged_weights()
        except EmbedderUnavailable as error:
            return problem(text(gettext_noop("%(error)s"), error=str(error)), model_fix())
    users = ("EMBEDDING_PROVIDER", "RERANK_PROVIDER")
    names = [name for name in users if getattr(settings, name) == "sentence-transformers"]
    if not names or find_spec("sentence_transformers") is not None:
        return ok(gettext_noop("the packages of the configured models are installed"))
    found = text(
        gettext_noop("%(names)s=sentence-transformers, but the extra `models` is not installed."),
        names=" and ".join(names),
    )
    fix = gettext_noop("Install it: pip install 'commonplace[models]', or choose another provider.")
    return problem(found, text(fix))


@health_check("recall", gettext_noop("Trial of the embedding model"), Reads.SYSTEMS)
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


@health_check("recall", gettext_noop("Stored vectors"), Reads.TABLES, number="W018")
def stored_vectors(tables: TableFacts) -> HealthFinding:
    """Compare the name stored with vectors with the configured model, for a sample of the memories."""
    expected = configured_model()
    if not expected:
        return unknown(gettext_noop("not compared, because there is no embedding model"))
    others = {name: count for name, count in tables.vectors.items() if name != expected}
    if not others:
        return ok(gettext_noop("stored vectors are those of %(name)s"), name=expected)
    looked_at = sum(tables.vectors.values())
    values = {"other": next(iter(others)), "count": sum(others.values()), "all": looked_at, "name": expected}
    found = gettext_noop(
        "%(count)s of %(all)s vectors looked at are of the model %(other)s, and the configured one is %(name)s"
    )
    fix = gettext_noop("Run the command `embed`, which computes them anew, or configure the model %(other)s again.")
    return problem(text(found, **values), text(fix, **values))


@health_check("recall", gettext_noop("Languages"), Reads.TABLES)
def languages(tables: TableFacts) -> HealthFinding:
    """Compare the languages of memories with those that the model knows. MiniLM knows English only."""
    if settings.EMBEDDING_PROVIDER != "minilm":
        return ok(gettext_noop("the model is not limited to English"))
    values = {"count": tables.other_languages, "all": tables.known_languages}
    message = gettext_noop("%(count)s of %(all)s memories looked at are in other languages than English")
    if tables.other_languages <= OTHER_LANGUAGES * tables.known_languages:
        return ok(message, **values)
    fix = gettext_noop(
        "The model all-MiniLM-L6-v2 knows English only, so that these memories are found by their words alone. Install "
        "the extra `e5`, set EMBEDDING_PROVIDER=e5, and run the command `embed`, which computes all vectors anew."
    )
    return warning(text(message, **values), text(fix))
