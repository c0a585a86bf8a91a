"""Every setting, read from the environment once; docs/operating.md lists them all."""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import dj_database_url
import django_stubs_ext
from django.core.exceptions import ImproperlyConfigured
from django.utils.functional import SimpleLazyObject

from memory_project import env
from memory_project.secret_key import load_secret_key

django_stubs_ext.monkeypatch()

BASE_DIR = Path(__file__).resolve().parent.parent
IS_CHECKOUT = (BASE_DIR / "manage.py").exists()  # otherwise an installed package, which brings templates and static

# -- where things are ------------------------------------------------------------------------------------

COMMONPLACE_HOME = env.path(
    "COMMONPLACE_HOME", BASE_DIR / "var" if IS_CHECKOUT else Path.home() / ".local/share/commonplace"
)
COMMONPLACE_HOST = env.text("COMMONPLACE_HOST", "127.0.0.1")
COMMONPLACE_PORT = env.number("COMMONPLACE_PORT", 8000, 1, 65535)
_public = env.url("COMMONPLACE_URL", f"http://localhost:{COMMONPLACE_PORT}")
COMMONPLACE_URL = _public.geturl()

DEBUG = env.boolean("DEBUG", False)
ALLOWED_HOSTS = env.list_of_strings("ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]")
if _public.hostname and _public.hostname not in ALLOWED_HOSTS:
    ALLOWED_HOSTS.append(_public.hostname)
CSRF_TRUSTED_ORIGINS = [f"{_public.scheme}://{_public.netloc}"]


# Read, or made, when something is first signed: to import settings changes nothing on disk.
SECRET_KEY = SimpleLazyObject(lambda: env.text("SECRET_KEY") or load_secret_key(COMMONPLACE_HOME / "secret_key"))

# -- applications ----------------------------------------------------------------------------------------

INSTALLED_APPS = [
    "memory_project.apps.MemoryProjectConfig",
    "memory_project.portal.apps.PortalConfig",
    "knowledge.graph.apps.GraphConfig",
    "knowledge.apps.KnowledgeConfig",
    "analysis.apps.AnalysisConfig",
    "memories.conversation.apps.ConversationConfig",
    "memories.apps.MemoriesConfig",
    "memory_project.apps.AdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    "django.contrib.humanize",
    "django_htmx",
    "django_q",
    "rest_framework",
    "drf_spectacular",
    "axes",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "memory_project.web.middleware.content_security_policy",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "memory_project.web.middleware.sign_in_again",
    "memory_project.web.middleware.in_turn",
    "memory_project.web.locale.in_the_person_s",
    "memory_project.web.middleware.audited",
    "memory_project.web.middleware.domain_errors",
    "axes.middleware.AxesMiddleware",
]

ROOT_URLCONF = "memory_project.urls"
ASGI_APPLICATION = "memory_project.asgi.application"
WSGI_APPLICATION = "memory_project.wsgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"] if IS_CHECKOUT else [],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "memory_project.portal.context_processors.navigation",
            ],
        },
    },
]

# -- database --------------------------------------------------------------------------------------------

DATABASE_URL = env.text("DATABASE_URL")
DATABASE_OWNER_URL = env.text("DATABASE_OWNER_URL")
DATABASE_POOL_SIZE = env.number("DATABASE_POOL_SIZE", 16, 0, 200)
DATABASE_PREPARES = env.boolean("DATABASE_PREPARES", True)

# How many of the vector index's lists a search compares (bench/recall_speed.py); it goes on to more where a filter
# leaves too few rows (pgvector, "Iterative Index Scans"), or an owner's would be lost among everybody's.
RECALL_PROBES = env.number("RECALL_PROBES", 80, 1, 2_000)
# Tables and indexes are in memory or on an SSD, where a page elsewhere costs little more than the next one.
# 16 MB hold the sort of the rows that facets are counted in; the default of 4 sends it to disk.
_server_options = (
    f"-c ivfflat.probes={RECALL_PROBES} -c ivfflat.iterative_scan=relaxed_order -c work_mem=16MB"
    " -c random_page_cost=1.1"
)

# The application's role reads and writes rows; the owner's keeps the tables and is used by migrations and by the
# commands that alter a column (memories/owner.py).
if DATABASE_URL:
    DATABASES: dict[str, Any] = {"default": dict(dj_database_url.parse(DATABASE_URL, conn_health_checks=True))}
    _owner: dict[str, Any] = dict(dj_database_url.parse(DATABASE_OWNER_URL or DATABASE_URL))
    if _owner["NAME"] != DATABASES["default"]["NAME"]:
        raise ImproperlyConfigured("DATABASE_OWNER_URL names another database than DATABASE_URL; allowed: the same one")
else:
    from memory_project.postgres.server import APPLICATION, DATABASE, OWNER, EmbeddedPostgres

    DATABASES = {
        "default": {
            "ENGINE": "memory_project.postgres",
            "NAME": DATABASE,
            "USER": APPLICATION,
            "HOST": str(EmbeddedPostgres(COMMONPLACE_HOME).socket_dir),
            "CONN_HEALTH_CHECKS": True,
        }
    }
    _owner = {**DATABASES["default"], "USER": OWNER}
DATABASE_OWNER = {name: _owner.get(name, "") for name in ("USER", "PASSWORD", "HOST", "PORT")}
_database: dict[str, Any] = DATABASES["default"]
_options = _database.setdefault("OPTIONS", {})
_options["options"] = f"{_options.get('options', '')} {_server_options}".strip()
_options["prepare_threshold"] = (
    5 if DATABASE_PREPARES else None
)  # of memories/database/prepared_statements.py; not the ORM's
if DATABASE_POOL_SIZE and "qcluster" not in sys.argv:
    # Under ASGI each request has a thread of its own; a pool keeps connections across them. The worker
    # forks its processes instead, and a pool's connections must not be shared across a fork.
    _database["CONN_MAX_AGE"] = 0
    _options["pool"] = {"min_size": 0, "max_size": DATABASE_POOL_SIZE, "timeout": 15}
else:
    _database["CONN_MAX_AGE"] = 600
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# -- people ----------------------------------------------------------------------------------------------

AUTH_USER_MODEL = "memory_project.User"
LOGIN_URL = "sign-in"
LOGIN_REDIRECT_URL = "my-knowledge"
LOGOUT_REDIRECT_URL = "sign-in"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
]
AUTHENTICATION_BACKENDS = ["axes.backends.AxesStandaloneBackend", "django.contrib.auth.backends.ModelBackend"]
AXES_FAILURE_LIMIT = env.number("SIGN_IN_ATTEMPTS", 8, 1, 1_000)
AXES_COOLOFF_TIME = timedelta(minutes=env.number("SIGN_IN_PAUSE_MIN", 15, 1, 10_080))
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]  # so that nobody can lock a colleague out from elsewhere
AXES_USERNAME_CALLABLE = "memory_project.accounts.people.attempted_address"
AXES_LOCKOUT_CALLABLE = "memory_project.portal.views.errors.locked_out"
AXES_RESET_ON_SUCCESS = True
AXES_DISABLE_ACCESS_LOG = True  # the audit has it
AXES_ENABLE_ADMIN = False
AXES_VERBOSE = False
CSRF_FAILURE_VIEW = "memory_project.portal.views.errors.csrf_failed"
PASSWORD_RESET_TIMEOUT = 3 * 24 * 3600
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = _public.scheme == "https"
SESSION_COOKIE_AGE = 14 * 24 * 3600

# -- e-mail ------------------------------------------------------------------------------------------------

EMAIL_HOST = env.text("EMAIL_HOST")  # nothing is sent while it is empty
EMAIL_PORT = env.number("EMAIL_PORT", 587, 1, 65535)
EMAIL_HOST_USER = env.text("EMAIL_HOST_USER")
EMAIL_HOST_PASSWORD = env.text("EMAIL_HOST_PASSWORD")
EMAIL_USE_TLS = env.boolean("EMAIL_USE_TLS", True)
EMAIL_TIMEOUT = 15
DEFAULT_FROM_EMAIL = env.text("EMAIL_FROM", f"Commonplace <commonplace@{_public.hostname or 'localhost'}>")
DIGEST = env.boolean("DIGEST", False)
REVIEW_ALERT_HOURS = env.number("REVIEW_ALERT_HOURS", 0, 0, 8_760)
WEBHOOK_HOSTS = [host.lower() for host in env.list_of_strings("WEBHOOK_HOSTS")]

# -- language, time, files -------------------------------------------------------------------------------

LANGUAGE_CODE = "en-gb"
TIME_ZONE = env.time_zone("TIME_ZONE", "UTC")
USE_TZ = True
STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "static"] if IS_CHECKOUT else []
STATIC_ROOT = COMMONPLACE_HOME / "static"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {
        "handlers": ["stderr"],
        "level": env.choice("LOG_LEVEL", "WARNING", ("DEBUG", "INFO", "WARNING", "ERROR")),
    },
    "loggers": {"axes": {"level": "ERROR"}},  # who tried to sign in is in the audit
}

# -- memories --------------------------------------------------------------------------------------------

TEXT_SEARCH_CONFIG = env.text("TEXT_SEARCH_CONFIG", "english")
RECALL_SEMANTIC_WEIGHT = env.number("RECALL_SEMANTIC_WEIGHT", 0.6, 0.0, 10.0)
RECALL_LEXICAL_WEIGHT = env.number("RECALL_LEXICAL_WEIGHT", 0.3, 0.0, 10.0)
# Weights of context ranking, for turns of conversations (memories/retrieval/conversation_context.py); chosen on five
# conversations of LoCoMo with bench/recall_quality.py. RECALL_CONTEXT is a JSON object of those that differ.
RECALL_CONTEXT = env.weights(
    "RECALL_CONTEXT",
    cosine=0.4, words=0.2, speaker=0.15, date=0.3,
    cosine_without_tokens=0.6, words_without_tokens=0.45, speaker_without_tokens=0.2, date_without_tokens=0.4,
    when=0.05, asks=0.02, seed_cosine=0.6, seed_words=0.6, seed_speaker=0.2, seed_date=0.4,
)  # fmt: skip
THREAD_PAUSE_S = env.number("THREAD_PAUSE_S", 3_600, 60, 604_800)  # a longer silence cuts a conversation in two
RECALL_LANGUAGES = env.list_of_strings("RECALL_LANGUAGES", "en,de,es,fr,ja")  # that memories and questions may be in
RERANK_PROVIDER = env.choice("RERANK_PROVIDER", "none", ("none", "sentence-transformers", "http"))
RERANK_MODEL = env.text("RERANK_MODEL")
RERANK_URL = env.text("RERANK_URL")
RERANK_API_KEY = env.text("RERANK_API_KEY")
RERANK_TIMEOUT_S = env.number("RERANK_TIMEOUT_S", 2.0, 0.1, 60.0)
RECALL_MIN_SCORE = env.number("RECALL_MIN_SCORE", 0.1, 0.0, 10.0)
RECALL_EXACT_SCAN_ROWS = env.number("RECALL_EXACT_SCAN_ROWS", 4_000, 0, 1_000_000)
NEAR_DUPLICATE_COSINE = env.number("NEAR_DUPLICATE_COSINE", 0.90, 0.0, 1.0)
MEMORY_CONTEXT = env.boolean("MEMORY_CONTEXT", True)
RESOURCE_POLL_S = env.number("RESOURCE_POLL_S", 5, 1, 3_600)  # how often subscribed resources are looked at
MEMORY_CONTEXT_MS = env.number("MEMORY_CONTEXT_MS", 150, 1, 10_000)
MEMORY_CONTEXT_MOST = env.number("MEMORY_CONTEXT_MOST", 5, 1, 50)
MEMORY_CONTEXT_BYTES = env.number("MEMORY_CONTEXT_BYTES", 280, 40, 4_000)
MEMORY_CONTEXT_TOTAL_BYTES = env.number("MEMORY_CONTEXT_TOTAL_BYTES", 1_500, 100, 50_000)
CAPTURE_FROM_FAILURE = env.boolean("CAPTURE_FROM_FAILURE", False)
ANSWER_BUDGET_BYTES = env.number("ANSWER_BUDGET_BYTES", 60_000, 2_000, 10_000_000)

# -- conversations ---------------------------------------------------------------------------------------
# Weights of recall_memory; decay_days is the time in which recency falls to 1/e (a half-life of 20.8 days).
CONVERSATION_RECALL = env.weights("CONVERSATION_RECALL", recency=0.2, importance=0.3, relevance=0.5, decay_days=30.0)
STM_TTL_HOURS = env.number("STM_TTL_HOURS", 24, 1, 8_760)
SOFT_DELETE_PURGE_DAYS = env.number("SOFT_DELETE_PURGE_DAYS", 30, 0, 3_650)
RRF_K = env.number("RRF_K", 60, 1, 1_000)
RRF_VECTOR_WEIGHT = env.number("RRF_VECTOR_WEIGHT", 1.0, 0.0, 10.0)
RRF_TEXT_WEIGHT = env.number("RRF_TEXT_WEIGHT", 0.7, 0.0, 10.0)
CACHE_TTL_SECONDS = env.number("CACHE_TTL_SECONDS", 3_600, 1, 31_536_000)
CACHE_SIMILARITY_THRESHOLD = env.number("CACHE_SIMILARITY_THRESHOLD", 0.9, 0.0, 1.0)  # cosine: .95 of (1 + cos) / 2
# Evolution, on raw cosine: the thresholds .85 and .70 of (1 + cos) / 2; a merge also wants this share of common words.
REINFORCE_COSINE = env.number("REINFORCE_COSINE", 0.70, 0.0, 1.0)
MERGE_COSINE = env.number("MERGE_COSINE", 0.40, 0.0, 1.0)
MERGE_WORDS = env.number("MERGE_WORDS", 0.5, 0.0, 1.0)
# Consolidation: turns that expire within so many hours are summed up; what is worth it lasts, what is not is forgotten.
CONSOLIDATE_BEFORE_HOURS = env.number("CONSOLIDATE_BEFORE_HOURS", 2.0, 0.1, 720.0)
PROMOTE_IMPORTANCE = env.number("PROMOTE_IMPORTANCE", 0.6, 0.0, 1.0)
PROMOTE_USES = env.number("PROMOTE_USES", 2, 0, 1_000)
PROMOTE_AGE_MIN = env.number("PROMOTE_AGE_MIN", 60, 0, 100_000)
FORGET_IMPORTANCE = env.number("FORGET_IMPORTANCE", 0.1, 0.0, 1.0)
# A language model for enrichment, at an OpenAI-compatible endpoint; without one, documented heuristics.
ENRICHMENT_URL = env.text("ENRICHMENT_URL")
ENRICHMENT_MODEL = env.text("ENRICHMENT_MODEL")
ENRICHMENT_API_KEY = env.text("ENRICHMENT_API_KEY")
ENRICHMENT_TIMEOUT_S = env.number("ENRICHMENT_TIMEOUT_S", 30.0, 0.1, 600.0)
ENRICHMENT_ATTEMPTS = env.number("ENRICHMENT_ATTEMPTS", 3, 1, 20)
AUDIT_RETENTION_DAYS = env.number("AUDIT_RETENTION_DAYS", 365, 0, 36_500)  # 0: for good
TAVILY_API_KEY = env.text("TAVILY_API_KEY")
TAVILY_URL = env.text("TAVILY_URL", "https://api.tavily.com")
TAVILY_TIMEOUT_S = env.number("TAVILY_TIMEOUT_S", 15.0, 0.1, 120.0)
WIPE_CONFIRMATION_HOURS = env.number("WIPE_CONFIRMATION_HOURS", 24, 1, 720)

# -- knowledge graph -------------------------------------------------------------------------------------
GRAPH_DEFAULT_TYPE = env.text("GRAPH_DEFAULT_TYPE", "Generic")
GRAPH_DEFAULT_STATUS = env.text("GRAPH_DEFAULT_STATUS", "active")
# Relation types with an inverse that comes and ends with them, as pairs; and which two a split makes.
GRAPH_INVERSES = env.pairs("GRAPH_INVERSES", "contiene:parte_de,parte_de:contiene")
GRAPH_SPLIT_RELATION = env.text("GRAPH_SPLIT_RELATION", "contiene")  # the contract's; its inverse comes with it
GRAPH_AUTHORS = env.list_of_strings("GRAPH_AUTHORS", "sofia,nolan")  # of reflections, the first unless one is named
GRAPH_MOODS = env.list_of_strings("GRAPH_MOODS", "frustracion,satisfaccion,curiosidad,duda,insight")
# Observations from which an entity may be split, by its type; "*" is any other.
GRAPH_SPLIT_AT = env.weights_of("GRAPH_SPLIT_AT", {"Sesion": 15, "Proyecto": 25, "*": 20})
# The limbic score of search_semantic; decay_hours is 1 / the rate of forgetting (a half-life of 289 days).
GRAPH_LIMBIC = env.weights(
    "GRAPH_LIMBIC", importance=0.5, degree=0.15, days=0.2, degree_most=15.0, pairs=0.01, decay_per_hour=0.0001,
    least_decay=0.1,
)  # fmt: skip
# Factors on the score by an entity's status, and for one that mostly holds observations of kind metadata.
GRAPH_STATUS_FACTORS = env.weights_of("GRAPH_STATUS_FACTORS", {})
GRAPH_METADATA_FACTOR = env.number("GRAPH_METADATA_FACTOR", 1.0, 0.0, 1.0)

# -- embeddings ------------------------------------------------------------------------------------------

EMBEDDING_PROVIDER = env.choice(
    "EMBEDDING_PROVIDER", "minilm", ("minilm", "sentence-transformers", "openai", "deterministic", "none")
)
EMBEDDING_MODEL = env.text("EMBEDDING_MODEL")
EMBEDDING_DIMENSIONS = env.number("EMBEDDING_DIMENSIONS", 384, 1, 2000)  # HNSW over `vector` ends at 2,000
EMBEDDING_URL = env.text("EMBEDDING_URL", "http://localhost:11434/v1")
EMBEDDING_API_KEY = env.text("EMBEDDING_API_KEY")
EMBEDDING_TIMEOUT_S = env.number("EMBEDDING_TIMEOUT_S", 30.0, 0.1, 600.0)
EMBEDDING_CALLER_TIMEOUT_S = env.number("EMBEDDING_CALLER_TIMEOUT_S", 2.5, 0.1, 60.0)
EMBEDDING_WAIT_S = env.number("EMBEDDING_WAIT_S", 10.0, 0.0, 300.0)
INDEX_LEASE_S = env.number("INDEX_LEASE_S", 120, 5, 3600)
INDEX_MAX_ATTEMPTS = env.number("INDEX_MAX_ATTEMPTS", 5, 1, 50)

# -- catalog ----------------------------------------------------------------------------------------------

DATAHUB_GMS_URL = env.text("DATAHUB_GMS_URL")
DATAHUB_GMS_TOKEN = env.text("DATAHUB_GMS_TOKEN")
DATAHUB_TIMEOUT_S = env.number("DATAHUB_TIMEOUT_S", 10.0, 0.1, 300.0)
STALENESS_INTERVAL_MIN = env.number("STALENESS_INTERVAL_MIN", 15, 1, 10_080)
STALENESS_BATCH = env.number("STALENESS_BATCH", 2_000, 1, 100_000)
LINEAGE_HOPS = env.number("LINEAGE_HOPS", 2, 1, 5)
APPLY_REQUIRE_CONFIRMATION = env.boolean("APPLY_REQUIRE_CONFIRMATION", True)

# -- analysis ---------------------------------------------------------------------------------------------

ANALYSIS_ENABLED = env.boolean("ANALYSIS_ENABLED", True)
ANALYSIS_SOURCES = env.text("ANALYSIS_SOURCES")
ANALYSIS_FILES = env.path("ANALYSIS_FILES", COMMONPLACE_HOME / "files")
ANALYSIS_RECORD_DAYS = env.number("ANALYSIS_RECORD_DAYS", 7, 1, 3_650)

# -- MCP -------------------------------------------------------------------------------------------------

MCP_TOOLSETS = env.list_of_strings(
    "MCP_TOOLSETS",
    "memory,knowledge,analysis,query",
    ("memory", "knowledge", "analysis", "query", "graph", "conversation", "all"),
)

CALLS_AT_ONCE = env.number("CALLS_AT_ONCE", 4, 1, 1_000)
CALLS_WAITING = env.number("CALLS_WAITING", 64, 0, 10_000)
CALLS_IN_ALL = env.number("CALLS_IN_ALL", 32, 1, 1_000)
STATEMENT_TIMEOUT_S = env.number("STATEMENT_TIMEOUT_S", 30.0, 0.1, 3_600.0)
PAGE_TIMEOUT_S = env.number("PAGE_TIMEOUT_S", 10.0, 0.1, 3_600.0)
MAX_BODY_BYTES = env.number("MAX_BODY_BYTES", 5_000_000, 10_000, 1_000_000_000)
DATA_UPLOAD_MAX_MEMORY_SIZE = MAX_BODY_BYTES

# -- REST ------------------------------------------------------------------------------------------------

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "memory_project.accounts.tokens.BearerAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "EXCEPTION_HANDLER": "memory_project.rest.errors.answer_error",
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "UNAUTHENTICATED_USER": None,
}

SPECTACULAR_SETTINGS = {
    "TITLE": "Commonplace",
    "DESCRIPTION": "Memories that analysts and their agents share. The tools over MCP say the same.",
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_PERMISSIONS": ["rest_framework.permissions.IsAuthenticated"],
}

# -- background work -------------------------------------------------------------------------------------

Q_CLUSTER = {
    "name": "commonplace",
    "orm": "default",
    "workers": env.number("WORKERS", 1, 1, 64),
    "timeout": 600,
    "retry": 660,  # must exceed the time-out, or a long task would run twice at once
    "max_attempts": 3,
    "ack_failures": True,
    "poll": 1.0,
    "save_limit": 1000,
    "catch_up": False,
    "label": "Background work",
}
