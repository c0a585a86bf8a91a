"""Checks of other systems: mail server, data catalog, analysis sources, upstream servers and tracing."""

from __future__ import annotations

import smtplib
import ssl
from importlib.util import find_spec

import httpx
from django.conf import settings
from django.utils.translation import gettext_noop

from memory_project.operating.doctor.findings import HealthFinding, listed, ok, problem, text, warning
from memory_project.operating.doctor.registry import Reads, health_check
from memory_project.operating.doctor.table_facts import TableFacts
from memory_project.operating.observability import tracing

TIMEOUT_S = 2.5
PROBE_URN = "urn:li:dataset:(urn:li:dataPlatform:commonplace,doctor,PROD)"  # need not exist
REFUSED = (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN)


@health_check("systems", gettext_noop("Mail server"), Reads.SYSTEMS)
def mail() -> HealthFinding:
    """Connect and sign in to the mail server, without sending anything."""
    host = settings.EMAIL_HOST
    port = settings.EMAIL_PORT
    if not host:
        return ok(gettext_noop("no mail server is configured: links for people are shown for you to pass on"))
    try:
        with smtplib.SMTP(host, port, timeout=TIMEOUT_S) as server:
            if settings.EMAIL_USE_TLS:
                server.starttls(context=ssl.create_default_context())
            if settings.EMAIL_HOST_USER:
                server.login(settings.EMAIL_HOST_USER, settings.EMAIL_HOST_PASSWORD)
    except smtplib.SMTPAuthenticationError as error:
        found = text(
            gettext_noop("The mail server %(host)s refuses the password (%(code)s)."), host=host, code=error.smtp_code
        )
        return problem(found, text(gettext_noop("Check EMAIL_HOST_USER and EMAIL_HOST_PASSWORD.")))
    except (OSError, smtplib.SMTPException) as error:
        description = str(error) or type(error).__name__
        found = text(
            gettext_noop("The mail server %(host)s, port %(port)s, does not answer: %(error)s"),
            host=host,
            port=port,
            error=description,
        )
        return problem(
            found,
            text(
                gettext_noop(
                    "Check EMAIL_HOST, EMAIL_PORT and EMAIL_USE_TLS, and that a firewall lets this machine out."
                )
            ),
        )
    return ok(gettext_noop("the mail server %(host)s answers"), host=host)


@health_check("systems", gettext_noop("Data catalog"), Reads.SYSTEMS, number="W019")
def catalog() -> HealthFinding:
    """Ask DataHub for an entity with our token, as reading the catalog does."""
    server = settings.DATAHUB_GMS_URL.rstrip("/")
    if not server:
        return ok(gettext_noop("the embedded catalog is used"))
    headers = {"Authorization": f"Bearer {settings.DATAHUB_GMS_TOKEN}"} if settings.DATAHUB_GMS_TOKEN else {}
    address = f"{server}/openapi/v3/entity/dataset/batchGet"
    try:
        response = httpx.post(address, json=[{"urn": PROBE_URN, "status": {}}], headers=headers, timeout=TIMEOUT_S)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        description = str(error) or type(error).__name__
        found = text(gettext_noop("DataHub does not answer: %(error)s"), error=description)
        return problem(
            found, text(gettext_noop("Check DATAHUB_GMS_URL, and that GMS runs. Until then, no memory goes stale."))
        )
    if response.status_code in REFUSED:
        found = text(gettext_noop("DataHub refuses the token (status %(status)s)."), status=response.status_code)
        return problem(
            found, text(gettext_noop("Create a personal access token in DataHub, and put it into DATAHUB_GMS_TOKEN."))
        )
    if response.status_code >= httpx.codes.BAD_REQUEST:
        found = text(gettext_noop("DataHub responds with status %(status)s."), status=response.status_code)
        return problem(found, text(gettext_noop("See the log of GMS. Commonplace works with DataHub 1.4 and later.")))
    return ok(gettext_noop("DataHub answers and accepts the token"))


@health_check("systems", gettext_noop("Comparison with the catalog"), Reads.TABLES)
def last_comparison(tables: TableFacts) -> HealthFinding:
    """Report what the last comparison of memories with the catalog could not do."""
    if not tables.catalog_problem:
        return ok(gettext_noop("the last comparison with the memories was complete"))
    found = text(
        gettext_noop("The last comparison of memories with the catalog was incomplete: %(note)s"),
        note=tables.catalog_problem,
    )
    return warning(
        found,
        text(gettext_noop("The check of the data catalog above tells what to do. The next comparison tries again.")),
    )


@health_check("systems", gettext_noop("Package of DataHub"), Reads.SETTINGS, number="E009")
def datahub_installed() -> HealthFinding:
    if not settings.DATAHUB_GMS_URL or find_spec("datahub") is not None:
        return ok(gettext_noop("the package of the configured catalog is installed"))
    found = text(gettext_noop("DATAHUB_GMS_URL is set, but the extra `datahub` is not installed."))
    fix = gettext_noop("Install it: pip install 'commonplace[datahub]', or unset DATAHUB_GMS_URL.")
    return problem(found, text(fix))


@health_check("systems", gettext_noop("Tracing"), Reads.SETTINGS, number="W010")
def traces() -> HealthFinding:
    if not tracing.is_wanted():
        return ok(gettext_noop("no traces are sent"))
    if tracing.is_installed():
        return ok(gettext_noop("traces are sent to the address of OTEL_EXPORTER_OTLP_ENDPOINT"))
    found = gettext_noop(
        "OTEL_EXPORTER_OTLP_ENDPOINT is set, but the extra `otel` is not installed: nothing is traced."
    )
    fix = gettext_noop("Install it: pip install 'commonplace[otel]', or unset the variable.")
    return warning(text(found), text(fix))


@health_check("systems", gettext_noop("Analysis sources"), Reads.TABLES)
def sources(tables: TableFacts) -> HealthFinding:
    if not tables.failing_sources:
        return ok(gettext_noop("no source has failed when it was last read"))
    names = listed(tables.failing_sources)
    found = text(gettext_noop("Sources failed when they were last read: %(names)s"), names=names)
    return warning(found, text(gettext_noop("The page Connected systems shows the errors, and tests sources.")))


@health_check("systems", gettext_noop("Upstream servers"), Reads.TABLES)
def upstreams(tables: TableFacts) -> HealthFinding:
    if not tables.failing_upstreams:
        return ok(gettext_noop("no upstream server has failed when it was last asked"))
    found = text(
        gettext_noop("Upstream servers failed when they were last asked: %(names)s"),
        names=listed(tables.failing_upstreams),
    )
    return warning(found, text(gettext_noop("The page Connected systems shows the errors, and tests servers.")))
