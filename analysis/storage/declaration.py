"""Declarations of object stores: bucket, prefix, endpoint, permitted personas and limits."""

from __future__ import annotations

from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from analysis.sources.declaration import TOKEN_NAME, SourceConnection, kind_of
from analysis.storage.keys import is_safe
from foundation.operations.declarations import declared, read_toml

BUCKET = r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$"
KIND = "s3"


class ObjectStore(SourceConnection):
    """The declaration of one bucket, or of a folder in it, on Amazon S3 or a server with the same protocol.

    The credentials are in environment variables, and should belong to a user that may only list and read. Without
    credentials, requests are not signed, for public buckets.
    """

    kind: Literal["s3"]
    description: str = ""
    bucket: str = Field(pattern=BUCKET)
    prefix: str = Field(default="", max_length=900, description="a folder of the bucket; nothing outside is reachable")
    endpoint: str = Field(default="", description="http(s)://host[:port] of the server; if empty, Amazon's own")
    region: str = Field(default="us-east-1", pattern=r"^[a-z0-9-]{1,40}$")
    path_style: bool | None = Field(
        default=None, description="whether the bucket is in the path; by default with `endpoint`, else in the host"
    )
    access_key_env: str = Field(default="", description="the environment variable with the id of the access key")
    secret_key_env: str = Field(default="", description="the environment variable with the secret key")
    session_token_env: str = Field(default="", description="the same with the token of temporary credentials")
    platform: str = Field(default="s3", pattern=r"^[A-Za-z0-9_-]{1,40}$", description="its name in the catalog")
    platform_instance: str = Field(default="", max_length=100, description="its instance in the catalog")
    environment: str = Field(default="PROD", pattern=r"^[A-Z_]{1,20}$", description="its environment in the catalog")
    read_personas: tuple[str, ...] = Field(default=(), description="personas that may read; if empty, only operators")
    text_bytes: int = Field(
        default=1_000_000, ge=1_000, le=50_000_000, description="maximum that is read of a text, CSV or JSON file"
    )
    parquet_bytes: int = Field(
        default=20_000_000, ge=100_000, le=1_000_000_000, description="maximum that is read of a Parquet file"
    )
    timeout_s: float = Field(default=20.0, gt=0, le=300)

    @model_validator(mode="after")
    def _complete(self) -> ObjectStore:
        if self.endpoint:
            parts = urlsplit(self.endpoint)
            extra = parts.username or parts.path.strip("/") or parts.query or parts.fragment
            if parts.scheme not in ("http", "https") or not parts.hostname or extra:
                raise ValueError("endpoint must be http:// or https:// with a host, without credentials and path")
        names = (self.access_key_env, self.secret_key_env, self.session_token_env)
        if bool(self.access_key_env) != bool(self.secret_key_env) or (
            self.session_token_env and not self.secret_key_env
        ):
            raise ValueError("access_key_env and secret_key_env must be declared together")
        if any(name and not TOKEN_NAME.fullmatch(name) for name in names):
            raise ValueError("access_key_env, secret_key_env and session_token_env must begin with SOURCE_")
        if not is_safe(self.prefix):
            raise ValueError("prefix must be a folder of the bucket, without a leading slash, . and ..")
        return self

    @property
    def folder(self) -> str:
        """Return the prefix with a slash at its end, so that `sales` doesn't reach `sales-secret`, or ""."""
        return f"{self.prefix.rstrip('/')}/" if self.prefix else ""

    @property
    def is_path_style(self) -> bool:
        # no certificate is valid for a bucket with dots as part of the host
        return bool(self.endpoint) or "." in self.bucket if self.path_style is None else self.path_style

    def path_of(self, key: str) -> str:
        """Return the path of a key or prefix as catalogs name it: bucket/folder/key."""
        return f"{self.bucket}/{self.folder}{key}"


def is_store(text: str) -> bool:
    """Return whether the text declares an object store. Returns False for invalid TOML."""
    return kind_of(text) == KIND


def parse(name: str, text: str, *, is_from_file: bool = False) -> ObjectStore:
    """Parse a text for which is_store() is true. Raises Invalid, which names the field, if a value is not valid."""
    store = declared(ObjectStore, name, read_toml(text, name))
    store._is_from_file = is_from_file
    return store
