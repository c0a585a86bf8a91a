"""The examples of docs/rest.md, in their order."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from typing import Any

import pytest
from django.test import Client

from foundation.people.caller import system_caller
from memory_project.accounts.tokens import create_token
from memory_project.models import User
from tests.docs_tables import ROOT

pytestmark = pytest.mark.django_db
BLOCKS = re.compile(r"^```(bash|http)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
VARIABLE = re.compile(r"\$(\w+)")


def test_the_examples_answer_as_shown(alice_user: User) -> None:
    variables = {"TOKEN": create_token(system_caller(), user=alice_user, name="t")[1], "URL": "/api/v1"}
    blocks = BLOCKS.findall((ROOT / "docs" / "rest.md").read_text())
    assert [kind for kind, _ in blocks] == ["bash", "http"] * (len(blocks) // 2)
    for (_, command), (_, shown) in zip(blocks[::2], blocks[1::2], strict=True):
        response = perform(VARIABLE.sub(lambda match: quoted(variables[match[1]]), command))
        compare(shown, response)
        variables["ETAG"] = response.headers.get("ETag", "")
        memory = response.json().get("memory")
        variables["ID"] = memory["id"] if isinstance(memory, dict) else variables.get("ID", "")


def quoted(value: str) -> str:
    return value.replace('"', '\\"')  # the examples use variables inside of double quotes


def perform(command: str) -> Any:
    words = iter(shlex.split(command.replace("\\\n", "")))
    assert next(words) == "curl"
    method, body, url, headers = "", None, "", {}
    for word in words:
        if word == "-H":
            name, _, value = next(words).partition(": ")
            headers[name.lower()] = value
        elif word == "-d":
            body = next(words)
        elif word == "-X":
            method = next(words)
        elif word != "-i":
            url = word
    content_type = headers.pop("content-type", "application/octet-stream")
    method = method or ("GET" if body is None else "POST")
    return Client(headers=headers).generic(method, url, body or "", content_type)


def compare(shown: str, response: Any) -> None:
    head, _, body = shown.partition("\n\n")
    status, *headers = head.splitlines()
    assert status.strip() == f"HTTP/1.1 {response.status_code} {response.reason_phrase}", response.content
    for name, value in (line.split(": ", 1) for line in headers):
        assert matches(value, response.headers[name]), name
    if body:
        assert contains(json.loads(body), response.json()), response.content


def contains(shown: Any, value: Any) -> bool:
    if isinstance(shown, Mapping):
        return all(name in value and contains(part, value[name]) for name, part in shown.items())
    if isinstance(shown, list):
        return len(shown) == len(value) and all(map(contains, shown, value))
    return matches(shown, value) if isinstance(shown, str) else bool(shown == value)


def matches(shown: str, value: str) -> bool:
    return re.fullmatch(re.escape(shown).replace("…", ".+"), value, re.DOTALL) is not None
