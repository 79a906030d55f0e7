"""A counter at which questions of one kind are answered together: while some are being answered, others gather.

A hundred nodes that ask at once cost a handful of statements and one commit, one that asks alone is answered at once.
Nothing is kept here: an answer is given after the commit of what it says.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

Question = TypeVar("Question")
Answer = TypeVar("Answer")
log = logging.getLogger(__name__)
_MOST = 256

Answered = Callable[[str, int, float], None]
"""Told of every batch: the counter's name, how many questions, and processor time in seconds."""


class Counter(Generic[Question, Answer]):
    """One thread that answers all questions that wait. It starts with the first and ends with :meth:`close`.

    ``answer`` gives the answers in the order of the questions; one that is an exception is raised where it was asked.
    When ``answer`` itself raises, each question is tried by itself. ``gather_s``: how long the first of a batch waits
    for others to come.
    """

    def __init__(
        self,
        name: str,
        answer: Callable[[Sequence[Question]], Sequence[Answer | Exception]],
        noted: Answered = lambda *_: None,
        gather_s: float = 0.0,
    ) -> None:
        self._name = name
        self._answer = answer
        self._noted = noted
        self._gather_s = gather_s
        self._waiting: SimpleQueue[tuple[Question, asyncio.Future[Answer]] | None] = SimpleQueue()
        self._guard = threading.Lock()
        self._thread: threading.Thread | None = None

    async def ask(self, question: Question) -> Answer:
        """The answer, once it is committed; raises what answering raised."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.put((question, future))
        if self._thread is None:
            self._start()
        return await future

    def close(self) -> None:
        """Answer what waits, then end the thread."""
        with self._guard:
            thread, self._thread = self._thread, None
        if thread is not None:
            self._waiting.put(None)
            thread.join(timeout=10.0)

    def _start(self) -> None:
        with self._guard:
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name=f"counter {self._name}", daemon=True)
                self._thread.start()

    def _serve(self) -> None:
        more = True
        while more:
            batch, more = self._next()
            if not batch:
                continue
            begin = time.thread_time()
            answers = self._answers([question for question, _ in batch])
            self._noted(self._name, len(batch), time.thread_time() - begin)
            _hand_over([(future, found) for (_, future), found in zip(batch, answers, strict=True)])

    def _next(self) -> tuple[list[tuple[Question, asyncio.Future[Answer]]], bool]:
        """All that wait, and whether more may come."""
        batch = []
        one = self._waiting.get()
        if self._gather_s and one is not None:
            time.sleep(self._gather_s)
        while one is not None:
            batch.append(one)
            if len(batch) == _MOST:
                return batch, True
            try:
                one = self._waiting.get_nowait()
            except Empty:
                return batch, True
        return batch, False

    def _answers(self, questions: Sequence[Question]) -> Sequence[Answer | Exception]:
        try:
            return self._answer(questions)
        except Exception as error:  # noqa: BLE001 - raised again where it was asked
            if len(questions) == 1:
                return [error]
            log.info("%s of %d is answered one by one: %s", self._name, len(questions), error)
            return [self._answers([one])[0] for one in questions]


def _hand_over(answers: Sequence[tuple[asyncio.Future[Any], Any]]) -> None:
    """Wake those that asked, once for each event loop."""
    loops: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Any]]] = {}
    for future, found in answers:
        loops.setdefault(future.get_loop(), []).append((future, found))
    for loop, ours in loops.items():
        if not loop.is_closed():
            loop.call_soon_threadsafe(_settle, ours)


def _settle(answers: Sequence[tuple[asyncio.Future[Any], Any]]) -> None:
    for future, found in answers:
        if future.done():  # whoever asked has gone
            continue
        if isinstance(found, Exception):
            future.set_exception(found)
        else:
            future.set_result(found)
