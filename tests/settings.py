"""The project's settings with a separate data folder and a fast, deterministic embedder."""

from __future__ import annotations

import os
from pathlib import Path

os.environ.setdefault("COMMONPLACE_HOME", str(Path(__file__).resolve().parent.parent / "var" / "test"))
os.environ.setdefault("EMBEDDING_PROVIDER", "deterministic")
os.environ.setdefault("DATABASE_POOL_SIZE", "0")

from memory_project.settings import *  # noqa: F403

if not DATABASE_URL:  # noqa: F405
    from memory_project.operating.postgres.server import APPLICATION, SERVER_OPTIONS, SUPERUSER

    # a crash of the machine may lose the tests' database, so no commit waits for the disk
    SERVER_OPTIONS |= {"fsync": "off", "full_page_writes": "off"}
    # Tests connect as superuser, because they create and flush their database. test_roles.py tests the application's
    # role.
    DATABASES["default"]["USER"] = DATABASE_OWNER["USER"] = SUPERUSER  # noqa: F405
    # What runs under an identity is subject to row-level security, as in an installation.
    DATABASES["default"]["IDENTITY_ROLE"] = APPLICATION  # noqa: F405
# a test's threads end with it, and their connections must end too
DATABASES["default"]["CONN_MAX_AGE"] = 0  # noqa: F405
DATABASES["default"]["OPTIONS"]["connect_timeout"] = 60  # the machine may be busy  # noqa: F405
# a fast hash, because tests sign in hundreds of times
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
WHITENOISE_AUTOREFRESH = True
ANALYSIS_PRIVATE_HOSTS = ["127.0.0.1", "localhost"]  # stand-ins for other systems run on this machine
# the machine may be busy; tests of the limit set their own
MEMORY_CONTEXT_MS = 10_000
# A change of a token reaches the process that serves it some milliseconds later. Tests of the cache switch it on.
TOKEN_CACHE_S = 0
