"""Rules of accessibility, checked on a page in a browser."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from axe_playwright_python.sync_playwright import Axe
from django.urls import Resolver404, resolve

# Routes that are not pages: they accept POST only, or return fragments, files or JSON.
NO_PAGES = {
    "first-call", "make-token", "change-webhook", "revoke-token", "sign-out", "health", "change-memory", "review-undo",
    "approve-changeset", "decline-changeset", "review-decide", "analysis-export", "analysis-action", "resume-action",
    "clear-analysis", "review-act", "review-replace", "review-colleagues", "assignment-rule", "assignment-rule-delete",
    "answer-question", "ask-me", "decide-case", "decide-cases", "undo-case",
    "contradictions", "questions", "stale-review", "suggestions",  # former addresses, which lead to the inbox
    "ask-about", "take-back-question",
    "propose-preview", "pick", "palette",
    "save-view", "remove-view", "read-news", "follow-news", "diff-memory", "close-first-run", "system-test",
    "upstream-tool-act", "upstream-tools-undo",
    "upstream-tool", "upstream-tools-accept",  # linked once there are tools; test_upstream_admin.py opens them
    "preview-batch", "rename-view", "default-view",
    "start-batch", "cancel-batch", "wipe", "share-graph", "drop-cache", "forget-turn",
    "batch", "batch-on", "repeat-batch", "undo-batch", "resume-changeset", "replay-changeset", "export-changeset",
    "password_reset_confirm", "forgot-password", "password_reset_done", "sign-in",
    "indexing-act", "invite", "export-file", "delete-export", "person-act",
    "logout", "login", "favicon", "autocomplete", "jsi18n", "view_on_site", "password_change",
    "password_change_done", "auth_user_password_change",
    "import", "choose-import-rows", "take-import", "undo-import", "cancel-import", "import-report",
    "citing-document", "change-citing",  # test_citation_pages.py opens these
    "edit-check", "change-check", "review-checks",  # linked once there are checks; test_check_doors.py opens them
    "news-group",  # linked once a person has more than three notifications of a kind; test_notifications.py opens it
    # test_oauth.py opens these
    "oauth-resource-metadata", "mcp-metadata", "mcp-choice-metadata",
    "mcp-slash-metadata", "oauth-server-metadata", "authorize", "token",
    "dcr-register", "dcr-register-management", "end-app",
    # test_single_sign_on.py and test_second_factor.py open these
    "company-sign-in", "company-callback", "sign-in-link", "account_login", "account_logout", "mfa_authenticate",
    "account_reauthenticate", "mfa_reauthenticate", "mfa_reauthenticate_webauthn", "mfa_deactivate_totp",
    "mfa_view_recovery_codes", "mfa_generate_recovery_codes", "mfa_download_recovery_codes", "mfa_list_webauthn",
    "mfa_edit_webauthn", "mfa_remove_webauthn",
    "waive-caveat", "reinstate-caveat",
    "change-system", "upstream-callback",  # test_upstream_credentials.py opens these
    # test_api_pages.py opens these
    "api-start", "api-docs", "api-redoc", "api-schema",
}  # fmt: skip


START = [
    "/",
    "/?q=refunds",
    "/?status=stale",
    "/review/",
    "/changesets/?state=applied",
    "/inbox/?kind=stale",
    "/inbox/?kind=verification",
    "/admin/tables/",
    "/admin/people/",
    "/connect/",
    "/debt/interview/?person=maya%40fernhill.example",  # linked on the pages of other people than the reader
]


AXE = Axe().axe_script


RUN_AXE = "([scope, options]) => axe.run(scope ?? document, options).then(results => results.violations)"


def name_of(address: str) -> str:
    try:
        return resolve(urlsplit(address).path).url_name or ""
    except Resolver404:
        return ""


def violations(page: Any, scope: Any, rules: list[str] | None = None) -> list[str]:
    """Return the violations that axe finds: each rule with its first elements."""
    options: dict[str, Any] = {"resultTypes": ["violations"]}
    if rules:
        options["runOnly"] = {"type": "rule", "values": rules}
    if page.evaluate("typeof axe") == "undefined":
        page.evaluate(AXE)
    return [
        f"{fault['id']} ({fault['impact']}) "
        + ", ".join(" ".join(map(str, node["target"])) for node in fault["nodes"][:3])
        for fault in page.evaluate(RUN_AXE, [scope, options])
    ]
