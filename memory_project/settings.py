"""Settings, read from the environment. docs/operating.md lists all variables with their defaults."""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.utils.functional import SimpleLazyObject

from memory_project import __version__
from memory_project.operating import database_url, env
from memory_project.operating.secret_key import load_secret_key

BASE_DIR = Path(__file__).resolve().parent.parent
# False in an installed package, which contains its own copy of templates and static files
IS_CHECKOUT = (BASE_DIR / "manage.py").exists()

# -- locations and addresses -----------------------------------------------------------------------------

# folder of the embedded database, the secret key, caches and static files
COMMONPLACE_HOME = env.path(
    "COMMONPLACE_HOME", BASE_DIR / "var" if IS_CHECKOUT else Path.home() / ".local/share/commonplace"
)
# folder of uploaded files and exports; with several machines, a folder that all of them share
COMMONPLACE_FILES = env.path("COMMONPLACE_FILES", COMMONPLACE_HOME)
COMMONPLACE_HOST = env.text("COMMONPLACE_HOST", "127.0.0.1")  # address that the web server listens on
COMMONPLACE_PORT = env.number("COMMONPLACE_PORT", 8000, 1, 65535)
# URL that people and agents use; with an https URL, cookies are sent over https only
_public = env.url("COMMONPLACE_URL", f"http://localhost:{COMMONPLACE_PORT}")
COMMONPLACE_URL = _public.geturl()

DEBUG = env.boolean("DEBUG", False)
# accepted host names of requests, for pages and for MCP
ALLOWED_HOSTS = env.list_of_strings("ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]")
if _public.hostname and _public.hostname not in ALLOWED_HOSTS:
    ALLOWED_HOSTS.append(_public.hostname)
CSRF_TRUSTED_ORIGINS = [f"{_public.scheme}://{_public.netloc}"]
# addresses or networks of the proxies whose X-Forwarded-For and X-Forwarded-Proto are believed; if empty, none are
TRUSTED_PROXIES = env.networks("TRUSTED_PROXIES")
# seconds for which browsers remember to use https only, if COMMONPLACE_URL is https; 0: they are not told
HSTS_SECONDS = env.number("HSTS_SECONDS", 31_536_000, 0, 63_072_000)
# maximum number of open connections of one address that is not a trusted proxy, in each process
CONNECTIONS_PER_ADDRESS = env.number("CONNECTIONS_PER_ADDRESS", 256, 1, 100_000)
# seconds for which a web server that got SIGTERM still accepts requests, so that load balancers notice that it is not
# ready
DRAIN_DELAY_S = env.number("DRAIN_DELAY_S", 0.0, 0.0, 300.0)
# seconds that running calls then have to end
DRAIN_TIMEOUT_S = env.number("DRAIN_TIMEOUT_S", 30, 1, 3_600)

# The key is read or created when it is first used, because importing the settings must not write to disk.
_secret_key = env.text("SECRET_KEY")
SECRET_KEY_IS_SET = bool(_secret_key)
SECRET_KEY = SimpleLazyObject(lambda: _secret_key or load_secret_key(COMMONPLACE_HOME / "secret_key"))
# earlier keys, whose sessions and links stay valid; `manage.py change_key` encrypts with SECRET_KEY what they encrypted
SECRET_KEY_FALLBACKS = env.list_of_strings("SECRET_KEY_FALLBACKS")

# -- monitoring ------------------------------------------------------------------------------------------

# bearer token for /metrics of the web server; if empty, that address does not exist
METRICS_TOKEN = env.text("METRICS_TOKEN")
METRICS_PORT = env.number("METRICS_PORT", 0, 0, 65535)  # port for /metrics without a token; 0: none
METRICS_HOST = env.text("METRICS_HOST", "127.0.0.1")  # address that METRICS_PORT listens on
if METRICS_TOKEN and len(METRICS_TOKEN) < 16:
    raise ImproperlyConfigured("METRICS_TOKEN is too short; allowed: at least 16 characters")

# -- applications ----------------------------------------------------------------------------------------

INSTALLED_APPS = [
    "memory_project.apps.MemoryProjectConfig",
    "memory_project.portal.apps.PortalConfig",
    "memory_project.rest.apps.RestConfig",
    "memory_project.mcp.gateway.apps.GatewayConfig",
    "memory_project.exchange.exports",
    "memory_project.exchange.imports.apps.ImportsConfig",
    "memory_project.exchange.subscriptions.apps.SubscriptionsConfig",
    "memory_project.notifications.webhooks.apps.WebhooksConfig",
    "memory_project.portal.pages.apps.PagesConfig",
    "memory_project.operating.replica.apps.ReplicaConfig",
    "memory_project.accounts.preferences.apps.PreferencesConfig",
    "memory_project.operating.backups.apps.BackupsConfig",
    "memory_project.operating.examinations.apps.ExaminationsConfig",
    "knowledge.graph.apps.GraphConfig",
    "knowledge.apps.KnowledgeConfig",
    "analysis.apps.AnalysisConfig",
    "memories.conversation.apps.ConversationConfig",
    "memories.apps.MemoriesConfig",
    "memory_project.admin.apps.AdminConfig",
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
    "django_filters",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "axes",
    "oauth2_provider",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "memory_project.web.middleware.content_security_policy",
    "memory_project.web.page_version.tell_version",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "memory_project.web.middleware.sign_in_again",
    "memory_project.web.middleware.limit_statements",
    "memory_project.web.middleware.own_identity",
    "memory_project.web.locale.localize",
    "memory_project.accounts.names.names_per_request",
    "memory_project.web.middleware.audited",
    "memory_project.portal.pages.sent_forms.send_once",
    "memory_project.web.middleware.domain_errors",
    "memory_project.accounts.second_factor_middleware.second_factor",
    "axes.middleware.AxesMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "memory_project.operating.replica.reading.read_from_replica",
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
            "builtins": ["django.templatetags.i18n"],
            "context_processors": [
                "django.template.context_processors.request",
                "django.template.context_processors.i18n",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "memory_project.portal.context_processors.navigation",
            ],
        },
    },
]

# -- database --------------------------------------------------------------------------------------------

# URL of a PostgreSQL ≥ 16 with pgvector ≥ 0.8; if empty, the embedded server is used
DATABASE_URL = env.text("DATABASE_URL")
# URL of the same database with the role that owns the tables; if empty, DATABASE_URL is used
DATABASE_OWNER_URL = env.text("DATABASE_OWNER_URL")
# maximum number of pooled connections per web process; 0: no pool, and each thread has its own connection
DATABASE_POOL_SIZE = env.number("DATABASE_POOL_SIZE", 16, 0, 200)
# Whether a pooler such as PgBouncer in front of PostgreSQL assigns its connections per transaction. Auto: a connection
# is treated so if its backend has another process id than the connection was told (foundation/database/engine/base.py).
DATABASE_POOLER = env.choice("DATABASE_POOLER", "auto", ("auto", "transaction", "none"))
# whether to prepare frequent statements; behind such a pooler they never are
DATABASE_PREPARES = env.boolean("DATABASE_PREPARES", True)
# URL of a replica of the same database, from which recall, searches and pages read; if empty, the primary is read
DATABASE_REPLICA_URL = env.text("DATABASE_REPLICA_URL")
# seconds that the replica may be behind the primary; if it is further behind, the primary is read
DATABASE_REPLICA_MAX_LAG_S = env.number("DATABASE_REPLICA_MAX_LAG_S", 10.0, 0.1, 3_600.0)

# Seconds for which a process may keep what a token of MCP stands for. A change of it takes effect at once, because the
# database tells every process; this bounds the time if a message got lost without notice. 0: looked up by each call
TOKEN_CACHE_S = env.number("TOKEN_CACHE_S", 5, 0, 60)

# Number of lists of the vector index that a search of a large scope compares, chosen with bench/recall_speed.py. If a
# filter leaves too few rows, the search continues with more lists (pgvector, "Iterative Index Scans"). Without
# iterative scans, a search among the few memories of one owner could find none of them.
RECALL_PROBES = env.number("RECALL_PROBES", 80, 1, 2_000)
# memory for training the vector index; 1 GB is enough for 2,000 lists, and four times as much for twice as many
VECTOR_INDEX_MEMORY_MB = env.number("VECTOR_INDEX_MEMORY_MB", 1024, 128, 262_144)
# random_page_cost: tables and indexes are in memory or on an SSD, where a random read costs little more than a
# sequential one.
# work_mem: the sort for counting facets fits into 16 MB; with the default of 4 MB it would go to disk.
# Each transaction sets them for itself, because behind a pooler it may run on any connection.
DATABASE_SEARCH = {
    "ivfflat.probes": str(RECALL_PROBES),
    "ivfflat.iterative_scan": "relaxed_order",
    "work_mem": "16MB",
    "random_page_cost": "1.1",
}

# The application's role reads and writes rows. The owner's role is used to migrate, to write and restore
# backups, to alter a column and to build the vector index (foundation/database/owner.py).
if DATABASE_URL:
    DATABASES: dict[str, Any] = {"default": database_url.parse("DATABASE_URL", DATABASE_URL)}
    DATABASES["default"]["ENGINE"] = "foundation.database.engine"
    _owner: dict[str, Any] = database_url.parse("DATABASE_OWNER_URL", DATABASE_OWNER_URL or DATABASE_URL)
    if _owner["NAME"] != DATABASES["default"]["NAME"]:
        raise ImproperlyConfigured(
            "DATABASE_OWNER_URL names a different database than DATABASE_URL; allowed: the same database"
        )
else:
    from memory_project.operating.postgres.server import APPLICATION, DATABASE, OWNER, EmbeddedPostgres

    DATABASES = {
        "default": {
            "ENGINE": "memory_project.operating.postgres",
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
# Seconds until an attempt to connect has failed. Afterwards, a dead network is noticed by unanswered packets.
_patience = {"connect_timeout": 3, "keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3}
_options |= {**_patience, "tcp_user_timeout": 10_000, **_options}  # the last one in milliseconds
# None keeps psycopg from preparing statements. With any number, the statements of
# foundation/database/prepared_statements.py are prepared at their first execution, and those of the ORM never.
_options["prepare_threshold"] = 5 if DATABASE_PREPARES else None
if DATABASE_POOL_SIZE and not {"qcluster", "doctor"} & set(sys.argv):
    # Under ASGI each request has its own thread, so connections stay open between requests only in a pool. The worker
    # has no pool, because it forks its processes, and connections must not be shared across a fork. The doctor has none
    # either, because a pool does not tell why it gets no connection.
    _database["CONN_MAX_AGE"] = 0
    # A call waits for a connection for 5 s at most. The pool does not repeat a failed attempt to connect, because its
    # pauses would grow; the next call does (foundation/database/breaker.py).
    _options["pool"] = {"min_size": 0, "max_size": DATABASE_POOL_SIZE, "timeout": 5, "reconnect_timeout": 0}
else:
    _database["CONN_MAX_AGE"] = 600  # seconds
# names the program in pg_stat_activity, so that an operator knows what holds a lock
_options.setdefault("application_name", f"commonplace {sys.argv[1]}" if len(sys.argv) > 1 else "commonplace")
if DATABASE_REPLICA_URL:
    DATABASES["replica"] = database_url.replica("DATABASE_REPLICA_URL", DATABASE_REPLICA_URL, of=_database)
    DATABASE_ROUTERS = ["foundation.database.replica.ReplicaRouter"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# URL of a Redis for what processes share, such as redis://localhost:6379/0; if empty, PostgreSQL is used
CACHE_URL = env.text("CACHE_URL")
# default: what must be shared, such as limits of second factors, in Redis or PostgreSQL.
# calls: what calls often ask for and may differ between processes, in Redis or the process's memory.
# process: what is cheap to compute anew, or large, in the process's memory.
CACHES: dict[str, dict[str, Any]] = {
    "default": {"BACKEND": "memory_project.operating.shared.shared_cache.TableCache"},
    "calls": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "LOCATION": "calls"},
    "process": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "LOCATION": "process"},
}
if CACHE_URL:
    if not CACHE_URL.startswith(("redis://", "rediss://", "unix://")):
        raise ImproperlyConfigured("CACHE_URL is not the URL of a Redis; allowed: redis://, rediss:// or unix://")
    CACHES["table"], CACHES["memory"] = CACHES["default"], CACHES["calls"]
    CACHES |= {
        name: {
            "BACKEND": "memory_project.operating.shared.shared_cache.SharedRedis",
            "LOCATION": CACHE_URL,
            "KEY_PREFIX": "commonplace",
            "OPTIONS": {"fallback": fallback, "socket_timeout": 1.0, "socket_connect_timeout": 1.0},
        }
        for name, fallback in (("default", "table"), ("calls", "memory"))
    }

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
PASSWORD_HASHERS = ["memory_project.accounts.password_hashing.BoundedPBKDF2"]
AUTHENTICATION_BACKENDS = ["axes.backends.AxesStandaloneBackend", "django.contrib.auth.backends.ModelBackend"]
# after this number of wrong passwords for an account from one IP address, that address is blocked for the account
AXES_FAILURE_LIMIT = env.number("SIGN_IN_ATTEMPTS", 8, 1, 1_000)
# duration of such a block
AXES_COOLOFF_TIME = timedelta(minutes=env.number("SIGN_IN_PAUSE_MIN", 15, 1, 10_080))
AXES_CLIENT_IP_CALLABLE = "memory_project.accounts.people.attempt_origin"
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]  # otherwise attackers at other addresses could lock a user out
AXES_USERNAME_CALLABLE = "memory_project.accounts.people.attempted_address"
AXES_LOCKOUT_CALLABLE = "memory_project.portal.views.errors.locked_out"
AXES_RESET_ON_SUCCESS = True
AXES_DISABLE_ACCESS_LOG = True  # sign-ins are in the audit log
AXES_ENABLE_ADMIN = False
AXES_VERBOSE = False
CSRF_FAILURE_VIEW = "memory_project.portal.views.errors.csrf_failed"
PASSWORD_RESET_TIMEOUT = 3 * 24 * 3600  # seconds
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = _public.scheme == "https"
SESSION_COOKIE_AGE = 14 * 24 * 3600  # seconds

# -- OAuth -------------------------------------------------------------------------------------------------

# whether MCP clients may connect with the address of /mcp alone, and ask the person in the browser
OAUTH_ENABLED = env.boolean("OAUTH_ENABLED", True)
# schemes of redirect addresses beside https and http on the loopback interface; each belongs to a desktop application
OAUTH_REDIRECT_SCHEMES = env.list_of_strings(
    "OAUTH_REDIRECT_SCHEMES", "cursor,vscode,vscode-insiders,windsurf,zed,goose,claude"
)
if unsafe := {scheme.lower() for scheme in OAUTH_REDIRECT_SCHEMES} & {"javascript", "data", "vbscript", "file", "blob"}:
    raise ImproperlyConfigured(
        f"OAUTH_REDIRECT_SCHEMES contains {sorted(unsafe)[0]!r}; allowed: schemes of desktop applications"
    )
# issuer of the company's own tokens, which MCP accepts, too; empty: none
OIDC_ISSUER = env.text("OIDC_ISSUER") and env.url("OIDC_ISSUER", "").geturl()
OIDC_AUDIENCE = env.text("OIDC_AUDIENCE")  # audience that these tokens must be issued for
OIDC_JWKS_URL = env.text("OIDC_JWKS_URL")  # URL of the issuer's keys; empty: as the issuer's metadata say
OIDC_EMAIL_CLAIM = env.text("OIDC_EMAIL_CLAIM", "email")  # claim with the person's e-mail address
if OIDC_ISSUER and not OIDC_AUDIENCE:
    raise ImproperlyConfigured("OIDC_AUDIENCE is empty, but OIDC_ISSUER is set; allowed: the audience of its tokens")
OAUTH2_PROVIDER_APPLICATION_MODEL = "oauth2_provider.Application"
OAUTH2_PROVIDER = {
    "OAUTH2_VALIDATOR_CLASS": "memory_project.accounts.oauth.validator.Validator",
    "OAUTH2_SERVER_CLASS": "oauthlib.oauth2.WebApplicationServer",  # codes and refresh tokens, no other grants
    "OIDC_ISS_ENDPOINT": COMMONPLACE_URL,  # so that no address comes from the Host header
    "ACCESS_TOKEN_GENERATOR": "memory_project.accounts.connected_apps.new_token",
    "REFRESH_TOKEN_GENERATOR": "memory_project.accounts.connected_apps.new_refresh_token",
    "SCOPES": {"mcp": "Use the tools of Commonplace", "offline_access": "Stay connected"},
    "DEFAULT_SCOPES": ["mcp"],
    "ALLOWED_REDIRECT_URI_SCHEMES": ["https", "http", *OAUTH_REDIRECT_SCHEMES],
    "ALLOW_LOCALHOST_LOOPBACK": True,  # any port of localhost, as of 127.0.0.1 (RFC 8252)
    "ACCESS_TOKEN_EXPIRE_SECONDS": 3600,
    "AUTHORIZATION_CODE_EXPIRE_SECONDS": 60,
    "REFRESH_TOKEN_REUSE_PROTECTION": True,
    "DCR_ENABLED": True,
    "DCR_REGISTRATION_PERMISSION_CLASSES": ["oauth2_provider.dcr.AllowAllDCRPermission"],
    "CIMD_ENABLED": True,
    "CIMD_METADATA_FETCHER": "memory_project.accounts.oauth.registration.PublicFetcher",
    "CIMD_REGISTRATION_PERMISSION_CLASSES": ["memory_project.accounts.oauth.registration.LimitFetches"],
    "OAUTH2_RESPONSE_TYPES_SUPPORTED": ["code"],
    "OAUTH2_GRANT_TYPES_SUPPORTED": ["authorization_code", "refresh_token"],
    "OAUTH2_TOKEN_ENDPOINT_AUTH_METHODS_SUPPORTED": ["none", "client_secret_basic", "client_secret_post"],
    "OAUTH2_PROTECTED_RESOURCE_NAME": "Commonplace",
    **{
        f"COMPLIANT_BCP_RFC9700_{name}": True
        for name in (
            "IMPLICIT_GRANT", "PASSWORD_GRANT", "PKCE_METHOD", "ACCESS_TOKEN_TRANSPORT", "AUTHZ_RESPONSE_ISS",
            "TOKEN_STORAGE", "REFRESH_TOKEN", "PKCE_REQUIRED",
        )
    },
}  # fmt: skip
# -- single sign-on and second factors ---------------------------------------------------------------------

# URL of the company's OpenID Connect issuer; empty: people sign in with passwords only
SSO_ISSUER = env.url("SSO_ISSUER", "").geturl() if env.text("SSO_ISSUER") else ""
SSO_CLIENT_ID = env.text("SSO_CLIENT_ID")
SSO_CLIENT_SECRET = env.text("SSO_CLIENT_SECRET")
SSO_NAME = env.text("SSO_NAME", "your company")  # name on the button "Continue with …"
SSO_SCOPES = env.list_of_strings("SSO_SCOPES", "openid,profile,email")
SSO_GROUPS_CLAIM = env.text("SSO_GROUPS_CLAIM", "groups")  # claim with the names of a person's groups
SSO_CREATE_ACCOUNTS = env.boolean("SSO_CREATE_ACCOUNTS", False)  # create an account at a person's first sign-in
# domains of the e-mail addresses of such accounts; empty: every domain
SSO_DOMAINS = [domain.lower().lstrip("@") for domain in env.list_of_strings("SSO_DOMAINS")]
# whether an address is verified if the issuer does not send `email_verified`, as Microsoft Entra does not
SSO_EMAILS_VERIFIED = env.boolean("SSO_EMAILS_VERIFIED", False)
LOCAL_PASSWORDS = env.boolean("LOCAL_PASSWORDS", True)  # whether people can sign in with a password of Commonplace
# who must set up a second factor after signing in with a password: none, staff (admins, curators, operators) or all
REQUIRE_TWO_FACTOR = env.choice("REQUIRE_TWO_FACTOR", "none", ("none", "staff", "all"))
if SSO_ISSUER and not SSO_CLIENT_ID:
    raise ImproperlyConfigured("SSO_CLIENT_ID is empty; required: the id that SSO_ISSUER gave to Commonplace")
if not LOCAL_PASSWORDS and not SSO_ISSUER:
    raise ImproperlyConfigured("LOCAL_PASSWORDS=false needs SSO_ISSUER, because otherwise nobody could sign in")

SOCIALACCOUNT_ADAPTER = "memory_project.accounts.company_sign_in.CompanySignIn"
SOCIALACCOUNT_STORE_TOKENS = False
SOCIALACCOUNT_PROVIDERS = {
    "openid_connect": {
        "OAUTH_PKCE_ENABLED": True,
        "APPS": [
            {
                "provider_id": "company",
                "name": SSO_NAME,
                "client_id": SSO_CLIENT_ID,
                "secret": SSO_CLIENT_SECRET,
                "settings": {"server_url": SSO_ISSUER, "scope": SSO_SCOPES},
            }
        ]
        if SSO_ISSUER
        else [],
    }
}
ACCOUNT_ADAPTER = "memory_project.accounts.second_factor.AccountAdapter"
ACCOUNT_USER_MODEL_USERNAME_FIELD = None
ACCOUNT_LOGIN_METHODS = {"email"}
ACCOUNT_SIGNUP_FIELDS = ["email*"]  # there is no sign-up; allauth checks that this fits the line above
ACCOUNT_EMAIL_VERIFICATION = "none"
MFA_ADAPTER = "memory_project.accounts.second_factor.SecondFactorAdapter"
MFA_SUPPORTED_TYPES = ["totp", "webauthn", "recovery_codes"]
MFA_TOTP_ISSUER = "Commonplace"
# browsers allow passkeys over https only, and on localhost
MFA_WEBAUTHN_ALLOW_INSECURE_ORIGIN = _public.scheme == "http" and _public.hostname == "localhost"

# -- e-mail ------------------------------------------------------------------------------------------------

EMAIL_HOST = env.text("EMAIL_HOST")  # host name of the SMTP server; empty: no mail is sent
EMAIL_PORT = env.number("EMAIL_PORT", 587, 1, 65535)
EMAIL_HOST_USER = env.text("EMAIL_HOST_USER")
EMAIL_HOST_PASSWORD = env.text("EMAIL_HOST_PASSWORD")
EMAIL_USE_TLS = env.boolean("EMAIL_USE_TLS", True)  # STARTTLS
EMAIL_TIMEOUT = 15  # seconds
DEFAULT_FROM_EMAIL = env.text("EMAIL_FROM", f"Commonplace <commonplace@{_public.hostname or 'localhost'}>")
DIGEST = env.boolean("DIGEST", False)  # send each person a weekly mail
# hours after which curators get a mail about a waiting insight; 0: never
REVIEW_ALERT_HOURS = env.number("REVIEW_ALERT_HOURS", 0, 0, 8_760)
# names of the hosts that webhooks of personas may call; if empty, they may call none
WEBHOOK_HOSTS = [host.lower() for host in env.list_of_strings("WEBHOOK_HOSTS")]
# whose webhook endpoints get events: everyone's, those of operators and admins, or nobody's
WEBHOOK_SUBSCRIBERS = env.choice("WEBHOOK_SUBSCRIBERS", "everyone", ("everyone", "operators", "nobody"))
# names of hosts with private addresses that webhook endpoints may be on, with http or https
WEBHOOK_PRIVATE_HOSTS = [host.lower() for host in env.list_of_strings("WEBHOOK_PRIVATE_HOSTS")]

# -- language, time, files -------------------------------------------------------------------------------

LANGUAGE_CODE = "en"  # of tools, REST answers, logs and background work; pages use the user's language
LANGUAGES = [("en", "English"), ("de", "Deutsch"), ("es", "Español")]
LOCALE_PATHS = [(BASE_DIR if IS_CHECKOUT else BASE_DIR / "memory_project") / "locale"]
TIME_ZONE = env.time_zone("TIME_ZONE", "UTC")
USE_TZ = True
STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "static"] if IS_CHECKOUT else []
STATIC_ROOT = COMMONPLACE_HOME / "static" / __version__
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {
        "request": {"()": "memory_project.operating.observability.logs.WithRequest"},
        "refusals": {"()": "memory_project.operating.observability.logs.WithoutTracebackOfRefusals"},
    },
    "formatters": {
        "line": {
            "()": "memory_project.operating.observability.logs.LineFormatter",
            "fmt": "%(asctime)s %(levelname)s %(name)s: %(message)s",
        },
        "json": {"()": "memory_project.operating.observability.json_logs.JSONFormatter"},
    },
    "handlers": {
        "stderr": {
            "class": "logging.StreamHandler",
            "filters": ["request"],
            # one JSON object a line, for log collectors
            "formatter": env.choice("LOG_FORMAT", "line", ("line", "json")),
        }
    },
    "root": {
        "handlers": ["stderr"],
        "level": env.choice("LOG_LEVEL", "WARNING", ("DEBUG", "INFO", "WARNING", "ERROR")),
    },
    "loggers": {
        "django.request": {"filters": ["refusals"]},
        "axes": {"level": "ERROR"},  # sign-in attempts are in the audit log
        # below these levels they log statements with their values, messages with their texts, and URLs
        **{name: {"level": "INFO"} for name in ("django.db.backends", "mcp", "sse_starlette", "botocore", "datahub")},
        **{name: {"level": "WARNING"} for name in ("httpx", "httpcore", "urllib3", "django.template", "asyncio")},
        "sqlglot": {"level": "ERROR"},  # it warns of each statement that it doesn't parse, which callers handle
    },
}

# -- memories --------------------------------------------------------------------------------------------

# text-search configuration of PostgreSQL; `manage.py rebuild_search` must be run after a change
TEXT_SEARCH_CONFIG = env.text("TEXT_SEARCH_CONFIG", "english")
# languages of memories and queries, as ISO 639-1 codes; `manage.py rebuild_search` must be run after a change
RECALL_LANGUAGES = env.list_of_strings("RECALL_LANGUAGES", "en,de,es,fr,ja")
# provider of the cross-encoder that reorders the best hits
RERANK_PROVIDER = env.choice("RERANK_PROVIDER", "none", ("none", "sentence-transformers", "http"))
RERANK_MODEL = env.text("RERANK_MODEL")
RERANK_URL = env.text("RERANK_URL")  # URL of the reranking endpoint, without /rerank
RERANK_API_KEY = env.text("RERANK_API_KEY")
# seconds after which reranking is abandoned and the hits keep their order
RERANK_TIMEOUT_S = env.number("RERANK_TIMEOUT_S", 2.0, 0.1, 60.0)
# score that the hits of a search by meaning must exceed
RECALL_MIN_SCORE = env.number("RECALL_MIN_SCORE", 0.2, 0.0, 10.0)
# score that the nearest memory must exceed to be returned, as a distant match, if a search would find nothing
RECALL_DISTANT_SCORE = env.number("RECALL_DISTANT_SCORE", 0.12, 0.0, 10.0)
# Maximum number of rows of a scope that recall scans instead of using the indexes. is_small() in
# memories/retrieval/ranking.py raises the limit automatically in large installations.
RECALL_EXACT_SCAN_ROWS = env.number("RECALL_EXACT_SCAN_ROWS", 4_000, 0, 1_000_000)
# age in days at which an insight that waits for review is overdue; assignment rules may set another
REVIEW_TARGET_DAYS = env.number("REVIEW_TARGET_DAYS", 7, 1, 365)
NEAR_DUPLICATE_COSINE = env.number("NEAR_DUPLICATE_COSINE", 0.90, 0.0, 1.0)  # minimum cosine of near duplicates
FEEDBACK_REQUEST = env.boolean("FEEDBACK_REQUEST", True)  # ask agents once a day which recalled memories they used
MEMORY_CONTEXT = env.boolean("MEMORY_CONTEXT", True)  # attach memories about mentioned entities to tool responses
# milliseconds for which the database may look for memories to attach; after that, it looks again without neighbors and
# meanings. Other systems, such as DataHub or an embedding server, are waited for as long.
MEMORY_CONTEXT_MS = env.number("MEMORY_CONTEXT_MS", 150, 1, 10_000)
CAPTURE_FROM_FAILURE = env.boolean("CAPTURE_FROM_FAILURE", False)  # propose corrected SQL statements as insights
# maximum size of a response to an agent in bytes; what does not fit is left out
ANSWER_BUDGET_BYTES = env.number("ANSWER_BUDGET_BYTES", 60_000, 2_000, 10_000_000)

# -- conversations ---------------------------------------------------------------------------------------
STM_TTL_HOURS = env.number("STM_TTL_HOURS", 24, 1, 8_760)  # hours until a turn of a conversation expires
# days until deleted conversation memories and deleted graph entities are purged
SOFT_DELETE_PURGE_DAYS = env.number("SOFT_DELETE_PURGE_DAYS", 30, 0, 3_650)
# seconds until a cached answer expires if it was stored without a lifetime of its own
CACHE_TTL_SECONDS = env.number("CACHE_TTL_SECONDS", 3_600, 1, 31_536_000)
# OpenAI-compatible endpoint of a language model that enriches long-term memories. If it is empty, heuristics are used.
ENRICHMENT_URL = env.text("ENRICHMENT_URL")
ENRICHMENT_MODEL = env.text("ENRICHMENT_MODEL")
ENRICHMENT_API_KEY = env.text("ENRICHMENT_API_KEY")
ENRICHMENT_TIMEOUT_S = env.number("ENRICHMENT_TIMEOUT_S", 30.0, 0.1, 600.0)  # seconds until an attempt has failed
# days until audit events are deleted; 0: never
AUDIT_RETENTION_DAYS = env.number("AUDIT_RETENTION_DAYS", 365, 0, 36_500)
# web search service that the tool search_web calls
TAVILY_API_KEY = env.text("TAVILY_API_KEY")
TAVILY_URL = env.text("TAVILY_URL", "https://api.tavily.com")
TAVILY_TIMEOUT_S = env.number("TAVILY_TIMEOUT_S", 15.0, 0.1, 120.0)

# -- subscriptions to sources ------------------------------------------------------------------------------

# folders of the server below which subscriptions may read folders and local repositories; if empty, none
SUBSCRIPTION_FOLDERS = env.list_of_strings("SUBSCRIPTION_FOLDERS")
# names of hosts with private addresses from which repositories may be fetched
SUBSCRIPTION_PRIVATE_HOSTS = [host.lower() for host in env.list_of_strings("SUBSCRIPTION_PRIVATE_HOSTS")]
# file with user names and passwords of repositories, as git's credential helper `store` reads it
SUBSCRIPTION_GIT_CREDENTIALS = env.text("SUBSCRIPTION_GIT_CREDENTIALS")
SUBSCRIPTION_TIMEOUT_S = env.number("SUBSCRIPTION_TIMEOUT_S", 120, 5, 3_600)  # seconds that a call of git may take
SUBSCRIPTION_MAX_MB = env.number("SUBSCRIPTION_MAX_MB", 500, 1, 100_000)  # size of a fetched commit

# -- knowledge graph -------------------------------------------------------------------------------------
# type of entities that are created without one
GRAPH_DEFAULT_TYPE = env.text("GRAPH_DEFAULT_TYPE", "Generic")
# Pairs of inverse relation types. Creating or deleting a relation also creates or deletes its inverse.
GRAPH_INVERSES = env.pairs("GRAPH_INVERSES", "contiene:parte_de,parte_de:contiene")
# moods that are suggested for reflections
GRAPH_MOODS = env.list_of_strings("GRAPH_MOODS", "frustracion,satisfaccion,curiosidad,duda,insight")
# Number of observations above which an entity may be split, by its type. "*" stands for all other types.
GRAPH_SPLIT_AT = env.weights_of("GRAPH_SPLIT_AT", {"Sesion": 15, "Proyecto": 25, "*": 20})

# -- embeddings ------------------------------------------------------------------------------------------

EMBEDDING_PROVIDER = env.choice(
    "EMBEDDING_PROVIDER", "minilm", ("minilm", "sentence-transformers", "openai", "deterministic", "none")
)
EMBEDDING_MODEL = env.text("EMBEDDING_MODEL")  # name of the model, for sentence-transformers and openai
# number of dimensions of the vectors; `manage.py embed --dimension N` must be run after a change
EMBEDDING_DIMENSIONS = env.number("EMBEDDING_DIMENSIONS", 384, 1, 2000)
# URL of a server that is compatible with OpenAI's, for the provider openai
EMBEDDING_URL = env.text("EMBEDDING_URL", "http://localhost:11434/v1")
EMBEDDING_API_KEY = env.text("EMBEDDING_API_KEY")
# timeout in seconds of a worker's request to the embedding server
EMBEDDING_TIMEOUT_S = env.number("EMBEDDING_TIMEOUT_S", 30.0, 0.1, 600.0)
# the same timeout if a caller waits for the response
EMBEDDING_CALLER_TIMEOUT_S = env.number("EMBEDDING_CALLER_TIMEOUT_S", 2.5, 0.1, 60.0)

# -- catalog ----------------------------------------------------------------------------------------------

DATAHUB_GMS_URL = env.text("DATAHUB_GMS_URL")  # URL of DataHub's GMS; if empty, the embedded catalog is used
DATAHUB_GMS_TOKEN = env.text("DATAHUB_GMS_TOKEN")  # a personal access token
DATAHUB_TIMEOUT_S = env.number("DATAHUB_TIMEOUT_S", 10.0, 0.1, 300.0)
# minutes between two comparisons of memories with the catalog
STALENESS_INTERVAL_MIN = env.number("STALENESS_INTERVAL_MIN", 15, 1, 10_080)
# minimum number of different people from which numbers of calls about an entity are shown to curators
DEBT_MIN_PEOPLE = env.number("DEBT_MIN_PEOPLE", 3, 2, 100)
# number of calls about an entity from which a person is named as one who might know about it; 0: never
DEBT_FREQUENT_CALLS = env.number("DEBT_FREQUENT_CALLS", 0, 0, 100_000)
# if on, apply_knowledge writes only when called with `confirm`, and otherwise returns a preview
APPLY_REQUIRE_CONFIRMATION = env.boolean("APPLY_REQUIRE_CONFIRMATION", True)

# -- analysis ---------------------------------------------------------------------------------------------

ANALYSIS_ENABLED = env.boolean("ANALYSIS_ENABLED", True)
ANALYSIS_SOURCES = env.text("ANALYSIS_SOURCES")  # a TOML file that declares a source, or a folder of such files
ANALYSIS_FILES = env.path("ANALYSIS_FILES", COMMONPLACE_FILES / "files")  # folder of file sources
# Names of hosts with private addresses that sources declared in the admin may call. Sources declared in files may call
# any host.
ANALYSIS_PRIVATE_HOSTS = [host.lower() for host in env.list_of_strings("ANALYSIS_PRIVATE_HOSTS")]
ANALYSIS_SQL_PROCESSES = env.number("ANALYSIS_SQL_PROCESSES", 4, 1, 64)  # statements on DuckDB files at a time
ANALYSIS_SQL_MEMORY_MB = env.number("ANALYSIS_SQL_MEMORY_MB", 512, 64, 1_000_000)  # for each of these statements
ANALYSIS_SQL_DISK_MB = env.number("ANALYSIS_SQL_DISK_MB", 1_024, 1, 1_000_000)  # the same for temporary files
CHECK_TIMEOUT_S = env.number("CHECK_TIMEOUT_S", 20, 1, 600)  # of a memory's check, or the source's timeout_s if less
CHECKS_PER_SOURCE_PER_DAY = env.number("CHECKS_PER_SOURCE_PER_DAY", 500, 0, 1_000_000)  # scheduled runs; UTC
ANALYSIS_RECORD_DAYS = env.number("ANALYSIS_RECORD_DAYS", 7, 1, 3_650)  # days until ingested records are deleted

# -- MCP -------------------------------------------------------------------------------------------------

MCP_ORIGINS = env.origins("MCP_ORIGINS")
# toolsets offered to clients that select none
MCP_TOOLSETS = env.list_of_strings(
    "MCP_TOOLSETS",
    "memory,knowledge,analysis,query,storage,upstreams",
    ("memory", "knowledge", "analysis", "query", "storage", "graph", "conversation", "upstreams", "all"),
)
MCP_UPSTREAMS = env.text("MCP_UPSTREAMS")  # a TOML file that declares other MCP servers
# Names of hosts with private addresses that upstreams declared in the admin may have. Those in the file may have any.
MCP_UPSTREAM_PRIVATE_HOSTS = [host.lower() for host in env.list_of_strings("MCP_UPSTREAM_PRIVATE_HOSTS")]
# number of tools from which on those of upstreams are not listed but found by find_tools
MCP_TOOLS_LISTED = env.number("MCP_TOOLS_LISTED", 40, 1, 10_000)

# maximum number of calls and pages of one person that run at the same time, in each process
CALLS_AT_ONCE = env.number("CALLS_AT_ONCE", 4, 1, 1_000)
# maximum number of calls of one person that wait, in each process; further calls are refused
CALLS_WAITING = env.number("CALLS_WAITING", 64, 0, 10_000)
# maximum number of calls and pages of all people that run at the same time, in each process
CALLS_IN_ALL = env.number("CALLS_IN_ALL", 32, 1, 1_000)
# seconds after which PostgreSQL cancels an SQL statement of a tool or the REST API
STATEMENT_TIMEOUT_S = env.number("STATEMENT_TIMEOUT_S", 30.0, 0.1, 3_600.0)
# maximum size of a request's body in bytes
MAX_BODY_BYTES = env.number("MAX_BODY_BYTES", 5_000_000, 10_000, 1_000_000_000)
DATA_UPLOAD_MAX_MEMORY_SIZE = MAX_BODY_BYTES
# maximum size of an imported file in bytes
IMPORT_MAX_BYTES = env.number("IMPORT_MAX_BYTES", 600_000_000, 10_000, 100_000_000_000)
IMPORTS_AT_ONCE = env.number("IMPORTS_AT_ONCE", 5, 1, 1_000)  # running imports of a person

# -- backups ----------------------------------------------------------------------------------------------

# folder of the daily backup, on a machine with a worker; empty: none is written
BACKUP_FOLDER = env.text("BACKUP_FOLDER")
BACKUP_AT = env.number("BACKUP_AT", 3, 0, 23)  # hour of TIME_ZONE from which on the daily backup is written
BACKUP_KEEP = env.number("BACKUP_KEEP", 7, 1, 1_000)  # number of daily backups that are kept
# days after which a daily backup is restored into a temporary server again; 0: never
BACKUP_VERIFY_DAYS = env.number("BACKUP_VERIFY_DAYS", 7, 0, 365)
BACKUP_TIMEOUT_MIN = env.number("BACKUP_TIMEOUT_MIN", 120, 1, 1_440)  # minutes until writing and verifying are stopped

# -- REST ------------------------------------------------------------------------------------------------

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "memory_project.rest.authentication.BearerAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_THROTTLE_CLASSES": ["memory_project.rest.throttle.CallerLimits"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "EXCEPTION_HANDLER": "memory_project.rest.errors.handle_exception",
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "UNAUTHENTICATED_USER": None,
}

SPECTACULAR_SETTINGS = {
    "TITLE": "Commonplace",
    "DESCRIPTION": "Memories shared by analysts and their agents. MCP tools give access to the same memories.",
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",
    "POSTPROCESSING_HOOKS": ["memory_project.rest.components.share"],
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_PERMISSIONS": ["rest_framework.permissions.IsAuthenticated"],
}

# -- background work -------------------------------------------------------------------------------------

Q_CLUSTER = {
    "name": "commonplace",
    "orm": "default",
    "broker_class": "memory_project.operating.shared.task_queue.KeepingBroker",
    "cache": "process",  # for statistics of the cluster, which nothing reads
    "workers": env.number("WORKERS", 1, 1, 64),  # number of worker processes
    "timeout": 600,  # seconds until a running task is stopped
    "retry": 660,  # seconds until an unfinished task is run again; if less than `timeout`, it could run twice at once
    "max_attempts": 3,
    "ack_failures": True,
    "poll": 1.0,  # seconds between two looks at the queue
    "save_limit": 1000,
    "catch_up": False,
    "label": "Background work",
}
