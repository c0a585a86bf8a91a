"""URLs of PostgreSQL databases, also with several hosts as libpq reads them."""

from __future__ import annotations

from typing import Any

import dj_database_url
import psycopg
from django.core.exceptions import ImproperlyConfigured
from psycopg.conninfo import conninfo_to_dict

SCHEMES = ("postgres", "postgresql", "pgsql", "postgis", "timescale", "timescalegis")  # all mean the same here
CONNECT_TIMEOUT_S = 2  # for each of several hosts, because one that is switched off would be waited for longer
# options that don't depend on the server that a connection leads to
SAME_ON_A_REPLICA = (
    "options", "prepare_threshold", "pool", "keepalives_idle", "keepalives_interval", "keepalives_count",
    "tcp_user_timeout",
)  # fmt: skip
ALLOWED = "postgres://user:password@host:port/database, or with several hosts: …@host:port,host:port/database"


def parse(name: str, url: str, *, session: str = "read-write") -> dict[str, Any]:
    """Return Django's settings of the database with this URL, which the environment variable `name` contains.

    With several hosts, the first one counts that accepts sessions of this kind, unless the URL has its own
    `target_session_attrs`. Raises ImproperlyConfigured, without the URL, because it contains a password.
    """
    scheme, _, rest = url.partition("://")
    if scheme not in SCHEMES or not rest:
        raise ImproperlyConfigured(f"{name} is not the URL of a PostgreSQL database; allowed: {ALLOWED}")
    try:
        config: dict[str, Any] = dict(dj_database_url.parse(url, conn_health_checks=True))
    except ValueError:  # several hosts with ports
        config = _several_hosts(name, f"postgresql://{rest}")
    options = config.setdefault("OPTIONS", {})
    for setting, option in (("HOST", "host"), ("PORT", "port")):
        config[setting] = config[setting] or str(options.pop(option, ""))
    if "," in config["HOST"]:
        options.setdefault("target_session_attrs", session)
        options.setdefault("connect_timeout", CONNECT_TIMEOUT_S)
    return config


def _several_hosts(name: str, url: str) -> dict[str, Any]:
    try:
        options: dict[str, Any] = dict(conninfo_to_dict(url))
        ports = str(options.get("port", "")).split(",")
        is_valid = all(not port or port.isdigit() for port in ports)
    except psycopg.ProgrammingError:
        is_valid = False
    if not is_valid:
        raise ImproperlyConfigured(f"{name} is not a URL that libpq can read; allowed: {ALLOWED}")
    names = {"NAME": "dbname", "USER": "user", "PASSWORD": "password", "HOST": "host", "PORT": "port"}
    values = {setting: options.pop(option, "") for setting, option in names.items()}
    return {"ENGINE": "", "CONN_MAX_AGE": 0, "CONN_HEALTH_CHECKS": True, **values, "OPTIONS": options}


def replica(name: str, url: str, *, of: dict[str, Any]) -> dict[str, Any]:
    """Return Django's settings of a replica, which has the options of the database that it is a replica `of`."""
    config = parse(name, url, session="standby")
    options = {**config["OPTIONS"], "connect_timeout": config["OPTIONS"].get("connect_timeout", CONNECT_TIMEOUT_S)}
    options |= {option: value for option, value in of["OPTIONS"].items() if option in SAME_ON_A_REPLICA}
    if "pool" in options:
        # A call that can't get a connection reads from the primary.
        options["pool"] = {**options["pool"], "timeout": CONNECT_TIMEOUT_S, "reconnect_timeout": 0}
    return {
        **config,
        "ENGINE": "foundation.database.replica_engine",
        "OPTIONS": options,
        "CONN_MAX_AGE": of["CONN_MAX_AGE"],
        "DISABLE_SERVER_SIDE_CURSORS": True,  # a statement that fails between two of its rows could not be repeated
        "TEST": {"MIRROR": "default"},
    }
