"""Checks of the address, proxies and TLS."""

from __future__ import annotations

import socket
import ssl
from datetime import UTC, datetime
from urllib.parse import urlsplit

import httpx
from django.conf import settings
from django.utils.translation import gettext_noop

from memory_project.operating.doctor import exposure
from memory_project.operating.doctor.findings import HealthFinding, ok, problem, text, warning
from memory_project.operating.doctor.registry import Reads, health_check

TIMEOUT_S = 2.5
EXPIRES_SOON_DAYS = 14


@health_check("web", gettext_noop("Address"), Reads.SETTINGS)
def address() -> HealthFinding:
    is_https = settings.COMMONPLACE_URL.startswith("https:")
    is_public = exposure.is_public(settings.COMMONPLACE_HOST, settings.COMMONPLACE_URL)
    url = settings.COMMONPLACE_URL
    if settings.DEBUG and is_public:
        found = text(
            gettext_noop("DEBUG is on, and other machines can reach this one: error pages show the code and settings.")
        )
        return problem(found, text(gettext_noop("Unset DEBUG.")))
    if is_public and not is_https:
        found = text(
            gettext_noop("%(url)s is not https: passwords and tokens cross the network in the clear."), url=url
        )
        return warning(
            found,
            text(gettext_noop("Put a reverse proxy with TLS in front, and set COMMONPLACE_URL to its https address.")),
        )
    return ok(gettext_noop("people and agents use %(url)s"), url=url)


@health_check("web", gettext_noop("Proxies"), Reads.SETTINGS)
def proxies() -> HealthFinding:
    if settings.TRUSTED_PROXIES:
        return ok(gettext_noop("X-Forwarded-For of %(names)s is believed"), names=", ".join(settings.TRUSTED_PROXIES))
    if settings.COMMONPLACE_URL.startswith("https:"):
        found = text(
            gettext_noop(
                "COMMONPLACE_URL is https, so a proxy stands in front, but TRUSTED_PROXIES is empty: all "
                "people seem to come from one address."
            )
        )
        return warning(found, text(gettext_noop("Name the addresses or networks of the proxy in TRUSTED_PROXIES.")))
    return ok(gettext_noop("no proxy is named, and no X-Forwarded-For is believed"))


@health_check("web", gettext_noop("Host names"), Reads.SETTINGS)
def hosts() -> HealthFinding:
    names = ", ".join(settings.ALLOWED_HOSTS)
    if "*" in settings.ALLOWED_HOSTS:
        found = text(
            gettext_noop(
                "ALLOWED_HOSTS accepts every host name, so pages of other sites could reach this server under theirs."
            )
        )
        return warning(
            found, text(gettext_noop("Name the hosts of COMMONPLACE_URL and of health checks in ALLOWED_HOSTS."))
        )
    return ok(gettext_noop("requests for %(names)s are accepted"), names=names)


@health_check("web", gettext_noop("Secret key"), Reads.SETTINGS)
def secret_key() -> HealthFinding:
    file = settings.COMMONPLACE_HOME / "secret_key"
    if settings.SECRET_KEY_IS_SET:
        return ok(gettext_noop("the secret key comes from SECRET_KEY"))
    if file.exists() and file.stat().st_mode & 0o077:
        found = text(gettext_noop("Other accounts of this machine may read %(file)s."), file=str(file))
        return problem(found, text(gettext_noop("chmod 600 %(file)s"), file=str(file)))
    return ok(gettext_noop("the secret key is in COMMONPLACE_HOME, readable by its owner"))


@health_check("web", gettext_noop("Certificate"), Reads.SYSTEMS)
def certificate() -> HealthFinding:
    """Check the certificate of COMMONPLACE_URL over the network."""
    parts = urlsplit(settings.COMMONPLACE_URL)
    host = parts.hostname or ""
    port = parts.port or 443
    if parts.scheme != "https":
        return ok(gettext_noop("COMMONPLACE_URL is not https"))
    try:
        with (
            socket.create_connection((host, port), TIMEOUT_S) as raw,
            ssl.create_default_context().wrap_socket(raw, server_hostname=host) as wrapped,
        ):
            presented = wrapped.getpeercert() or {}
    except ssl.SSLCertVerificationError as error:
        found = text(
            gettext_noop("The certificate of %(host)s is not valid: %(error)s"), host=host, error=error.verify_message
        )
        return problem(
            found, text(gettext_noop("Renew it, and let the proxy send the intermediate certificates, too."))
        )
    except OSError as error:
        found = text(
            gettext_noop("%(host)s could not be reached over TLS from this machine: %(error)s"),
            host=host,
            error=str(error),
        )
        return warning(found, text(gettext_noop("Check the proxy, DNS and COMMONPLACE_URL.")))
    expires = datetime.fromtimestamp(ssl.cert_time_to_seconds(str(presented["notAfter"])), UTC)
    days = (expires - datetime.now(UTC)).days
    if days < EXPIRES_SOON_DAYS:
        found = text(gettext_noop("The certificate of %(host)s expires in %(days)s days."), host=host, days=days)
        return warning(found, text(gettext_noop("Renew it, and check the automatic renewal.")))
    return ok(gettext_noop("the certificate of %(host)s is valid for %(days)s more days"), host=host, days=days)


@health_check("web", gettext_noop("Public address"), Reads.SYSTEMS)
def public_address() -> HealthFinding:
    """Ask for the health check at COMMONPLACE_URL, as people and agents would."""
    url = settings.COMMONPLACE_URL
    try:
        response = httpx.get(f"{url}/healthz", timeout=TIMEOUT_S)
    except httpx.HTTPError as error:
        found = text(
            gettext_noop("%(url)s did not answer this machine: %(error)s"),
            url=url,
            error=str(error) or type(error).__name__,
        )
        return warning(
            found,
            text(
                gettext_noop("Start the web server with `up` or `serve`, and check the proxy, DNS and COMMONPLACE_URL.")
            ),
        )
    if response.status_code == httpx.codes.OK:
        return _answered(url, response)
    if response.status_code in (httpx.codes.BAD_REQUEST, httpx.codes.MISDIRECTED_REQUEST):
        found = text(
            gettext_noop("%(url)s refuses its own host name (status %(status)s)."), url=url, status=response.status_code
        )
        return problem(
            found, text(gettext_noop("Let the proxy pass the Host header on, and add its name to ALLOWED_HOSTS."))
        )
    found = text(gettext_noop("%(url)s/healthz responds with status %(status)s."), url=url, status=response.status_code)
    return problem(found, text(gettext_noop("See the log of the web server, and of the proxy.")))


def _answered(url: str, response: httpx.Response) -> HealthFinding:
    """Report what the server says of itself. It knows the state of the model and of circuit breakers in its process."""
    try:
        body = response.json()
    except ValueError:
        body = None
    if isinstance(body, dict) and body.get("degraded"):
        parts = [f"{name}: {value}" for name, value in body.items() if isinstance(value, str) and value != "ok"]
        found = gettext_noop("%(url)s answers, but is degraded (%(parts)s)")
        fix = gettext_noop("See the checks of the embedding model and of the data catalog.")
        return warning(text(found, url=url, parts=", ".join(parts)), text(fix))
    return ok(gettext_noop("%(url)s answers"), url=url)
