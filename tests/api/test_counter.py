"""Questions that wait are answered together, and one that fails spoils no other."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest

import aside
from groundspeed.service.api.counter import Counter


def test_what_waits_while_one_is_answered_is_answered_together() -> None:
    sizes: list[int] = []
    begun, go = threading.Event(), threading.Event()

    def answer(questions: Sequence[int]) -> Sequence[int | Exception]:
        sizes.append(len(questions))
        begun.set()
        go.wait(60)
        return [2 * one for one in questions]

    async def ask() -> list[int]:
        counter = Counter("doubles", answer, lambda *_: None)
        first = asyncio.create_task(counter.ask(1))
        assert await asyncio.to_thread(begun.wait, 60)
        rest = [asyncio.create_task(counter.ask(i)) for i in range(2, 10)]
        await asyncio.sleep(0)
        go.set()
        found = list(await asyncio.gather(first, *rest))
        counter.close()
        return found

    assert aside.run(ask()) == [2 * i for i in range(1, 10)]
    assert sizes == [1, 8]


def test_each_gets_its_own_error_and_the_others_their_answers() -> None:
    def answer(questions: Sequence[int]) -> Sequence[int | Exception]:
        if 3 in questions:
            raise ValueError("three")
        return [KeyError(one) if one == 5 else one for one in questions]

    async def ask() -> list[object]:
        counter = Counter("odd", answer, gather_s=0.05)
        found = await asyncio.gather(*(counter.ask(i) for i in range(1, 7)), return_exceptions=True)
        counter.close()
        assert await counter.ask(7) == 7, "one that was closed opens again for whoever still asks"
        counter.close()
        return list(found)

    found = aside.run(ask())
    assert [found[i] for i in (0, 1, 3, 5)] == [1, 2, 4, 6]
    with pytest.raises(ValueError, match="three"):
        raise found[2]  # type: ignore[misc]
    assert isinstance(found[4], KeyError)
