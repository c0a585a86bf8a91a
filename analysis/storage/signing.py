"""AWS Signature Version 4 for requests without a body.

https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

ALGORITHM = "AWS4-HMAC-SHA256"
EMPTY_BODY = hashlib.sha256(b"").hexdigest()


@dataclass(frozen=True, repr=False)  # no repr, because it would be in tracebacks
class Credentials:
    access_key: str
    secret_key: str
    session_token: str = ""


def signed(
    method: str, host: str, path: str, query: str, *, credentials: Credentials, region: str, now: datetime
) -> dict[str, str]:
    """Return the headers that sign a request.

    `path` and `query` are percent-encoded as they are sent, and the parameters of `query` are sorted. `now` is in UTC.
    """
    moment = now.strftime("%Y%m%dT%H%M%SZ")
    headers = {"host": host, "x-amz-content-sha256": EMPTY_BODY, "x-amz-date": moment}
    if credentials.session_token:
        headers["x-amz-security-token"] = credentials.session_token
    names = ";".join(headers)  # in alphabetical order
    lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
    request = "\n".join([method, path, query, lines, names, EMPTY_BODY])
    scope = f"{moment[:8]}/{region}/s3/aws4_request"
    to_sign = "\n".join([ALGORITHM, moment, scope, hashlib.sha256(request.encode()).hexdigest()])
    signature = hmac.new(_key(credentials.secret_key, scope), to_sign.encode(), hashlib.sha256).hexdigest()
    authorization = f"{ALGORITHM} Credential={credentials.access_key}/{scope}, SignedHeaders={names}, "
    return {**_without_host(headers), "authorization": f"{authorization}Signature={signature}"}


def _key(secret: str, scope: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key


def _without_host(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name != "host"}  # the HTTP client sends its own
