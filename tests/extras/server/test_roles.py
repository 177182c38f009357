"""Roles: who may call which function of the interface, and what its arguments name."""

from __future__ import annotations

from pathlib import Path

import pytest

from midchart.core import api
from midchart.core.access import guarded, needs, role_needed
from midchart.core.errors import NotPermitted
from midchart.core.identity import ROLES, Person, acting_as, person, resolve
from midchart.extras.server.arguments import kinds_of

TABLE = Path(__file__).with_name("interface.txt")
"""Role, function, and its arguments that name an object. A changed line is a changed permission."""


def names_of_functions() -> list[str]:
    """The functions of the interface that check who calls them."""
    return sorted(
        name for name in dir(api) if "needed_role" in getattr(getattr(api, name), "__dict__", {})
    )


def line_of(name: str) -> str:
    function = getattr(api, name)
    named = [f"{one}={kind.value}" for one, kind in kinds_of(function).items() if kind]
    return " | ".join([role_needed(function), name, *named])


def test_the_table_of_role_function_and_argument_is_the_stated_one():
    assert [line_of(name) for name in names_of_functions()] == TABLE.read_text().splitlines()


def test_every_function_that_checks_states_its_role():
    checked = [name for names in api.FUNCTIONS.values() for name in names.split()]
    assert sorted(name.partition("=")[0] for name in checked) == names_of_functions()


@pytest.mark.parametrize("role", ROLES)
def test_a_role_may_call_its_functions_and_those_before_it_alone(role):
    """Refused before a function looks at its arguments: none is given here."""
    with acting_as(Person("x@ward.org", role)):
        for name in names_of_functions():
            needed = role_needed(getattr(api, name))
            allowed = ROLES.index(needed) <= ROLES.index(role)
            assert api.may(getattr(api, name)) is allowed
            if not allowed:
                with pytest.raises(NotPermitted, match=f"needs the role {needed}"):
                    getattr(api, name)()


def test_where_nobody_is_signed_in_nothing_may_be_called():
    before = person()
    resolve(lambda: None)
    try:
        for name in names_of_functions():
            with pytest.raises(NotPermitted, match="nobody is signed in"):
                getattr(api, name)()
    finally:
        resolve(lambda: before)


def test_a_function_that_states_no_role_is_for_the_account_alone():
    def later_version() -> int:
        return 7

    assert guarded(later_version)() == 7
    assert role_needed(later_version) == "owner"
    for role in ROLES:
        with acting_as(Person("x@ward.org", role)), pytest.raises(NotPermitted):
            guarded(later_version)()


def test_a_path_that_is_not_typed_by_what_it_names_is_refused():
    @guarded
    @needs("viewer")
    def read(file: str | Path, lines: int = 0, note: str = "") -> str:
        return f"{file}{lines}{note}"

    with acting_as(Person("x@ward.org", "owner")):
        for value in ("/etc/passwd", Path("x"), "ward"):
            with pytest.raises(NotPermitted, match="that this installation knows"):
                read(value)
        with pytest.raises(NotPermitted):
            read(None, 1, Path("x"))
        assert read(None, 1, "a note") == "None1a note"
