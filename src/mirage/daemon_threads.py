"""Work in daemon threads, which never outlive the process, even if they hang."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def answer_of(work: Callable[[], T]) -> Future[T]:
    """Runs work in this thread.

    Args:
        work: Returns the answer; an ``Exception`` becomes that of the future.
    """
    answer: Future[T] = Future()
    try:
        answer.set_result(work())
    except Exception as error:
        answer.set_exception(error)
    return answer


def answer_in_thread(work: Callable[[], T], name: str) -> Future[T]:
    """Starts work in a daemon thread.

    Args:
        work: Returns the answer; what it raises becomes the exception of the future.
        name: Name of the thread.
    """
    answer: Future[T] = Future()

    def run() -> None:
        try:
            answer.set_result(work())
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return answer
