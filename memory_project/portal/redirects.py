from __future__ import annotations

from django.utils.http import url_has_allowed_host_and_scheme


def local_page(address: str) -> str:
    """Return the address if it is a path on this site, otherwise ""."""
    is_ours = address.startswith("/") and url_has_allowed_host_and_scheme(address, allowed_hosts=None)
    return address if is_ours and "\x00" not in address else ""
