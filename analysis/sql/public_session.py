"""A session of requests, which the Trino driver uses, that reaches public hosts only."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter

from foundation.outbound.public_http import NotPublic, public_addresses


class PublicAdapter(HTTPAdapter):  # type: ignore[misc]  # requests has no types
    """Checks the host of each request, also of those that a response or a redirect leads to.

    It connects to the address that it has checked, because a second look-up could return another (DNS rebinding).
    """

    def build_connection_pool_key_attributes(
        self, request: Any, verify: Any, cert: Any = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        host_params, pool_kwargs = super().build_connection_pool_key_attributes(request, verify, cert)
        host = host_params["host"]
        scheme = host_params["scheme"]
        try:
            address = public_addresses(host, host_params["port"] or (443 if scheme == "https" else 80))[0]
        except NotPublic:
            raise requests.ConnectionError("the host has no public address") from None
        if scheme == "https":
            pool_kwargs |= {"server_hostname": host, "assert_hostname": host}
        request.headers["Host"] = urlsplit(request.url).netloc.rpartition("@")[2]
        return {**host_params, "host": address}, pool_kwargs


def public_session() -> requests.Session:
    session = requests.Session()
    session.trust_env = False  # a proxy would look up the host again
    session.mount("https://", PublicAdapter())
    session.mount("http://", PublicAdapter())
    return session
