"""Work in daemon threads: its answer, its exception, and its end."""

from __future__ import annotations

import threading

import pytest

from mirage.daemon_threads import answer_in_thread, answer_of


class Ended(BaseException):
    pass


def failing(error: BaseException) -> int:
    raise error


def test_the_answer_comes_from_a_thread_that_does_not_outlive_the_process() -> None:
    thread = answer_in_thread(threading.current_thread, "reader").result(10)
    assert (thread.name, thread.daemon) == ("reader", True)
    assert answer_of(threading.current_thread).result(0) is threading.current_thread()


@pytest.mark.parametrize("error", [OSError(5, "gone"), Ended()])
def test_what_the_work_raises_is_the_exception_of_the_future(error: BaseException) -> None:
    assert answer_in_thread(lambda: failing(error), "reader").exception(10) is error


def test_in_this_thread_only_an_error_becomes_the_exception_of_the_future() -> None:
    error = OSError(5, "gone")
    assert answer_of(lambda: failing(error)).exception(0) is error
    with pytest.raises(Ended):
        answer_of(lambda: failing(Ended()))
