"""Mentions of people in a text: `@` followed by an e-mail address or its local part."""

from __future__ import annotations

import re

from django.db.models import Q

from foundation.operations.errors import Forbidden
from foundation.people.caller import Caller
from foundation.people.permissions import build_caller
from memory_project.models import User

MENTION = re.compile(r"(?<![\w@.])@([\w.+-]{1,64}(?:@[\w-]{1,60}(?:\.[\w-]{1,60}){1,4})?)")
MAX_NAMES = 10  # maximum number of names that are looked up for one text


def people_mentioned(text: str) -> list[tuple[str, Caller]]:
    """Return the e-mail address and Caller of each active user mentioned in a text. Ambiguous names are ignored."""
    names = list(dict.fromkeys(match.rstrip(".").lower() for match in MENTION.findall(text)))[:MAX_NAMES]
    people: list[tuple[str, Caller]] = []
    for name in names:
        rule = Q(email=name) if "@" in name else Q(email__startswith=f"{name}@")
        matches = list(User.objects.filter(rule, is_active=True)[:2])
        if len(matches) != 1:
            continue
        try:
            people.append((matches[0].email, build_caller(matches[0], channel="notice")))
        except Forbidden:
            continue
    return people
