"""Single sign-on with a real issuer, `oidc-provider` from npm, in a real browser."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from tests.e2e.processes import ROOT, command, environment, folder_and_port, up
from tests.http_servers import free_port

ADMIN, PERSON = "maya@fernhill.example", "nora@fernhill.example"
GROUPS = """
from memory_project.models import CompanyGroup, User
from memories.models import Persona
group = CompanyGroup.objects.create(name="analysts", is_curator=True)
group.personas.set([Persona.objects.order_by("name").first()])
"""


@pytest.fixture(scope="module")
def node_modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder in which `oidc-provider` is installed: OIDC_PROVIDER, or a temporary one."""
    if not shutil.which("npm"):
        pytest.skip("NO NPM, so no real issuer was tried")
    folder = Path(os.environ.get("OIDC_PROVIDER", "") or tmp_path_factory.mktemp("issuer"))
    if not (folder / "node_modules" / "oidc-provider").exists():
        done = subprocess.run(
            ["npm", "install", "--no-audit", "oidc-provider"], cwd=folder, capture_output=True, text=True
        )
        if done.returncode:
            pytest.skip(f"NPM CANNOT INSTALL oidc-provider, so no real issuer was tried: {done.stderr[-300:]}")
    return folder


def wait_for(address: str) -> None:
    """Wait until the installation answers; on a busy machine it takes longer than `up` waits."""
    for _ in range(360):
        try:
            with urlopen(address, timeout=5):
                return
        except OSError:
            time.sleep(0.5)
    raise TimeoutError(address)


class Setup:
    """The address of Commonplace, and the people whom the issuer knows."""

    def __init__(self, site: str, issuer: str, claims: Path) -> None:
        self.site, self.issuer, self.claims = site, issuer, claims

    def people(self, **people: Any) -> None:
        self.claims.write_text(json.dumps(people))


@pytest.fixture(scope="module")
def setup(node_modules: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setup]:
    claims = tmp_path_factory.mktemp("claims") / "claims.json"
    claims.write_text("{}")
    script = node_modules / "issuer.mjs"
    script.write_text((ROOT / "tests/interop/oidc_provider.mjs").read_text())
    with folder_and_port() as (home, port), pytest.MonkeyPatch.context() as patch:
        site, issuer_port = f"http://localhost:{port}", free_port()
        issuer = f"http://localhost:{issuer_port}"
        arguments = [str(issuer_port), str(claims), f"{site}/sign-in/company/callback/", f"{site}/sign-in/"]
        provider = subprocess.Popen(
            ["node", script.name, *arguments], cwd=node_modules, stdout=subprocess.PIPE, text=True
        )
        assert provider.stdout
        assert "ready" in provider.stdout.readline()
        for name, value in {
            "SSO_ISSUER": issuer, "SSO_CLIENT_ID": "commonplace", "SSO_CLIENT_SECRET": "hush", "SSO_NAME": "Fernhill",
            "SSO_SCOPES": "openid,email,profile,groups", "SSO_CREATE_ACCOUNTS": "true", "COMMONPLACE_URL": site,
        }.items():  # fmt: skip
            patch.setenv(name, value)
        try:
            with up(home, port) as process:
                wait_for(f"{site}/healthz")
                assert process.poll() is None, (home / "up.log").read_text()
                subprocess.run(command("shell", "-c", GROUPS), env=environment(home, port), cwd=ROOT, check=True)
                yield Setup(site, issuer, claims)
        finally:
            provider.terminate()
            provider.wait(10)
            provider.stdout.close()


def sign_in(setup: Setup, page: Any, person: str) -> None:
    page.goto(f"{setup.site}/sign-in/")
    page.get_by_role("link", name="Continue with Fernhill").click()
    page.locator('input[name="login"]').fill(person)
    page.locator('input[name="password"]').fill("anything")
    page.get_by_role("button", name="Sign-in").click()
    page.get_by_role("button", name="Continue").click()  # the issuer's consent page


def test_a_person_signs_in_loses_the_group_and_signs_out_at_both(setup: Setup, chromium: Any) -> None:
    nora = {"email": PERSON, "email_verified": True, "name": "Nora New", "groups": ["analysts", "golfers"]}
    setup.people(nora=nora)
    context = chromium.new_context()
    page = context.new_page()
    sign_in(setup, page, "nora")
    page.wait_for_url(f"{setup.site}/")
    page.goto(f"{setup.site}/account/")
    assert PERSON in page.content()
    assert "Review and apply" in page.content()

    page.evaluate("document.querySelector('form[action=\"/sign-out/\"]').submit()")
    page.wait_for_url(f"{setup.issuer}/session/end**")
    page.get_by_role("button", name="Yes, sign me out").click()
    page.wait_for_url(f"{setup.site}/sign-in/**")
    page.get_by_role("link", name="Continue with Fernhill").click()
    page.wait_for_selector('input[name="login"]')  # the issuer asks again, so its session has ended, too

    setup.people(nora={**nora, "groups": ["golfers"]})
    other = chromium.new_context().new_page()
    sign_in(setup, other, "nora")
    assert "your account is disabled" in other.content()
    setup.people(nora=nora)
    sign_in(setup, chromium.new_context().new_page(), "nora")


def test_an_address_that_is_not_verified_gets_no_account_of_an_admin(setup: Setup, chromium: Any) -> None:
    setup.people(thief={"email": ADMIN, "email_verified": False, "groups": ["analysts"]})
    page = chromium.new_context().new_page()
    sign_in(setup, page, "thief")
    assert "has not verified" in page.content()
    page.goto(f"{setup.site}/account/")
    assert "/sign-in/" in page.url


def test_the_issuer_publishes_what_is_used(setup: Setup) -> None:
    with urlopen(f"{setup.issuer}/.well-known/openid-configuration") as response:
        assert {"end_session_endpoint", "jwks_uri", "userinfo_endpoint"} <= set(json.load(response))
