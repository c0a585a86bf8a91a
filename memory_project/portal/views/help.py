"""The page with the help about a topic."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from memory_project.portal import help_topics


@login_required
def help_page(request: HttpRequest, topic: str) -> HttpResponse:
    if topic not in help_topics.TOPICS:
        raise Http404
    context = {"topic": topic, "text": help_topics.text(topic), "topics": help_topics.topics()}
    return render(request, "portal/help.html", context)
