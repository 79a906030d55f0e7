"""The difference between two environments."""

import doctest

import pytest

from groundspeed.service.domain import environments
from groundspeed.service.domain.environments import Facet, difference, explain_upgrade

DRIVER_OLD = Facet("node", "driver", "535.161.08")
DRIVER_NEW = Facet("node", "driver", "570.86.15")
CLOCKS = Facet("node", "clocks_policy", "locked 1980 MHz")
CLOCKS_LOST = Facet("node", "clocks_policy", "default")
PACKAGE = Facet("build", "numpy", "2.1.0")


def test_docstring_examples_hold() -> None:
    assert doctest.testmod(environments).failed == 0


def test_a_changed_driver_is_one_readable_line() -> None:
    assert [str(c) for c in difference([DRIVER_OLD, CLOCKS], [DRIVER_NEW, CLOCKS])] == [
        "node driver: 535.161.08 → 570.86.15"
    ]


def test_facets_that_come_and_go_are_said_in_words() -> None:
    changes = difference([PACKAGE], [DRIVER_NEW])
    assert [str(c) for c in changes] == [
        "node driver: 570.86.15 (was not there)",
        "build numpy: gone (was 2.1.0)",
    ]


def test_an_unread_facet_of_a_second_device_comes_and_goes_with_its_reason() -> None:
    unread = Facet("node", "gpu1.locked_clocks", None, reason="NVML has no call for it")
    (came,), (went,) = difference([], [unread]), difference([unread], [])
    assert str(came) == "node gpu1.locked_clocks: not known, NVML has no call for it (was not there)"
    assert str(went) == "node gpu1.locked_clocks: gone (was not known, NVML has no call for it)"


def test_unknown_equals_nothing_not_even_unknown() -> None:
    unknown = Facet("node", "driver", None, reason="NVML library not found")
    (change,) = difference([unknown], [unknown])
    assert change.kind == "unknown"
    assert "NVML library not found" in str(change)


def test_the_build_and_untracked_facets_are_shown_and_do_not_count() -> None:
    a, b = Facet("node", "uptime", "3 d", tracked=False), Facet("node", "uptime", "1 d", tracked=False)
    built = Facet("build", "numpy", "2.2.0")
    assert len(difference([DRIVER_OLD, PACKAGE, a], [DRIVER_OLD, built, b])) == 2
    assert explain_upgrade([DRIVER_OLD, PACKAGE, a], [DRIVER_OLD, built, b], []) == ((), (), ())


def test_lost_settings_are_told_apart_from_the_wanted_upgrade() -> None:
    kernel = (Facet("node", "kernel", "6.8"), Facet("node", "kernel", "6.11"))
    wanted, lost, other = explain_upgrade(
        [DRIVER_OLD, CLOCKS, kernel[0]], [DRIVER_NEW, CLOCKS_LOST, kernel[1]], ["driver"]
    )
    assert [c.name for c in wanted] == ["driver"]
    assert [c.name for c in lost] == ["clocks_policy"]
    assert [c.name for c in other] == ["kernel"]


@pytest.mark.parametrize("facets", [[], [DRIVER_OLD]])
def test_an_environment_equals_itself_when_everything_is_known(facets: list[Facet]) -> None:
    assert difference(facets, facets) == ()
