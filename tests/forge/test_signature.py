"""Webhook signatures."""

import doctest

import pytest

from groundspeed.service.forge import signature
from groundspeed.service.forge.signature import is_authentic, sign

BODY = b'{"zen": "Design for failure."}'


def test_the_published_example_holds() -> None:
    assert doctest.testmod(signature).failed == 0


def test_either_of_two_secrets_is_good_while_one_is_rotated() -> None:
    assert is_authentic(BODY, sign(BODY, "new"), ["new", "old"])
    assert is_authentic(BODY, sign(BODY, "old"), ["new", "old"])


@pytest.mark.parametrize(
    "header",
    [None, "", "sha256=", "sha256=00", sign(BODY, "s")[:-1], sign(BODY, "s").upper(), "sha1=abc", "sha256=é", "\0"],
)
def test_missing_truncated_and_foreign_signatures_are_refused(header: str | None) -> None:
    assert not is_authentic(BODY, header, ["s"])


def test_a_changed_body_is_refused() -> None:
    assert not is_authentic(BODY + b" ", sign(BODY, "s"), ["s"])


def test_without_a_secret_nothing_is_authentic() -> None:
    assert not is_authentic(BODY, sign(BODY, ""), [])
    assert not is_authentic(BODY, sign(BODY, ""), [""])
