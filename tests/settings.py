"""The project's settings with a data folder of the tests' own and a quick, deterministic embedder."""

from __future__ import annotations

import os
from pathlib import Path

os.environ.setdefault("COMMONPLACE_HOME", str(Path(__file__).resolve().parent.parent / "var" / "test"))
os.environ.setdefault("EMBEDDING_PROVIDER", "deterministic")
os.environ.setdefault("DATABASE_POOL_SIZE", "0")

from memory_project.settings import *  # noqa: F403

if not DATABASE_URL:  # noqa: F405
    from memory_project.postgres.server import SUPERUSER

    # The test database is made and flushed by whoever owns it; what the application's role may is a test of its own.
    DATABASES["default"]["USER"] = DATABASE_OWNER["USER"] = SUPERUSER  # noqa: F405
DATABASES["default"]["CONN_MAX_AGE"] = 0  # noqa: F405 - a test's threads end with it, and so must their connections
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # tests sign in hundreds of times
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
WHITENOISE_AUTOREFRESH = True
