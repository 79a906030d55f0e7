"""A benchmark that went and one that came in its place, and what must not be taken for it."""

from __future__ import annotations

from typing import Any

from groundspeed.service.domain.renames import Line, renames

_next = iter(range(1, 10_000))


def line(name: str, level: float = 1.0, metric: str = "time", suite: str = "asv", **params: Any) -> Line:
    values = [level, level * 1.002, level * 0.999]
    return Line(next(_next), suite, metric, "s", -1, 1, {"benchmark": name, **params}, values)


def names(gone: list[Line], come: list[Line]) -> list[tuple[str, str]]:
    return [(one.old, one.new) for one in renames(gone, come)]


def test_the_same_numbers_under_another_name_are_a_rename() -> None:
    gone = [line("sort.time_small", 1.0, n=8), line("sort.time_small", 2.0, n=16)]
    come = [line("sort.time_few", 1.01, n=8), line("sort.time_few", 2.0, n=16)]
    (found,) = renames(gone, come)
    assert (found.old, found.new) == ("sort.time_small", "sort.time_few")
    assert [(a, b) for a, b, _ in found.pairs] == [(o.id, n.id) for o, n in zip(gone, come, strict=True)]
    assert names([line("b", suite="train")], [line("b", suite="training")]) == [("train", "training")]


def test_other_numbers_meanings_or_parameters_are_none() -> None:
    assert names([line("a")], [line("b", 1.2)]) == []
    assert names([line("a")], [line("b", metric="rate")]) == []
    assert names([line("a", n=8)], [line("b", n=16)]) == []
    assert names([line("a")], [line("b", n=8)]) == []
    assert names([line("a", suite="x")], [line("b", suite="y")]) == [], "two names at once are another benchmark"
    assert names([line("a", n=8)], [line("a", n=16)]) == [], "a parameter that is a number is no name"


def test_of_many_with_the_same_numbers_only_a_clear_likeness_decides() -> None:
    gone = [line("sort.time_small"), line("hash.time_small")]
    come = [line("sort.time_small_list"), line("hash.time_small_list")]
    assert names(gone, come) == [
        ("sort.time_small", "sort.time_small_list"),
        ("hash.time_small", "hash.time_small_list"),
    ]
    assert names([line("a.x")], [line("b.y"), line("c.z")]) == []
    assert names([line("a.x1"), line("a.x2")], [line("a.x3")]) == [], "two cannot become one"


def test_most_of_its_series_must_go_on() -> None:
    gone = [line("a", float(n), n=n) for n in range(1, 6)]
    assert names(gone, [line("b", float(n), n=n) for n in range(1, 5)]) == [("a", "b")]
    assert names(gone, [line("b", float(n), n=n) for n in range(1, 4)]) == []
