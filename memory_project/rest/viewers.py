"""Swagger UI and Redoc: the OpenAPI document as pages, from packaged files."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from memory_project.web.middleware import POLICY

# Redoc adds its styles as elements, and searches in a worker that it creates from a blob.
REDOC_POLICY = f"{POLICY}; style-src 'self' 'unsafe-inline'; worker-src blob:"


@require_safe
@login_required
def swagger(request: HttpRequest) -> HttpResponse:
    return render(request, "rest/swagger.html")


@require_safe
@login_required
def redoc(request: HttpRequest) -> HttpResponse:
    response = render(request, "rest/redoc.html")
    response.headers["Content-Security-Policy"] = REDOC_POLICY
    return response
