"""Forms that are sent twice are carried out once, and the browser learns which drafts were sent.

A double click, a repetition after going back and a reload send the same form of the same rendered page. Every rendering
of a page has a CSRF token of its own, so the token tells the renderings apart, and no template needs another field. The
repetition gets the page that the first one led to. If another form of the page was sent in between, the repetition is
a new decision and is carried out.

A form counts as carried out if the response redirects, other than to the sign-in page, and reports no error.
"""

from __future__ import annotations

import hashlib
import logging
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.contrib import messages
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import resolve_url
from django.utils import timezone
from django.utils.translation import gettext

from foundation.operations.errors import Conflict
from memory_project.portal.pages.models import KEPT, Submission
from memory_project.web.middleware import error_response
from memory_project.web.refusals import is_for_programs

ABANDONED = timedelta(minutes=2)  # a request that has run for longer has ended without a response, such as by a crash
WAIT_S = 15.0  # seconds that a repetition waits for the first request
PAUSE_S = 0.1  # seconds between two looks at the first request
DRAFT = re.compile(r"[0-9a-z]{8,32}")  # the browser's name of a draft
COOKIE_AGE_S = 600  # the next page deletes the cookie
DONE = "carried_out_at"  # attribute of a response without a redirect: the page for a repetition

GetResponse = Callable[[HttpRequest], HttpResponse]
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Form:
    page: str  # digest of the person and the rendered page
    body: str  # digest of the address and the values
    owner: str


def send_once(get_response: GetResponse) -> GetResponse:
    """Middleware that carries a form out once per rendered page, and marks the draft of a form as sent."""

    def middleware(request: HttpRequest) -> HttpResponse:
        form = _form_of(request)
        if form is None:
            return _with_draft_sent(request, get_response(request))
        try:
            earlier = _claim(form)
        except Conflict as error:
            return error_response(request, error.message, error.code, error.status)
        if earlier:
            messages.info(request, gettext("You submitted this form twice. It was processed once."))
            return _with_draft_sent(request, HttpResponseRedirect(earlier))
        try:
            response = get_response(request)
        except BaseException:
            _finish(form, "")
            raise
        _finish(form, _location_after(request, response))
        return _with_draft_sent(request, response)

    return middleware


def carried_out(response: HttpResponse, page: str) -> HttpResponse:
    """Mark a page that is the answer to a form that was carried out. A repetition of the form leads to `page`."""
    setattr(response, DONE, page)
    return response


def _form_of(request: HttpRequest) -> Form | None:
    user = getattr(request, "user", None)
    if request.method != "POST" or user is None or is_for_programs(request.path):
        return None
    # htmx sends a form again by itself, for example to follow the progress of a bulk action
    token = request.POST.get("csrfmiddlewaretoken", "")
    if not token or request.htmx or not user.is_authenticated:  # type: ignore[attr-defined]
        return None
    page = hashlib.sha256(f"{user.email}\n{token}".encode())
    body = hashlib.sha256(repr((request.get_full_path(), sorted(request.POST.lists()))).encode(errors="replace"))
    for name, files in sorted(request.FILES.lists()):
        for file in files:
            body.update(repr((name, file.name, file.size)).encode(errors="replace"))
            for chunk in file.chunks():
                body.update(chunk)
            file.seek(0)
    return Form(page.hexdigest(), body.hexdigest(), user.email)


def _claim(form: Form) -> str:
    """Return the page that the same form led to earlier, or "" if the form is to be carried out now.

    Waits while the same form is being carried out. Raises Conflict if that takes longer than WAIT_S.
    """
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        now = timezone.now()
        new = {"owner": form.owner, "body": form.body, "location": "", "started_at": now}
        row, created = Submission.objects.get_or_create(page=form.page, defaults=new)
        if created:
            return ""
        is_same = row.body == form.body and row.started_at > now - (KEPT if row.location else ABANDONED)
        if is_same and row.location:
            return row.location
        if not is_same:
            seen = Submission.objects.filter(page=form.page, body=row.body, started_at=row.started_at)
            if seen.update(**new):
                return ""
            continue
        time.sleep(PAUSE_S)
    raise Conflict(gettext("This form is still being processed. Reload the page in a moment."))


def _finish(form: Form, location: str) -> None:
    rows = Submission.objects.filter(page=form.page, body=form.body, location="")
    try:
        if location:
            rows.update(location=location)
        else:
            rows.delete()  # it was not carried out, so it may be sent again
    except DatabaseError:
        log.exception("could not store that a form was sent")


def _location_after(request: HttpRequest, response: HttpResponse) -> str:
    """Return the page that the form led to, or "" if it was not carried out."""
    if done := str(getattr(response, DONE, "")):
        return done
    location = str(response.headers.get("Location", "")) if response.status_code in (302, 303) else ""
    is_error = any(m.level >= messages.ERROR for m in getattr(messages.get_messages(request), "_queued_messages", ()))
    return "" if is_error or location.split("?")[0] == resolve_url(settings.LOGIN_URL) else location


def _with_draft_sent(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    """Tell the browser that the form with this draft was carried out, so that it deletes the draft."""
    if request.method != "POST" or is_for_programs(request.path):
        return response
    draft = request.POST.get("draft", "")
    if DRAFT.fullmatch(draft) and _location_after(request, response):
        response.set_cookie(
            f"sent-{draft}", "1", max_age=COOKIE_AGE_S, secure=settings.SESSION_COOKIE_SECURE, samesite="Lax"
        )
    return response
