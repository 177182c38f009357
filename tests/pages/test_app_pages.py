"""Every page once; Home, Arms and Data in each of their states, without a browser."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from midchart.core import api
from midchart.pages.ui.data import cohort as cohort_view
from tests.support import app_data, patient_cohort
from tests.support.pages import (
    PAGES,
    figures_of,
    frame_with,
    open_page,
    page_text,
)


@pytest.mark.parametrize("page", sorted(path.stem for path in PAGES.glob("[!_]*.py")))
def test_every_page_opens_where_a_run_is_finished(run, page):
    assert "Research use only. Not for clinical decisions." in page_text(open_page(page))


@pytest.mark.parametrize("page", ["home", "arms", "data"])
def test_without_a_cohort_each_page_offers_the_demo(empty, page):
    app = open_page(page)
    text = page_text(app)
    assert "No records yet" in text and str(empty / "data") not in text
    assert "Research use only. Not for clinical decisions." in text
    assert app.button(key="make_demo").label == "Install the demo"
    assert not (empty / "data").exists()


def test_the_demo_is_made_by_its_button(empty, monkeypatch):
    asked = []

    def small(progress):
        asked.append(progress)
        progress(1, 2)
        app_data.make_cohort(empty / "data", "demo")

    monkeypatch.setattr(api, "prepare_first_start", small)
    app = open_page("home")
    app.button(key="make_demo").click().run()
    assert not app.exception
    assert len(asked) == 1
    assert "No finished run yet" in page_text(app)


def links(app: AppTest) -> dict[str, str]:
    """Label → address of the page links of a page."""
    return {link.proto.label: f"{link.proto.page}?{link.proto.query_string}"
            for link in app.get("page_link")}  # fmt: skip


def test_home_concludes_from_the_latest_finished_run_and_lists_what_is_loaded_and_run(run):
    app = open_page("home")
    text = page_text(app)
    assert text.split('class="mc-headline">')[1].startswith("Of 1 fact in the middle of these")
    (figure,) = figures_of(app)
    assert "never reached the model" in figure.alt
    assert any("broken" in w.value or "cannot" in w.value for w in app.warning)
    shown = links(app)
    small = api.open_data("small")
    counts = cohort_view.counts
    assert any(label.startswith(f"**small** {counts(small)} · ") for label in shown)
    assert counts(small).startswith("1 patient · ") or len(small.records) != 1
    assert "**small comparison** done" in " ".join(shown) and "Nothing is running." in text
    filled = [one.label for one in app.button if one.proto.type == "primary"]
    assert filled == ["Open a chart"], "nothing that takes minutes"


def test_home_without_a_run_says_how_to_begin(home):
    app = open_page("home")
    assert "No finished run yet" in page_text(app) and "New run" in links(app)
    arms = open_page("arms")
    assert "No run yet" in page_text(arms)
    assert arms.button(key="start_arms").label.startswith("Compare ")
    assert "No answers to review yet" in page_text(open_page("review"))


@pytest.mark.parametrize(
    ("page", "query", "line"),
    [
        ("runs", {"run": "nosuch"}, "no run named nosuch"),
        ("runs", {"runs": ["nosuch", "other"]}, "no run named nosuch"),
        ("arms", {"run": "*no*"}, "no run for this page named *no*"),
        ("data", {"cohort": "nosuch"}, "no cohort for this page named nosuch"),
        ("review", {"run": "no*"}, "no run with answers to judge named no*: there are 1 of them."),
    ],
)
def test_an_address_of_something_unknown_stops_with_one_line(run, page, query, line):
    app = open_page(page, **query)
    (error,) = app.error
    assert line in error.value.replace("\\", "") and not app.dataframe


@pytest.mark.parametrize("status", ["crashed", "cancelled"])
def test_a_run_that_stopped_can_be_resumed(run, monkeypatch, status):
    now = {**api.status(run), "status": status, "done": 5, "failed": 0, "reason": "it ![x](broke)"}
    resumed = []
    monkeypatch.setattr(api, "status", lambda run=None: [now] if run is None else now)
    monkeypatch.setattr(api, "resume", resumed.append)
    app = open_page("arms")
    assert f"This run is {status}" in page_text(app)
    assert "it \\!\\[x\\]\\(broke\\)" in page_text(app)
    assert f"{now['planned'] - 5} of {now['planned']} items are missing" in page_text(app)
    app.button(key=f"resume_arms_{run}").click().run()
    assert resumed == [run]


def test_data_says_what_may_be_done_and_what_was_skipped(run, finished):
    app = open_page("data")
    text = page_text(app) + "\n".join(str(t.value) for t in app.text)
    assert "unknown: treat as identifiable" in text
    assert "not allowed" in text
    assert "broken cannot be opened" in " ".join(w.title or "" for w in app.warning) or app.warning
    skipped = frame_with(app, "line")
    assert "9002.xml" in skipped["file"][0]
    assert str(finished.folder / "data") not in page_text(app)
    assert app.radio(key="cohort").options == ["small"]
    assert ", 3 questions (" in text
    assert not any(patient_cohort.FIRST in str(e.value) for e in app.get("markdown"))


def test_a_permission_set_outside_the_program_is_confirmed_on_page_data(home):
    cohort, field = home / "data" / "cohorts" / "small", "training_allowed"
    api.set_data_use(cohort, field, False, "the ward's agreement does not allow it")
    file = cohort / "midchart.toml"
    file.write_text(file.read_text().replace(f"{field} = false", f"{field} = true"))
    app = open_page("data")
    (warning,) = [w.value for w in app.warning if field in w.value]
    assert "until a person confirms it" in warning
    assert not api.open_data(cohort).manifest.training_allowed
    box, button = f"allow_{field}_small", "permission_small"
    assert not app.checkbox(key=box).value and app.button(key=button).label == "Confirm"
    app.checkbox(key=box).check().run()
    assert app.button(key=button).disabled  # no reason
    app.text_input(key="permission_reason_small").set_value("too short").run()
    app.text_input(key="permission_reason_small").set_value("  short ").run()
    app.button(key=button).click().run()
    assert "needs a reason" in " ".join(e.value for e in app.error)
    assert not api.open_data(cohort).manifest.training_allowed
    reason = "Ada allowed it by agreement 12"
    app.text_input(key="permission_reason_small").set_value(reason).run()
    app.button(key=button).click().run()
    assert not app.exception and not [w for w in app.warning if field in w.value]
    assert api.open_data(cohort).manifest.training_allowed
    line = api.audit_lines()[-1]
    assert (line["event"], line["after"], line["reason"]) == ("tag", True, reason)
    assert api.verify_audit()["broken"] is None
    # Kept as no: the file says so afterwards.
    api.set_data_use(cohort, field, False, "the ward's agreement has ended")
    file.write_text(file.read_text().replace(f"{field} = false", f"{field} = true"))
    app = open_page("data")
    app.text_input(key="permission_reason_small").set_value("nobody allowed it, by Ada").run()
    app.button(key=button).click().run()
    assert f"{field} = false" in file.read_text() and not api.unconfirmed_permissions(cohort)


@pytest.mark.parametrize("page", ["home", "data"])
def test_where_sign_in_is_set_up_no_page_is_seen_without_it(run, monkeypatch, page):
    secrets = {"redirect_uri": "http://localhost/oauth2callback"}
    monkeypatch.setattr("midchart.extras.server.sign_in.get_secrets_auth_section", lambda: secrets)
    monkeypatch.setattr("midchart.extras.server.sign_in._state", {"required": False})
    app = open_page(page)
    assert [one.label for one in app.button] == ["Copy link", "Sign in"]
    assert "requires sign-in" in page_text(app) and "demo" not in page_text(app)


def test_fhir_resources_are_validated_where_the_box_is_checked(empty):
    folder = empty / "data" / "cohorts" / "fhir"
    folder.mkdir(parents=True)
    patient = '{"resourceType": "Patient", "id": "p1", "birthDate": "SECRET"}'
    (folder / "all.ndjson").write_text(patient, encoding="utf-8")
    app = open_page("data")
    app.checkbox(key="fhir-validate").check().run()
    assert not app.exception and "1 reasons why" in page_text(app)
    (reason,) = frame_with(app, "line")["reason"]
    assert reason == "Patient.birthDate has a value that does not follow R4B"
