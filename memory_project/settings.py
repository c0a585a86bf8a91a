"""Settings, read from the environment.

A comment above or beside a variable is its meaning in docs/settings.md, which `make settings` writes.
"""

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

# folder of the embedded database, of the embedding model's ONNX file and of the secret key; by default `var/` in a
# checkout, and `~/.local/share/commonplace` otherwise
COMMONPLACE_HOME = env.path(
    "COMMONPLACE_HOME", BASE_DIR / "var" if IS_CHECKOUT else Path.home() / ".local/share/commonplace"
)
# folder of uploaded files, exports and files of sources; with several machines, a folder that all of them share; by
# default `COMMONPLACE_HOME`
COMMONPLACE_FILES = env.path("COMMONPLACE_FILES", COMMONPLACE_HOME)
COMMONPLACE_HOST = env.text("COMMONPLACE_HOST", "127.0.0.1")  # address that `up` listens on
# port that `up` listens on; `mcp --transport http` takes the next one
COMMONPLACE_PORT = env.number("COMMONPLACE_PORT", 8000, 1, 65535)
# the address that people and agents use; with https, cookies are sent over https only; by default
# `http://localhost:PORT`
_public = env.url("COMMONPLACE_URL", f"http://localhost:{COMMONPLACE_PORT}")
COMMONPLACE_URL = _public.geturl()

DEBUG = env.boolean("DEBUG", False)  # Django's debug mode
# host names that the server responds to, for the browser and MCP
ALLOWED_HOSTS = env.list_of_strings("ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]")
if _public.hostname and _public.hostname not in ALLOWED_HOSTS:
    ALLOWED_HOSTS.append(_public.hostname)
CSRF_TRUSTED_ORIGINS = [f"{_public.scheme}://{_public.netloc}"]
# addresses and networks of your reverse proxies, comma-separated, such as `127.0.0.1,10.1.0.0/16`; only their
# `X-Forwarded-For` and `X-Forwarded-Proto` are believed
TRUSTED_PROXIES = env.networks("TRUSTED_PROXIES")
# how long browsers use https only, if `COMMONPLACE_URL` is https; 0: not announced
HSTS_SECONDS = env.number("HSTS_SECONDS", 31_536_000, 0, 63_072_000)
# open connections of one address that is not a trusted proxy, in each process
CONNECTIONS_PER_ADDRESS = env.number("CONNECTIONS_PER_ADDRESS", 256, 1, 100_000)
# seconds for which a web server that got SIGTERM still accepts requests, so that load balancers notice that it is not
# ready; the image sets 5
DRAIN_DELAY_S = env.number("DRAIN_DELAY_S", 0.0, 0.0, 300.0)
DRAIN_TIMEOUT_S = env.number("DRAIN_TIMEOUT_S", 30, 1, 3_600)  # seconds that running calls then have to end

# signs sessions, and encrypts second factors and credentials for other systems; empty: created once, in
# `COMMONPLACE_HOME`, when it is first used
_secret_key = env.text("SECRET_KEY")
SECRET_KEY_IS_SET = bool(_secret_key)
SECRET_KEY = SimpleLazyObject(lambda: _secret_key or load_secret_key(COMMONPLACE_HOME / "secret_key"))
# earlier keys, or the next one, comma-separated: what they have signed and encrypted is read
SECRET_KEY_FALLBACKS = env.list_of_strings("SECRET_KEY_FALLBACKS")

# -- monitoring ------------------------------------------------------------------------------------------

# bearer token for `/metrics` of the web server, at least 16 characters; empty: there is no such address
# (docs/observability.md)
METRICS_TOKEN = env.text("METRICS_TOKEN")
METRICS_PORT = env.number("METRICS_PORT", 0, 0, 65535)  # port for `/metrics` without a token; 0: none
METRICS_HOST = env.text("METRICS_HOST", "127.0.0.1")  # address that this port listens on
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

# a PostgreSQL ≥ 16 with pgvector ≥ 0.8; it may name several hosts; empty: the embedded server
DATABASE_URL = env.text("DATABASE_URL")
# the same database as the role that owns the tables, for migrations; empty: `DATABASE_URL`
DATABASE_OWNER_URL = env.text("DATABASE_OWNER_URL")
DATABASE_POOL_SIZE = env.number("DATABASE_POOL_SIZE", 16, 0, 200)  # connections per web process; 0: one per thread
# whether a pooler assigns connections of PostgreSQL per `transaction`; `none`: there is none, or it assigns them per
# session; `auto`: found out by the process id of a connection's backend (foundation/database/engine/base.py)
DATABASE_POOLER = env.choice("DATABASE_POOLER", "auto", ("auto", "transaction", "none"))
# prepare the statements of every call once per connection; never done behind a pooler that assigns connections per
# transaction
DATABASE_PREPARES = env.boolean("DATABASE_PREPARES", True)
# a replica of the same database, from which recall, searches and pages read; empty: none
DATABASE_REPLICA_URL = env.text("DATABASE_REPLICA_URL")
# seconds that the replica may be behind; if it is further behind, the primary is read
DATABASE_REPLICA_MAX_LAG_S = env.number("DATABASE_REPLICA_MAX_LAG_S", 10.0, 0.1, 3_600.0)

# seconds for which a web process remembers who owns an MCP token; a change or a revocation takes effect at once,
# because the database tells every process, and while it can't, nothing is kept; 0: looked up by each call
TOKEN_CACHE_S = env.number("TOKEN_CACHE_S", 5, 0, 60)

# lists of the vector index that a search compares: nearly all at 10,000 passages, a fifth at 100,000, one in 25 at a
# million. More lists find more and take longer
RECALL_PROBES = env.number("RECALL_PROBES", 80, 1, 2_000)
# memory of PostgreSQL for training the vector index, which limits its lists: 2,000 with 1 GB, 4,000 with 4 GB, 9,300
# (as many as 10 million passages would have) with 17 GB. docs/scaling.md says when that pays
VECTOR_INDEX_MEMORY_MB = env.number("VECTOR_INDEX_MEMORY_MB", 1024, 128, 262_144)
# random_page_cost: tables and indexes are in memory or on an SSD, where a random read costs little more than a
# sequential one.
# work_mem: the sort for counting facets fits into 16 MB; with the default of 4 MB it would go to disk.
# ivfflat: if a filter leaves too few rows of the lists compared, the search continues with more lists (pgvector,
# "Iterative Index Scans"); otherwise a search among the few memories of one owner could find none of them.
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

# a Redis for what processes share, such as `redis://localhost:6379/0`; empty: PostgreSQL
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
    CACHES["table"] = CACHES["default"]
    CACHES["memory"] = CACHES["calls"]
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
# wrong passwords for one account from one address before sign-in from that address is paused
AXES_FAILURE_LIMIT = env.number("SIGN_IN_ATTEMPTS", 8, 1, 1_000)
# length of that pause, in minutes
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

# let MCP clients connect with the address of `/mcp` alone; off: there are only tokens made by hand
OAUTH_ENABLED = env.boolean("OAUTH_ENABLED", True)
# schemes of desktop applications that a consent may lead back to, beside https and http on the loopback interface
OAUTH_REDIRECT_SCHEMES = env.list_of_strings(
    "OAUTH_REDIRECT_SCHEMES", "cursor,vscode,vscode-insiders,windsurf,zed,goose,claude"
)
if unsafe := {scheme.lower() for scheme in OAUTH_REDIRECT_SCHEMES} & {"javascript", "data", "vbscript", "file", "blob"}:
    raise ImproperlyConfigured(
        f"OAUTH_REDIRECT_SCHEMES contains {sorted(unsafe)[0]!r}; allowed: schemes of desktop applications"
    )
OIDC_ISSUER = env.url("OIDC_ISSUER", "").geturl()  # the company's own token issuer, whose tokens `/mcp` accepts, too
OIDC_AUDIENCE = env.text("OIDC_AUDIENCE")  # the audience that these tokens must have; required with `OIDC_ISSUER`
# URL of the issuer's public keys; empty: as the issuer's metadata say
OIDC_JWKS_URL = env.text("OIDC_JWKS_URL")
# the claim with the person's e-mail address
OIDC_EMAIL_CLAIM = env.text("OIDC_EMAIL_CLAIM", "email")
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
SSO_ISSUER = env.url("SSO_ISSUER", "").geturl()
SSO_CLIENT_ID = env.text("SSO_CLIENT_ID")  # the id that the issuer gave to Commonplace
SSO_CLIENT_SECRET = env.text("SSO_CLIENT_SECRET")  # its secret; no page shows it
# name on the button *Continue with …*
SSO_NAME = env.text("SSO_NAME", "your company")
# the scopes to ask for; some issuers send groups only for `groups`
SSO_SCOPES = env.list_of_strings("SSO_SCOPES", "openid,profile,email")
# the claim with a person's groups; dots lead into nested claims, such as `realm_access.roles`
SSO_GROUPS_CLAIM = env.text("SSO_GROUPS_CLAIM", "groups")
# create an account at a person's first sign-in; otherwise admins invite them
SSO_CREATE_ACCOUNTS = env.boolean("SSO_CREATE_ACCOUNTS", False)
# domains of the addresses of such accounts; empty: every domain
SSO_DOMAINS = [domain.lower().lstrip("@") for domain in env.list_of_strings("SSO_DOMAINS")]
# trust an e-mail address if the issuer does not send `email_verified`; only if people can't choose their address there
SSO_EMAILS_VERIFIED = env.boolean("SSO_EMAILS_VERIFIED", False)
LOCAL_PASSWORDS = env.boolean("LOCAL_PASSWORDS", True)  # whether people can sign in with a password of Commonplace
# who must set up a second factor after a password: `none`, `staff` (admins, curators, operators) or `all`
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

# the mail server; if empty, no mail is sent, and invitation links are shown for you to pass on
EMAIL_HOST = env.text("EMAIL_HOST")
EMAIL_PORT = env.number("EMAIL_PORT", 587, 1, 65535)  # its port
EMAIL_HOST_USER = env.text("EMAIL_HOST_USER")  # user name at the mail server
EMAIL_HOST_PASSWORD = env.text("EMAIL_HOST_PASSWORD")  # password at the mail server
EMAIL_USE_TLS = env.boolean("EMAIL_USE_TLS", True)  # STARTTLS
EMAIL_TIMEOUT = 15  # seconds
# the sender; by default `commonplace` at the host of `COMMONPLACE_URL`
DEFAULT_FROM_EMAIL = env.text("EMAIL_FROM", f"Commonplace <commonplace@{_public.hostname or 'localhost'}>")
# send everyone an e-mail on Mondays: what is new, what is waiting, and what became of their insights
DIGEST = env.boolean("DIGEST", False)
# hours after which curators get an e-mail about a waiting insight, at most once a day; 0: never
REVIEW_ALERT_HOURS = env.number("REVIEW_ALERT_HOURS", 0, 0, 8_760)
# hosts that chat channels of personas may be on, comma-separated, such as `hooks.slack.com`; empty: none
WEBHOOK_HOSTS = [host.lower() for host in env.list_of_strings("WEBHOOK_HOSTS")]
# whose webhooks (docs/webhooks.md) get events: `everyone`, `operators` (and admins) or `nobody`
WEBHOOK_SUBSCRIBERS = env.choice("WEBHOOK_SUBSCRIBERS", "everyone", ("everyone", "operators", "nobody"))
# hosts with private addresses that webhooks of people may be on, comma-separated, with http or https
WEBHOOK_PRIVATE_HOSTS = [host.lower() for host in env.list_of_strings("WEBHOOK_PRIVATE_HOSTS")]

# -- language, time, files -------------------------------------------------------------------------------

LANGUAGE_CODE = "en"  # of tools, REST answers, logs and background work; pages use the user's language
LANGUAGES = [("en", "English"), ("de", "Deutsch"), ("es", "Español")]
LOCALE_PATHS = [(BASE_DIR if IS_CHECKOUT else BASE_DIR / "memory_project") / "locale"]
FORMAT_MODULE_PATH = "memory_project.formats"
TIME_ZONE = env.time_zone("TIME_ZONE", "UTC")  # time zone of the times on pages
USE_TZ = True
STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "static"] if IS_CHECKOUT else []
STATIC_ROOT = COMMONPLACE_HOME / "static" / __version__
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "memory_project.web.hashed_files.HashedStaticFiles"},
}
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"

# DEBUG, INFO, WARNING or ERROR, to stderr
LOG_LEVEL = env.choice("LOG_LEVEL", "WARNING", ("DEBUG", "INFO", "WARNING", "ERROR"))
LOG_FORMAT = env.choice("LOG_FORMAT", "line", ("line", "json"))  # `line` or `json`: one JSON object for each log line
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {
        "request": {"()": "memory_project.operating.observability.logs.WithRequest"},
        "refusals": {"()": "memory_project.operating.observability.logs.WithoutTracebackOfRefusals"},
        "seldom": {"()": "memory_project.operating.observability.logs.Seldom"},
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
            "formatter": LOG_FORMAT,
        }
    },
    "root": {
        "handlers": ["stderr"],
        "level": LOG_LEVEL,
    },
    "loggers": {
        "django.request": {"filters": ["refusals"]},
        "psycopg.pool": {"filters": ["seldom"]},  # each of its threads warns while the database is away
        "memory_project.operating.postgres.base": {"filters": ["seldom"]},  # each call that finds it away
        "axes": {"level": "ERROR"},  # sign-in attempts are in the audit log
        # below these levels they log statements with their values, messages with their texts, and URLs
        **{name: {"level": "INFO"} for name in ("django.db.backends", "mcp", "sse_starlette", "botocore", "datahub")},
        **{name: {"level": "WARNING"} for name in ("httpx", "httpcore", "urllib3", "django.template", "asyncio")},
        "mcp.server.streamable_http": {"level": "WARNING"},  # it logs the end of each request without a session
        "sqlglot": {"level": "ERROR"},  # it warns of each statement that it doesn't parse, which callers handle
    },
}

# -- memories --------------------------------------------------------------------------------------------

# PostgreSQL's text-search configuration; run `manage.py rebuild_search` after a change
TEXT_SEARCH_CONFIG = env.text("TEXT_SEARCH_CONFIG", "english")
# languages of memories and questions, as ISO 639-1 codes; words are stemmed by the rules of their language. Run
# `manage.py rebuild_search` after a change. The packaged model understands English; to find other languages by meaning,
# choose a multilingual model
RECALL_LANGUAGES = env.list_of_strings("RECALL_LANGUAGES", "en,de,es,fr,ja")
# rerank the best 20 hits with a cross-encoder: `sentence-transformers` (extra `models`), or `http` for an endpoint with
# `POST …/rerank`
RERANK_PROVIDER = env.choice("RERANK_PROVIDER", "none", ("none", "sentence-transformers", "http"))
RERANK_MODEL = env.text("RERANK_MODEL")  # its model
RERANK_URL = env.text("RERANK_URL")  # address of the endpoint, without `/rerank`
RERANK_API_KEY = env.text("RERANK_API_KEY")  # its key
RERANK_TIMEOUT_S = env.number("RERANK_TIMEOUT_S", 2.0, 0.1, 60.0)  # seconds after which hits keep their order
# minimum score of a semantic hit; see docs/benchmarks.md
RECALL_MIN_SCORE = env.number("RECALL_MIN_SCORE", 0.2, 0.0, 10.0)
# minimum score of the nearest memory, which is returned as a distant match if nothing else is found
RECALL_DISTANT_SCORE = env.number("RECALL_DISTANT_SCORE", 0.12, 0.0, 10.0)
# number of readable rows up to which recall scans them instead of using the indexes; above 45,000 rows in total it
# grows with their square root (at a million: 18,900), but not for memories that recall only counts, as left out
RECALL_EXACT_SCAN_ROWS = env.number("RECALL_EXACT_SCAN_ROWS", 4_000, 0, 1_000_000)
# age in days at which an insight that waits for review is overdue; assignment rules may set another
REVIEW_TARGET_DAYS = env.number("REVIEW_TARGET_DAYS", 7, 1, 365)
UNDO_OFFERED_S = env.number("UNDO_OFFERED_S", 10, 3, 600)  # seconds for which the next page offers to undo a decision
NEAR_DUPLICATE_COSINE = env.number("NEAR_DUPLICATE_COSINE", 0.90, 0.0, 1.0)  # minimum cosine of a near-duplicate
# ask each agent connection that has the toolset `reports` once a day, after a recall, which memories it used
FEEDBACK_REQUEST = env.boolean("FEEDBACK_REQUEST", True)
# attach memories about the entities that a call mentions to its response
MEMORY_CONTEXT = env.boolean("MEMORY_CONTEXT", True)
# milliseconds for which the database may look for them; after that, it looks again without neighbors and meanings.
# DataHub and an embedding server are waited for as long
MEMORY_CONTEXT_MS = env.number("MEMORY_CONTEXT_MS", 150, 1, 10_000)
# propose a correction if a statement failed and was corrected within 15 minutes; the proposal has both statements
CAPTURE_FROM_FAILURE = env.boolean("CAPTURE_FROM_FAILURE", False)
# maximum size of a response to an agent; what does not fit is left out
ANSWER_BUDGET_BYTES = env.number("ANSWER_BUDGET_BYTES", 60_000, 2_000, 10_000_000)

# -- conversations ---------------------------------------------------------------------------------------
STM_TTL_HOURS = env.number("STM_TTL_HOURS", 24, 1, 8_760)  # hours until a turn of a conversation expires
# days until memories deleted by delete_memory, memory_prune or consolidation are purged
SOFT_DELETE_PURGE_DAYS = env.number("SOFT_DELETE_PURGE_DAYS", 30, 0, 3_650)
# seconds until a cached answer expires, unless stored with another lifetime
CACHE_TTL_SECONDS = env.number("CACHE_TTL_SECONDS", 3_600, 1, 31_536_000)
# OpenAI-compatible endpoint of a language model that classifies new long-term memories, such as
# `http://localhost:11434/v1`; empty: the heuristics of memories/conversation/heuristics.py
ENRICHMENT_URL = env.text("ENRICHMENT_URL")
ENRICHMENT_MODEL = env.text("ENRICHMENT_MODEL")  # its model
ENRICHMENT_API_KEY = env.text("ENRICHMENT_API_KEY")  # its key
ENRICHMENT_TIMEOUT_S = env.number("ENRICHMENT_TIMEOUT_S", 30.0, 0.1, 600.0)  # seconds after which an attempt has failed
# days until a call is deleted from the audit; 0: never
AUDIT_RETENTION_DAYS = env.number("AUDIT_RETENTION_DAYS", 365, 0, 36_500)
TAVILY_API_KEY = env.text("TAVILY_API_KEY")  # API key for search_web; without it the tool returns an error
TAVILY_URL = env.text("TAVILY_URL", "https://api.tavily.com")  # address of the search service
TAVILY_TIMEOUT_S = env.number("TAVILY_TIMEOUT_S", 15.0, 0.1, 120.0)  # seconds after which a search has failed

# -- subscriptions to sources ------------------------------------------------------------------------------

# folders of the server below which subscriptions (docs/subscriptions.md) may read folders and local repositories,
# comma-separated; if empty, none
SUBSCRIPTION_FOLDERS = env.list_of_strings("SUBSCRIPTION_FOLDERS")
# hosts with private addresses from which subscriptions may fetch repositories, comma-separated; they may also use http
SUBSCRIPTION_PRIVATE_HOSTS = [host.lower() for host in env.list_of_strings("SUBSCRIPTION_PRIVATE_HOSTS")]
# file with user names and passwords of repositories, as git's credential helper `store` reads it
SUBSCRIPTION_GIT_CREDENTIALS = env.text("SUBSCRIPTION_GIT_CREDENTIALS")
SUBSCRIPTION_TIMEOUT_S = env.number("SUBSCRIPTION_TIMEOUT_S", 120, 5, 3_600)  # seconds that a call of git may take
SUBSCRIPTION_MAX_MB = env.number("SUBSCRIPTION_MAX_MB", 500, 1, 100_000)  # maximum size of a fetched commit

# -- knowledge graph -------------------------------------------------------------------------------------
GRAPH_DEFAULT_TYPE = env.text("GRAPH_DEFAULT_TYPE", "Generic")  # default type of an entity of the knowledge graph
# pairs of inverse relation types: creating or ending one also creates or ends the other
GRAPH_INVERSES = env.pairs("GRAPH_INVERSES", "contiene:parte_de,parte_de:contiene")
# moods that are suggested for reflections
GRAPH_MOODS = env.list_of_strings("GRAPH_MOODS", "frustracion,satisfaccion,curiosidad,duda,insight")
# observations above which an entity may be split, by its type, as a JSON object; `*` stands for all other types
GRAPH_SPLIT_AT = env.weights_of("GRAPH_SPLIT_AT", {"Sesion": 15, "Proyecto": 25, "*": 20})

# -- embeddings ------------------------------------------------------------------------------------------

# minilm (packaged, English), e5 (about a hundred languages, extra `e5`), sentence-transformers (extra `models`), openai
# (any compatible server), deterministic, none
EMBEDDING_PROVIDER = env.choice(
    "EMBEDDING_PROVIDER", "minilm", ("minilm", "e5", "sentence-transformers", "openai", "deterministic", "none")
)
EMBEDDING_MODEL = env.text("EMBEDDING_MODEL")  # the model's name, for sentence-transformers and openai
# dimensions of the vector column; run `manage.py embed --dimension N` after a change
EMBEDDING_DIMENSIONS = env.number("EMBEDDING_DIMENSIONS", 384, 1, 2000)
# address of the compatible server (Ollama, vLLM, TEI, OpenAI)
EMBEDDING_URL = env.text("EMBEDDING_URL", "http://localhost:11434/v1")
EMBEDDING_API_KEY = env.text("EMBEDDING_API_KEY")  # key of this server
# seconds until the server counts as unavailable for a worker's batch
EMBEDDING_TIMEOUT_S = env.number("EMBEDDING_TIMEOUT_S", 30.0, 0.1, 600.0)
# the same, while a person or an agent waits
EMBEDDING_CALLER_TIMEOUT_S = env.number("EMBEDDING_CALLER_TIMEOUT_S", 2.5, 0.1, 60.0)

# -- catalog ----------------------------------------------------------------------------------------------

# address of DataHub's GMS; needs the extra `datahub`; empty: the embedded catalog
DATAHUB_GMS_URL = env.text("DATAHUB_GMS_URL")
DATAHUB_GMS_TOKEN = env.text("DATAHUB_GMS_TOKEN")  # a personal access token
DATAHUB_TIMEOUT_S = env.number("DATAHUB_TIMEOUT_S", 10.0, 0.1, 300.0)  # seconds until DataHub counts as unavailable
# minutes between comparisons of memories with the catalog
STALENESS_INTERVAL_MIN = env.number("STALENESS_INTERVAL_MIN", 15, 1, 10_080)
# different people from which numbers of calls about an entity count for its knowledge debt
DEBT_MIN_PEOPLE = env.number("DEBT_MIN_PEOPLE", 3, 2, 100)
# calls about an entity from which a person is named as one who might know; 0: never
DEBT_FREQUENT_CALLS = env.number("DEBT_FREQUENT_CALLS", 0, 0, 100_000)
# whether applying needs `confirm`; without it the call returns a preview
APPLY_REQUIRE_CONFIRMATION = env.boolean("APPLY_REQUIRE_CONFIRMATION", True)

# -- analysis ---------------------------------------------------------------------------------------------

ANALYSIS_ENABLED = env.boolean("ANALYSIS_ENABLED", True)  # whether the analysis tools are offered
# a TOML file of a source, warehouse or object store, or a folder of them; admins declare more under *Tables*
ANALYSIS_SOURCES = env.text("ANALYSIS_SOURCES")
# the folder of file sources; by default `files/` in `COMMONPLACE_FILES`
ANALYSIS_FILES = env.path("ANALYSIS_FILES", COMMONPLACE_FILES / "files")
# hosts with private addresses that sources declared under *Tables* may call, comma-separated; sources declared in files
# may call any host
ANALYSIS_PRIVATE_HOSTS = [host.lower() for host in env.list_of_strings("ANALYSIS_PRIVATE_HOSTS")]
# statements on DuckDB files, and readings of files in object stores, that run at the same time, in each web process;
# each has a process of its own
ANALYSIS_SQL_PROCESSES = env.number("ANALYSIS_SQL_PROCESSES", 4, 1, 64)
# memory of one of these, in megabytes
ANALYSIS_SQL_MEMORY_MB = env.number("ANALYSIS_SQL_MEMORY_MB", 512, 64, 1_000_000)
ANALYSIS_SQL_DISK_MB = env.number("ANALYSIS_SQL_DISK_MB", 1_024, 1, 1_000_000)  # its temporary files, in megabytes
# seconds that the statement of a memory's check (docs/checks.md) may take, unless the source's `timeout_s` is less
CHECK_TIMEOUT_S = env.number("CHECK_TIMEOUT_S", 20, 1, 600)
# runs of checks in one warehouse in a day (UTC); 0 stops them
CHECKS_PER_SOURCE_PER_DAY = env.number("CHECKS_PER_SOURCE_PER_DAY", 500, 0, 1_000_000)
# how long ingested records and their page summaries are kept
ANALYSIS_RECORD_DAYS = env.number("ANALYSIS_RECORD_DAYS", 7, 1, 3_650)

# -- MCP -------------------------------------------------------------------------------------------------

# origins of web pages whose scripts may call `/mcp` with a token, comma-separated, such as
# `https://inspector.example.org`
MCP_ORIGINS = env.origins("MCP_ORIGINS")
# toolsets of connections that choose none: memory, knowledge, analysis, query, storage, graph, conversation, notes,
# reports, upstreams, all
MCP_TOOLSETS = env.list_of_strings(
    "MCP_TOOLSETS",
    "memory,knowledge,analysis,query,storage,upstreams",
    (
        *("memory", "knowledge", "analysis", "query", "storage", "graph", "conversation"),
        *("notes", "reports", "upstreams", "all"),
    ),
)
# a TOML file that declares other MCP servers, whose tools this one offers, too (docs/gateway.md)
MCP_UPSTREAMS = env.text("MCP_UPSTREAMS")
# hosts with private addresses that upstreams declared in the admin may have, comma-separated; those in the file may
# have any
MCP_UPSTREAM_PRIVATE_HOSTS = [host.lower() for host in env.list_of_strings("MCP_UPSTREAM_PRIVATE_HOSTS")]
# above this number of tools, those of upstreams are not listed: `find_tools` searches them and `use_tool` calls one
MCP_TOOLS_LISTED = env.number("MCP_TOOLS_LISTED", 40, 1, 10_000)

CALLS_AT_ONCE = env.number("CALLS_AT_ONCE", 4, 1, 1_000)  # concurrent calls and pages of one person; others wait
# waiting calls of one person, and as many waiting pages; others are refused with status 429
CALLS_WAITING = env.number("CALLS_WAITING", 64, 0, 10_000)
CALLS_IN_ALL = env.number("CALLS_IN_ALL", 32, 1, 1_000)  # concurrent calls and pages of all people in one process
# seconds after which PostgreSQL cancels a statement of a tool or the REST API
STATEMENT_TIMEOUT_S = env.number("STATEMENT_TIMEOUT_S", 30.0, 0.1, 3_600.0)
MAX_BODY_BYTES = env.number("MAX_BODY_BYTES", 5_000_000, 10_000, 1_000_000_000)  # maximum size of a request's body
DATA_UPLOAD_MAX_MEMORY_SIZE = MAX_BODY_BYTES
# maximum size of an imported file; the upload may take 15 minutes, so that a proxy needs such limits for
# `/memories/import/` and `/api/v1/imports/`, too
IMPORT_MAX_BYTES = env.number("IMPORT_MAX_BYTES", 600_000_000, 10_000, 100_000_000_000)
# imports of one person that may run at once; a further upload is refused
IMPORTS_AT_ONCE = env.number("IMPORTS_AT_ONCE", 5, 1, 1_000)

# -- backups ----------------------------------------------------------------------------------------------

# folder of the daily backup, on a machine with a worker; if empty, this machine writes none
BACKUP_FOLDER = env.text("BACKUP_FOLDER")
BACKUP_AT = env.number("BACKUP_AT", 3, 0, 23)  # hour of `TIME_ZONE` from which on the daily backup is written
# number of daily backups that are kept; those written by hand stay
BACKUP_KEEP = env.number("BACKUP_KEEP", 7, 1, 1_000)
# days after which a daily backup is restored into a temporary server again; 0: never
BACKUP_VERIFY_DAYS = env.number("BACKUP_VERIFY_DAYS", 7, 0, 365)
# minutes after which writing and verifying a daily backup are stopped
BACKUP_TIMEOUT_MIN = env.number("BACKUP_TIMEOUT_MIN", 120, 1, 1_440)

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

WORKERS = env.number("WORKERS", 1, 1, 64)  # processes of one background worker
Q_CLUSTER = {
    "name": "commonplace",
    "orm": "default",
    "broker_class": "memory_project.operating.shared.task_queue.KeepingBroker",
    "cache": "process",  # for statistics of the cluster, which nothing reads
    "workers": WORKERS,
    "timeout": 600,  # seconds until a running task is stopped
    "retry": 660,  # seconds until an unfinished task is run again; if less than `timeout`, it could run twice at once
    "max_attempts": 3,
    "ack_failures": True,
    "poll": 1.0,  # seconds between two looks at the queue
    "save_limit": 1000,
    "catch_up": False,
    "label": "Background work",
}
