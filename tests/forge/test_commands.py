"""Commands in comments."""

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundspeed.service.domain.pulls import commands
from groundspeed.service.domain.pulls.commands import VERBS, Command, Misunderstood, read_command


def test_docstring_examples_hold() -> None:
    assert doctest.testmod(commands).failed == 0


@pytest.mark.parametrize(
    ("body", "command"),
    [
        ("/groundspeed", Command("help")),
        ("/groundspeed RUN", Command("run")),
        ("  /groundspeed run train  ", Command("run", suite="train")),
        ("/groundspeed run against main on pool-1", Command("run", pool="pool-1", against="main")),
        ('/groundspeed accept "new sampler" does more', Command("accept", reason="new sampler does more")),
        ("thanks!\n\n/groundspeed cancel\nbye", Command("cancel")),
    ],
)
def test_what_is_written_is_understood(body: str, command: Command) -> None:
    assert read_command(body) == command


@pytest.mark.parametrize(
    "body", ["", "run", "see /groundspeed run", "> /groundspeed run", "```\n/groundspeed run\n```", "/groundspeedy run"]
)
def test_quoted_fenced_and_embedded_commands_do_not_count(body: str) -> None:
    assert read_command(body) is None


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("/groundspeed rnu", "Did you mean `run`"),
        ("/groundspeed accept", "Say why"),
        ("/groundspeed cancel now", "takes nothing"),
        ("/groundspeed run on", "needs a name"),
        ("/groundspeed run a b", "Two values"),
        ("/groundspeed run --help", "letters, digits"),
        ("/groundspeed run 'x", "quotation mark"),
        ("/groundspeed run $(reboot)", "letters, digits"),
    ],
)
def test_mistakes_are_answered_in_words(body: str, says: str) -> None:
    answer = read_command(body)
    assert isinstance(answer, Misunderstood)
    assert says in answer.answer


@given(st.text(max_size=300))
def test_any_text_is_either_no_command_or_a_command_or_an_answer(text: str) -> None:
    answer = read_command("/groundspeed " + text)
    assert isinstance(answer, Misunderstood) or answer is None or answer.verb in VERBS


def test_the_answer_never_repeats_what_a_stranger_wrote() -> None:
    answer = read_command("/groundspeed @everyone<script>")
    assert isinstance(answer, Misunderstood)
    assert "everyone" not in answer.answer
