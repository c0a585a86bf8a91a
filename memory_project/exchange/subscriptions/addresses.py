"""Locations of sources: which folders and repositories may be read.

Folders must be below SUBSCRIPTION_FOLDERS. Repositories must be on hosts with public addresses, because otherwise
whoever sets up a subscription could read what only this server can reach. Hosts in SUBSCRIPTION_PRIVATE_HOSTS are
excepted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import SplitResult, unquote, urlsplit

from django.conf import settings

from foundation.operations.errors import Invalid, Upstream
from memory_project.exchange.subscriptions.models import SubscriptionKind

HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?|[0-9a-fA-F:.]{2,45}")
USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,60}")
PATH = re.compile(r"/[A-Za-z0-9._~/%+@=-]+")
BRANCH = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._/+-]*")
PORTS = {"https": 443, "http": 80, "ssh": 22}
URLS = "https://host/path, ssh://user@host/path or file:///path, without password, query and options"


@dataclass(frozen=True)
class Remote:
    url: str
    scheme: str
    host: str = ""
    port: int = 0
    addresses: tuple[str, ...] = ()  # the checked ones; () for private hosts and file URLs


def check_location(kind: str, location: str) -> str:
    """Return the location in its usual spelling. Raises Invalid if it may not be read. Looks up no host names."""
    return str(allowed_folder(location)) if kind == SubscriptionKind.FOLDER else _checked_url(location).geturl()


def check_branch(branch: str) -> str:
    if branch and (not BRANCH.fullmatch(branch) or ".." in branch or branch.endswith((".", "/", ".lock"))):
        raise Invalid(f"{branch[:80]!r} is not the name of a branch", field="branch", allowed="a name such as main")
    return branch


def check_subfolder(subfolder: str) -> str:
    """Return the path without surrounding slashes."""
    path = subfolder.strip().strip("/")
    parts = PurePosixPath(path).parts
    if ".." in parts or "\\" in path or not path.isprintable() or any(part.startswith((".", "-")) for part in parts):
        raise Invalid(
            f"{subfolder[:80]!r} is not a folder of the source", field="subfolder", allowed="such as docs/adr"
        )
    return "/".join(parts)


def allowed_folder(location: str) -> Path:
    """Return the real path of an allowed folder or local repository."""
    roots = [Path(root).resolve() for root in settings.SUBSCRIPTION_FOLDERS]
    allowed = f"folders below {', '.join(map(str, roots))}" if roots else "none until SUBSCRIPTION_FOLDERS is set"
    path = Path(location)
    if not path.is_absolute():
        raise Invalid(f"{location[:80]!r} is not an absolute path", field="location", allowed=allowed)
    try:
        real = path.resolve()
    except (OSError, RuntimeError, ValueError):  # a loop of links, a NUL character
        raise Invalid("can't be resolved", field="location", allowed=allowed) from None
    if not any(real.is_relative_to(root) for root in roots):
        raise Invalid(f"{location[:80]!r} may not be read", field="location", allowed=allowed)
    if not real.is_dir():  # checked last, so that the answer says nothing about other folders
        raise Invalid(f"{location[:80]!r} is not a folder", field="location", allowed=allowed)
    return real


def remote(location: str) -> Remote:
    """Check a repository's URL and look up its host. Raises Invalid or Upstream if it can't be read."""
    from foundation.outbound import public_http  # noqa: PLC0415 - needs httpx, which other processes save

    parts = _checked_url(location)
    if parts.scheme == "file":
        return Remote(parts.geturl(), "file")
    host = parts.hostname or ""
    port = parts.port or PORTS[parts.scheme]
    if host in settings.SUBSCRIPTION_PRIVATE_HOSTS:
        return Remote(parts.geturl(), parts.scheme, host, port)
    try:
        addresses = public_http.public_addresses(host, port)
    except public_http.NotPublic as error:
        raise Upstream(str(error)) from None
    return Remote(parts.geturl(), parts.scheme, host, port, tuple(addresses))


def _checked_url(location: str) -> SplitResult:
    # Nothing of a refused URL is repeated, because it may contain a password.
    text = location.strip()
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise Invalid("is not a URL", field="location", allowed=URLS) from None
    is_private = (parts.hostname or "") in settings.SUBSCRIPTION_PRIVATE_HOSTS
    schemes = ("https", "ssh", "file", *(["http"] if is_private else []))
    if parts.scheme not in schemes:
        raise Invalid("has a scheme that is not allowed", field="location", allowed=URLS)
    if parts.password is not None or (parts.username is not None and parts.scheme != "ssh"):
        allowed = "a URL without them; put them into the file of SUBSCRIPTION_GIT_CREDENTIALS"
        raise Invalid("contains credentials", field="location", allowed=allowed)
    if parts.query or parts.fragment or not PATH.fullmatch(parts.path) or ".." in parts.path.split("/"):
        raise Invalid("has a path, query or fragment that is not allowed", field="location", allowed=URLS)
    if parts.scheme == "file":
        if parts.netloc:
            raise Invalid("names a host", field="location", allowed="file:///path")
        return parts._replace(path=str(allowed_folder(unquote(parts.path))))
    if not HOST.fullmatch(parts.hostname or "") or (parts.username and not USER.fullmatch(parts.username)):
        raise Invalid("has a host or user that is not allowed", field="location", allowed=URLS)
    if port == 0:
        raise Invalid("has port 0", field="location", allowed=URLS)
    return parts
