"""Sign-in with a real OpenID Connect provider: who may do what, under which name, and who not."""

from __future__ import annotations

import http.client
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from midchart.core import api
from midchart.core.storage.jsonl import read_lines
from midchart.pages.ui.server import HEADERS
from tests.browser.conftest import PATIENCE_S, browser, serve  # noqa: F401 (a fixture)
from tests.extras.server.oidc_provider import provider, secrets_toml
from tests.support import app_data
from tests.support.run_helpers import workspace_at

pytestmark = pytest.mark.browser
ROLES = {
    "vera@ward.org": "viewer",
    "ruth@ward.org": "reviewer",
    "ruben@ward.org": "reviewer",
    "rita@ward.org": "researcher",
    "rolf@ward.org": "researcher",
    "olga@ward.org": "owner",
}
PEOPLE = {name: {"email": name, "email_verified": True} for name in [*ROLES, "sam@else.org"]}
PEOPLE["Olga's address, not verified"] = {"email": "olga@ward.org", "email_verified": False}
PEOPLE["Olga in capitals"] = {"email": "Olga@Ward.org", "email_verified": True}
PEOPLE["who has Olga's address as subject"] = {"sub": "olga@ward.org"}
PEOPLE["Sven, by his subject"] = {"email": "olga@ward.org", "sub": "s-7"}


@dataclass
class Site:
    """A running app with sign-in: address, data folder, a finished run and the secrets file."""

    url: str
    data: Path
    run: str
    secrets: Path

    def audited(self, event: str) -> list[dict]:
        return [line for line in read_lines(self.data / "audit.jsonl") if line["event"] == event]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Iterator[Site]:
    home = tmp_path_factory.mktemp("sign_in")
    with workspace_at(home):
        api.prepare_demo(patients=3, events_per_patient=80)
        run = app_data.make_run(home / "data" / "cohorts" / "demo")
    with provider(PEOPLE) as people:
        secrets = home / "secrets.toml"
        secrets.write_text(secrets_toml(people, {**ROLES, f"{people.url} s-7": "viewer"}))
        with serve(home, "--secrets.files", str(secrets)) as server:
            yield Site(server.url, home / "data", run, secrets)


@pytest.fixture(scope="module")
def signed_in(site, browser: Browser) -> Iterator:  # noqa: F811
    """Person → a page of that person's browser, signed in once."""
    pages: dict[str, Page] = {}

    def page_of(person: str) -> Page:
        if person not in pages:
            context = browser.new_context(viewport={"width": 1360, "height": 900})
            context.set_default_timeout(1000 * PATIENCE_S)
            pages[person] = context.new_page()
            sign_in(site, pages[person], person)
        return pages[person]

    yield page_of
    for page in pages.values():
        page.context.close()


def sign_in(site: Site, page: Page, person: str) -> None:
    page.goto(site.url)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("link", name=person, exact=True).click()
    page.get_by_role("button", name="Sign out").wait_for()


def cookies_of(context: BrowserContext) -> str:
    return "; ".join(f"{one['name']}={one['value']}" for one in context.cookies())


def answer_to(site: Site, path: str, cookies: str = "", **headers: str):
    """Status and headers of the answer to a request by hand; no redirect is followed."""
    connection = http.client.HTTPConnection(urlsplit(site.url).netloc, timeout=60)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request("GET", path, headers=({"Cookie": cookies} if cookies else {}) | named)
    answer = connection.getresponse()
    connection.close()
    return answer


def status_of(site: Site, path: str, cookies: str = "", **headers: str) -> int:
    return answer_to(site, path, cookies, **headers).status


def runs_of(site: Site) -> set[str]:
    return {path.name for path in (site.data / "runs").glob("2*")}


@pytest.mark.parametrize(
    "person", ["sam@else.org", "Olga's address, not verified", "who has Olga's address as subject"]
)
def test_a_person_without_a_role_sees_nothing(site, signed_in, person):
    page = signed_in(person)
    for path in ("/", "/patient", f"/runs?run={site.run}"):
        page.goto(site.url + path)
        expect(page.get_by_text("has no role in this installation")).to_be_visible()
        assert "demo" not in page.inner_text("body")
    assert status_of(site, "/_stcore/metrics", cookies_of(page.context)) == 403


def test_an_email_is_compared_without_regard_to_case(signed_in):
    page = signed_in("Olga in capitals")
    expect(page.get_by_text("Signed in as olga@ward.org, owner")).to_be_visible()


def test_a_role_by_issuer_and_subject_counts_whatever_the_unverified_email_says(signed_in):
    page = signed_in("Sven, by his subject")
    expect(
        page.get_by_text(re.compile("Signed in as http://127.0.0.1:.* s-7, viewer"))
    ).to_be_visible()


def test_a_viewer_reads_and_changes_nothing(site, signed_in):
    before = runs_of(site)
    page = signed_in("vera@ward.org")
    page.goto(f"{site.url}/arms?run={site.run}")
    page.get_by_role("tab", name="Table").click()
    expect(page.get_by_test_id("stDataFrame").first).to_be_visible()
    page.goto(f"{site.url}/runs?view=New+run")
    expect(page.get_by_role("button", name="Start run")).to_be_disabled()
    expect(page.get_by_text("needs the role researcher; your role is viewer")).to_be_visible()
    page.goto(f"{site.url}/review?run={site.run}")
    expect(page.get_by_text("needs the role reviewer; your role is viewer")).to_be_visible()
    page.goto(f"{site.url}/data")
    expect(page.get_by_text("needs the role owner; your role is viewer")).to_be_visible()
    expect(page.get_by_text("Import a cohort")).to_have_count(0)
    assert runs_of(site) == before


def test_a_reviewer_judges_under_a_code_that_nobody_else_can_take(site, signed_in):
    for person, code in (("ruth@ward.org", "r1"), ("ruben@ward.org", "r2")):
        page = signed_in(person)
        page.goto(f"{site.url}/review?run={site.run}")
        code_field = page.get_by_role("textbox", name="Your code as a reviewer")
        if code == "r2":
            code_field.fill("r1")
            code_field.press("Enter")
            expect(page.get_by_text("'r1' belongs to another person")).to_be_visible()
        code_field.fill(code)
        code_field.press("Enter")
        page.get_by_role("button", name=re.compile("^Correct")).click()
        expect(page.get_by_text(re.compile(r"^1 of "))).to_be_visible()
    judged = [(line["who"], line["reviewer"], line["run"]) for line in site.audited("judged")]
    assert judged == [("ruth@ward.org", "r1", site.run), ("ruben@ward.org", "r2", site.run)]


def test_a_researcher_starts_a_run_and_exports_it(site, signed_in):
    before = runs_of(site)
    page = signed_in("rita@ward.org")
    page.goto(f"{site.url}/runs?view=New+run")
    page.get_by_text("Advanced").click()
    questions = page.get_by_role("spinbutton", name="Number of questions")
    questions.fill("1")
    questions.press("Enter")
    expect(page.get_by_text("1 question of 1 patient")).to_be_visible()
    page.get_by_role("button", name="Start run").click()
    expect(page.get_by_text(re.compile("on demo is done"))).to_be_visible()
    (run,) = runs_of(site) - before
    assert [(line["who"], line["run"]) for line in site.audited("started")][-1] == (
        "rita@ward.org",
        run,
    )
    with page.expect_download() as download:
        page.get_by_role("button", name="Export").click()
    assert site.audited("exported")[-1]["who"] == "rita@ward.org"
    noted = read_lines(site.data / "runs" / run / "people.jsonl")
    assert [(line["action"], line["who"]) for line in noted] == [
        ("started", "rita@ward.org"),
        ("exported", "rita@ward.org"),
    ]
    assert download.value.suggested_filename.endswith(".zip")


def test_a_researcher_names_what_the_installation_knows(site, signed_in):
    before = runs_of(site)
    page = signed_in("rita@ward.org")
    page.goto(f"{site.url}/runs?view=New+run")
    page.get_by_text("Advanced").click()
    page.get_by_text("Edit as TOML").click()
    toml = page.get_by_role("textbox", name=re.compile("^The spec, as TOML"))
    toml.fill(f'kind = "selection"\ndata = "{site.data.parent}"\narms = ["bm25"]\n')
    toml.press("Control+Enter")
    expect(page.get_by_text("that this installation knows, by its name")).to_be_visible()
    assert str(site.data.parent) not in page.get_by_role("alert").first.inner_text()
    expect(page.get_by_role("button", name="Start run")).to_have_count(0)
    assert runs_of(site) == before


def test_a_person_removed_from_the_roles_is_refused_from_then_on(site, signed_in):
    before = runs_of(site)
    page = signed_in("rolf@ward.org")
    page.goto(f"{site.url}/runs?view=New+run")
    expect(page.get_by_role("button", name="Start run")).to_be_enabled()
    text = site.secrets.read_text()
    site.secrets.write_text(text.replace('"rolf@ward.org" = "researcher"\n', ""))
    try:
        refused, end = page.get_by_text("has no role in this installation"), time.monotonic()
        while not refused.is_visible():
            assert time.monotonic() < end + PATIENCE_S, "the change of the roles was not read"
            page.reload()
            page.wait_for_timeout(1000)
    finally:
        site.secrets.write_text(text)
    assert runs_of(site) == before


def test_sign_out_ends_the_sign_in_for_a_copy_of_its_cookie_too(site, browser):  # noqa: F811
    context = browser.new_context()
    context.set_default_timeout(1000 * PATIENCE_S)
    page = context.new_page()
    sign_in(site, page, "olga@ward.org")
    copied = context.cookies()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_text("This installation requires sign-in")).to_be_visible()
    page.wait_for_url(lambda address: "/auth/" not in address)
    until = time.monotonic() + PATIENCE_S
    while any(one["name"].startswith("_streamlit_user") for one in context.cookies()):
        assert time.monotonic() < until, "the cookie stays"
        page.wait_for_timeout(100)
    context.close()
    thief = browser.new_context()  # its own, since the page that signs out navigates to its end
    thief.set_default_timeout(1000 * PATIENCE_S)
    thief.add_cookies(copied)
    page = thief.new_page()
    page.goto(f"{site.url}/patient")
    expect(page.get_by_text("This installation requires sign-in")).to_be_visible()
    thief.close()


@pytest.mark.parametrize("path", ["/", "/auth/login", "/auth/logout", "/oauth2callback?state=x",
                                  "/media/none", "/_stcore/upload_file/a/b"])  # fmt: skip
def test_every_answer_has_the_security_headers(site, path):
    answer = answer_to(site, path)
    assert {name: answer.headers[name] for name in HEADERS} == dict(HEADERS)


def test_the_websocket_is_opened_to_the_own_host_and_origin_alone(site, signed_in):
    address = urlsplit(site.url).netloc
    cookies = cookies_of(signed_in("vera@ward.org").context)
    shake = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec_WebSocket_Version": "13",
        "Sec_WebSocket_Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }

    def opened(host: str, origin: str) -> int:
        return status_of(
            site, "/_stcore/stream", cookies, **shake, Host=host, Origin=f"http://{origin}"
        )

    assert opened(address, address) == 101
    assert opened(address, "evil.example") == 403
    assert opened(address, "127.0.0.1:1") == 403
    assert opened(address, "127.0.0.1") == 403
    assert opened(address, address.replace("127.0.0.1", "localhost")) == 403
    port = address.rsplit(":", 1)[1]
    assert opened(f"evil.example:{port}", f"evil.example:{port}") == 403
