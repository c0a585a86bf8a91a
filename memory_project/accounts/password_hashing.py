"""Password hashing, two at a time.

A password hash is expensive on purpose. Unlimited sign-in attempts would take all cores from everyone else.
"""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as WaitedTooLong
from contextlib import suppress
from functools import cache

from django.contrib.auth.hashers import PBKDF2PasswordHasher

from foundation.operations.errors import TooManyRequests

HASHES_AT_ONCE = 2  # in each process
MAX_WAIT_S = 5.0
NICENESS = 10  # other threads get the cores first


class BoundedPBKDF2(PBKDF2PasswordHasher):
    """Django's default hasher, which computes in HASHES_AT_ONCE threads.

    Every way to check or set a password ends in `encode`.
    """

    def encode(self, password: str, salt: str, iterations: int | None = None) -> str:
        """Raises TooManyRequests if no thread becomes free within MAX_WAIT_S."""
        future = _threads().submit(super().encode, password, salt, iterations)
        try:
            return future.result(timeout=MAX_WAIT_S)
        except WaitedTooLong:
            if not future.cancel():  # it has begun, and ends soon
                return future.result()
            raise TooManyRequests(
                "Too many people are signing in at the same time. Try again in a few seconds.",
                retry_after_s=int(MAX_WAIT_S),
            ) from None


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(HASHES_AT_ONCE, "password-hash", initializer=_yield_to_others)


def _yield_to_others() -> None:
    with suppress(OSError, AttributeError):  # only Linux has priorities of single threads
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
