"""Work that is told of and answered through a folder: what is kept, what is given up, and what is cleared away."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from mirage.errors import ConfigurationError, SlurmError
from mirage.executors.answers import GONE_S, PATIENCE_S, Answers, answer_part


class World:
    """A clock on which waiting costs nothing; what a test wants done in the meantime is done at each wait."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.meanwhile: list[object] = []

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        if self.meanwhile:
            self.meanwhile.pop(0)()

    def asked(self, around: Path, begin, made_of, pieces) -> Answers:
        return Answers.asked(around, begin, made_of, pieces, self.sleep, lambda: self.now_s)


@pytest.fixture
def world() -> World:
    return World()


def noting(path: str):
    """What is done: a line for every beginning and every piece."""

    def note(word: object) -> None:
        with Path(path).open("a") as file:
            file.write(f"{word} ")

    note("begun")

    def work(piece: int) -> int:
        if piece < 0:
            raise ValueError(piece)
        note(piece)
        return 10 * piece

    return work


def noted(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def going(answers: Answers, minutes: float) -> None:
    """Whoever waits gave the last sign so many minutes ago."""
    sign = answers.folder / "waited-for"
    ago_s = sign.stat().st_mtime - 60 * minutes
    os.utime(sign, (ago_s, ago_s))


def test_results_come_as_they_are_answered(world: World, tmp_path: Path) -> None:
    answers = world.asked(tmp_path / "jobs", noting, str(tmp_path / "notes"), [1, 2, 3])
    world.meanwhile = [lambda: answer_part(str(answers.folder), [2]), lambda: answer_part(str(answers.folder), [0, 1])]
    results: Iterator[int] = answers.gathered(lambda: False)
    assert next(results) == 30
    assert noted(tmp_path / "notes") == "begun 3 "
    assert list(results) == [10, 20]
    answers.remove()
    assert not (tmp_path / "jobs").exists()


def test_a_part_that_is_begun_again_goes_on_from_its_piece(world: World, tmp_path: Path) -> None:
    answers = world.asked(tmp_path / "jobs", noting, str(tmp_path / "notes"), [1, 2, -3, 4])
    with pytest.raises(ValueError, match="-3"):
        answers.answer([0, 1, 2, 3])
    answers.answer([0, 1, 3])
    assert noted(tmp_path / "notes") == "begun 1 2 begun 4 "


def test_what_came_before_a_failure_is_handed_over(world: World, tmp_path: Path) -> None:
    answers = world.asked(tmp_path / "jobs", noting, str(tmp_path / "notes"), [1, 2, 3])

    def over() -> bool:
        answers.answer([0, 2])
        raise SlurmError("a job failed")

    results = answers.gathered(over)
    assert [next(results), next(results)] == [10, 30]
    with pytest.raises(SlurmError, match="a job failed"):
        next(results)


def test_answers_that_never_come_are_told_of_in_the_end(world: World, tmp_path: Path) -> None:
    answers = world.asked(tmp_path / "jobs", noting, str(tmp_path / "notes"), [1, 2, 3])
    answers.answer([1])
    results = answers.gathered(lambda: True)
    assert next(results) == 20
    with pytest.raises(
        SlurmError, match=r"all jobs or tasks have ended, but 2 of 3 pieces have no result in .*: they were cancelled"
    ):
        next(results)
    assert PATIENCE_S < world.now_s < 2 * PATIENCE_S


@pytest.mark.parametrize("given_up", ["left", "killed"])
def test_work_that_nobody_waits_for_ends_before_the_next_piece(world: World, tmp_path: Path, given_up: str) -> None:
    answers = world.asked(tmp_path / "jobs", noting, str(tmp_path / "notes"), [1, 2])
    answers.answer([0])
    if given_up == "left":
        answers.abandon()
    else:
        going(answers, GONE_S / 60 + 1)
    answers.answer([1])
    assert noted(tmp_path / "notes") == "begun 1 "


def test_who_waits_gives_a_sign_at_every_look(world: World, tmp_path: Path) -> None:
    answers = world.asked(tmp_path / "jobs", noting, str(tmp_path / "notes"), [1, 2])
    going(answers, GONE_S / 60 + 1)
    world.meanwhile = [lambda: answers.answer([0, 1])]
    assert list(answers.gathered(lambda: False)) == [10, 20]


def test_the_end_of_one_call_leaves_another_s_work(world: World, tmp_path: Path) -> None:
    one, other, killed, left = (world.asked(tmp_path / "jobs", noting, str(tmp_path / "notes"), [1]) for _ in range(4))
    going(killed, GONE_S / 60 + 1)
    left.abandon()
    one.remove()
    assert list((tmp_path / "jobs").iterdir()) == [other.folder]
    other.answer([0])
    assert list(other.gathered(lambda: True)) == [10]


def test_a_folder_that_cannot_be_made_is_told_of(world: World, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match=r"cannot write the work to .*/file/jobs: Not a directory"):
        world.asked(tmp_path / "file" / "jobs", noting, "", [1])
