"""Checks for a server that other machines can reach."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit

from memory_project.models import User
from memory_project.operating.demo import PASSWORD, PEOPLE, address


def is_public(host: str, url: str) -> bool:
    """Return whether other machines can reach a server that listens on `host` and is used under `url`."""
    return not (is_loopback(host) and is_loopback(urlsplit(url).hostname or ""))


def is_loopback(host: str) -> bool:
    name = host.strip("[]").lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def open_demo_accounts() -> list[str]:
    """Return the e-mail addresses of active demo accounts that still have the password published in the source."""
    people = User.objects.filter(email__in=[address(login) for login in PEOPLE], is_active=True)
    return [person.email for person in people if person.check_password(PASSWORD)]
