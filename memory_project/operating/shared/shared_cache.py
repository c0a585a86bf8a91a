"""Caches that all processes share: Redis if CACHE_URL names one, and otherwise a table.

Values are stored as JSON, because loading a pickle would let whoever can write to the cache run code.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.core.cache import caches
from django.core.cache.backends.base import DEFAULT_TIMEOUT, BaseCache
from django.core.cache.backends.redis import RedisCache
from django.db import connection
from django.utils import timezone
from django.utils.functional import cached_property

from memory_project.operating.shared.models import CacheEntry

log = logging.getLogger(__name__)

AWAY_S = 10.0  # seconds for which a Redis that has failed is not asked again
SET = """
    INSERT INTO cache_entries (key, value, expires_at) VALUES (%s, %s, %s)
    ON CONFLICT (key) DO UPDATE SET value = excluded.value, expires_at = excluded.expires_at"""
# sets the value only if there is none that has not expired; one statement, so that one of two processes succeeds
ADD = f"{SET} WHERE cache_entries.expires_at <= clock_timestamp() RETURNING key"
INCREMENT = """
    UPDATE cache_entries SET value = to_jsonb((value #>> '{}')::bigint + %s)
    WHERE key = %s AND (expires_at IS NULL OR expires_at > clock_timestamp()) RETURNING value"""
DELETE_EXPIRED = "DELETE FROM cache_entries WHERE expires_at <= clock_timestamp()"
CLEANUP_S = 60.0  # seconds between two deletions of expired entries by one process


class JsonSerializer:
    def dumps(self, value: Any) -> bytes:
        return json.dumps(value).encode()

    def loads(self, data: bytes) -> Any:
        return json.loads(data)


class TableCache(BaseCache):
    """Entries in the table cache_entries. A write is part of the transaction in which it is made."""

    cleaned_at = 0.0  # by any thread of this process; time.monotonic

    def __init__(self, location: str, params: dict[str, Any]) -> None:
        super().__init__(params)

    def get(self, key: str, default: Any = None, version: int | None = None) -> Any:
        return self.get_many([key], version).get(key, default)

    def get_many(self, keys: Iterable[str], version: int | None = None) -> dict[str, Any]:
        names = {self.make_and_validate_key(key, version=version): key for key in keys}
        rows = CacheEntry.objects.filter(pk__in=names).exclude(expires_at__lte=timezone.now())
        return {names[row.key]: row.value for row in rows}

    def set(self, key: str, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> None:
        self._write(SET, key, value, timeout, version)

    def add(self, key: str, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        return self._write(ADD, key, value, timeout, version)

    def touch(self, key: str, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        rows = CacheEntry.objects.filter(pk=self.make_and_validate_key(key, version=version))
        return bool(rows.exclude(expires_at__lte=timezone.now()).update(expires_at=self._expiry(timeout)))

    def incr(self, key: str, delta: int = 1, version: int | None = None) -> int:
        with connection.cursor() as cursor:
            cursor.execute(INCREMENT, [delta, self.make_and_validate_key(key, version=version)])
            row = cursor.fetchone()
        if row is None:
            raise ValueError(f"Key {key!r} not found.")
        return int(row[0])

    def delete(self, key: str, version: int | None = None) -> bool:
        return bool(CacheEntry.objects.filter(pk=self.make_and_validate_key(key, version=version)).delete()[0])

    def clear(self) -> None:
        CacheEntry.objects.all().delete()

    def _write(self, statement: str, key: str, value: Any, timeout: Any, version: int | None) -> bool:
        name = self.make_and_validate_key(key, version=version)
        with connection.cursor() as cursor:
            if time.monotonic() - TableCache.cleaned_at > CLEANUP_S:
                TableCache.cleaned_at = time.monotonic()
                cursor.execute(DELETE_EXPIRED)
            cursor.execute(statement, [name, json.dumps(value), self._expiry(timeout)])
            return bool(cursor.rowcount)

    def _expiry(self, timeout: Any) -> datetime | None:
        seconds = self.default_timeout if timeout is DEFAULT_TIMEOUT else timeout
        return None if seconds is None else timezone.now() + timedelta(seconds=seconds)


@dataclass
class CacheState:
    """What all threads of this process know about a Redis. Django makes a cache object for each thread."""

    redis: RedisCache  # its pool of connections is safe for threads
    away_until: float = 0.0  # time.monotonic
    problem: str = ""  # why it did not answer last time


_states: dict[str, CacheState] = {}


class SharedRedis(BaseCache):
    """Redis, and the cache named by the option `fallback` for AWAY_S seconds after Redis has failed."""

    def __init__(self, location: str, params: dict[str, Any]) -> None:
        super().__init__(params)
        options = dict(params.get("OPTIONS", {}))
        self.fallback = str(options.pop("fallback"))
        redis = RedisCache(location, {**params, "OPTIONS": {**options, "serializer": JsonSerializer}})
        self.state = _states.setdefault(location, CacheState(redis))

    @cached_property
    def _errors(self) -> tuple[type[Exception], ...]:
        from redis.exceptions import RedisError  # noqa: PLC0415 - installed with the extra `redis`

        return (RedisError, OSError)

    def _call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        state = self.state
        if time.monotonic() >= state.away_until:
            try:
                answer = getattr(state.redis, name)(*args, **kwargs)
            except self._errors as error:
                state.away_until = time.monotonic() + AWAY_S
                if not state.problem:
                    log.warning("the Redis of CACHE_URL does not answer: %s", type(error).__name__)
                state.problem = type(error).__name__
            else:
                state.problem = ""
                return answer
        operation: Callable[..., Any] = getattr(caches[self.fallback], name)
        return operation(*args, **kwargs)

    def get(self, key: str, default: Any = None, version: int | None = None) -> Any:
        return self._call("get", key, default, version=version)

    def get_many(self, keys: Iterable[str], version: int | None = None) -> Any:
        return self._call("get_many", list(keys), version=version)

    def set(self, key: str, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> None:
        self._call("set", key, value, timeout, version=version)

    def add(self, key: str, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        return bool(self._call("add", key, value, timeout, version=version))

    def touch(self, key: str, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        return bool(self._call("touch", key, timeout, version=version))

    def incr(self, key: str, delta: int = 1, version: int | None = None) -> int:
        return int(self._call("incr", key, delta, version=version))

    def delete(self, key: str, version: int | None = None) -> bool:
        return bool(self._call("delete", key, version=version))

    def clear(self) -> None:
        self._call("clear")


def problem() -> str:
    """Return why the Redis of CACHE_URL can't be used by this process, or "" if it can, or if none is configured."""
    cache = caches["default"]
    if not isinstance(cache, SharedRedis):
        return ""
    cache.get("probe")
    return cache.state.problem
