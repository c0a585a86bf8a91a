"""Pages and actions of the palette, restricted to those that the person may open."""

from __future__ import annotations

from dataclasses import dataclass

from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext, gettext_lazy

from foundation.people.caller import Caller
from knowledge.insights import queries as curation
from memory_project.portal.search.matching import RowMatch
from memory_project.portal.sections import FOR_CURATORS, FOR_EVERYONE

EVERYONE, CURATORS, STAFF, OPERATORS, ADMINS = "everyone", "curators", "staff", "operators", "admins"


@dataclass(frozen=True)
class Destination:
    """A page or an action. `words` are other terms that people type for it. `click` is a selector (matching.Match)."""

    title: Promise
    route: str
    group: str = EVERYONE
    words: str = ""
    fragment: str = ""
    click: str = ""


PAGES = (
    *(Destination(page.title, page.route, words=page.words) for section in FOR_EVERYONE for page in section.pages),
    *(Destination(page.title, page.route, CURATORS, page.words) for section in FOR_CURATORS for page in section.pages),
    Destination(gettext_lazy("Stale memories"), "stale-review", words="stale review outdated verification"),
    Destination(gettext_lazy("Contradictions"), "contradictions", words="conflict verdict disagree scope"),
    Destination(gettext_lazy("Questions for you"), "questions", words="interview answer debt"),
    Destination(gettext_lazy("Activity"), "activity", words="calls log"),
    Destination(gettext_lazy("Connect"), "connect", words="agents clients tokens mcp"),
    Destination(gettext_lazy("Webhooks"), "webhooks", words="events endpoints"),
    Destination(gettext_lazy("Saved views"), "saved-views", words="filters lists"),
    Destination(gettext_lazy("Imports"), "import-memories", words="upload csv file"),
    Destination(gettext_lazy("Exports"), "exports", words="download backup"),
    Destination(gettext_lazy("Account"), "account", words="settings profile language time zone e-mail"),
    Destination(gettext_lazy("All insights"), "review-list", CURATORS, "queue list"),
    Destination(gettext_lazy("Dashboard"), "admin:index", STAFF, "administration"),
    Destination(gettext_lazy("Tables"), "admin:tables", STAFF, "database models"),
    Destination(gettext_lazy("Indexing"), "admin:indexing", OPERATORS, "embeddings vectors"),
    Destination(gettext_lazy("System"), "admin:system", OPERATORS, "health storage workers backups"),
    Destination(
        gettext_lazy("Connected systems"),
        "admin:connected-systems",
        OPERATORS,
        "sources upstream chat slack test",
    ),
    Destination(gettext_lazy("Upstream tools"), "admin:upstream-tools", OPERATORS, "mcp servers gateway approve"),
    Destination(gettext_lazy("Second approval"), "admin:second-approval", ADMINS, "risk changesets agreement"),
    Destination(gettext_lazy("Audit"), "admin:audit", ADMINS, "log"),
    Destination(gettext_lazy("People"), "admin:people", ADMINS, "users accounts rights"),
)
ACTIONS = (
    Destination(gettext_lazy("New memory"), "create-memory", words="create add remember write"),
    Destination(gettext_lazy("Propose an insight"), "propose", words="suggest change correct"),
    Destination(gettext_lazy("Import memories from a file"), "import-memories", words="upload csv"),
    Destination(gettext_lazy("Export your memories"), "exports", words="download backup"),
    Destination(gettext_lazy("Connect an agent"), "connect", words="token mcp client"),
    Destination(gettext_lazy("Start a bulk action"), "start-batch", words="batch several many"),
    Destination(gettext_lazy("Invite a person"), "admin:people", ADMINS, "add user account", fragment="invite"),
    Destination(gettext_lazy("Set up a second factor"), "mfa_index", words="two-factor passkey security totp"),
    Destination(gettext_lazy("Switch theme"), "account", words="dark light mode colors", click=".theme-toggle"),
    Destination(gettext_lazy("Show keyboard shortcuts"), "account", words="keys help", click="#keys-sheet"),
    Destination(gettext_lazy("Sign out"), "account", words="log out leave", click=".who button:not(.theme-toggle)"),
)


def allowed(caller: Caller, *, is_staff: bool) -> list[RowMatch]:
    groups = {
        EVERYONE: True,
        CURATORS: curation.may_curate(caller),
        STAFF: is_staff,
        OPERATORS: is_staff and caller.is_operator,
        ADMINS: is_staff and caller.is_admin,
    }
    titled = (("page", gettext("Page"), PAGES), ("action", gettext("Action"), ACTIONS))
    return [
        RowMatch(
            f"{kind}:{entry.fragment or entry.click or entry.route}",
            str(entry.title),
            reverse(entry.route) + (f"#{entry.fragment}" if entry.fragment else ""),
            hint,
            target=f"{kind}:{entry.fragment or entry.click or entry.route}",
            words=entry.words,
            click=entry.click,
        )
        for kind, hint, entries in titled
        for entry in entries
        if groups[entry.group]
    ]
