"""The checker of executors finds violations; local processes pass."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mirage.errors import ContractBroken
from mirage.study.executors.check_executor import check_executor
from mirage.study.executors.executor_registry import ExecutorRequest, ExecutorSpec


class InTurn:
    """Does pieces one after another."""

    def __init__(self, request: ExecutorRequest) -> None:
        self.folder = request.folder

    def __call__(self, begin: Any, setup: Any, pieces: Any) -> Iterator[Any]:
        if pieces:
            yield from map(begin(setup), pieces)


class Twice(InTurn):
    def __call__(self, begin: Any, setup: Any, pieces: Any) -> Iterator[Any]:
        yield from super().__call__(begin, setup, [*pieces, *pieces[:1]])


class Eager(InTurn):
    def __call__(self, begin: Any, setup: Any, pieces: Any) -> Iterator[Any]:
        yield from map(begin(setup), pieces)


class Hiding(InTurn):
    def __call__(self, begin: Any, setup: Any, pieces: Any) -> Iterator[Any]:
        try:
            yield from super().__call__(begin, setup, pieces)
        except ContractBroken:
            return


class Disguising(InTurn):
    def __call__(self, begin: Any, setup: Any, pieces: Any) -> Iterator[Any]:
        try:
            yield from super().__call__(begin, setup, pieces)
        except ContractBroken as error:
            raise OSError("lost") from error


class Whole(InTurn):
    def __call__(self, begin: Any, setup: Any, pieces: Any) -> Iterator[Any]:
        return iter(list(super().__call__(begin, setup, pieces)))


def spec(name: str) -> ExecutorSpec:
    return ExecutorSpec(f"{__name__}:{name}", "")


def test_an_executor_that_satisfies_the_contract_passes(tmp_path: Path) -> None:
    check_executor(spec("InTurn"), tmp_path)


@pytest.mark.slow
def test_local_processes_pass(tmp_path: Path) -> None:
    check_executor("local", tmp_path)


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("Twice", r"gives the results \[7, 7, .* of 5 pieces, not \[7, 8, 11, 16, 23\]"),
        ("Eager", "begin is called although there are no pieces"),
        ("Hiding", "hides the error of a piece"),
        ("Disguising", r"turns the error of a piece into OSError\('lost'\); raise a MirageError"),
        ("Whole", "make it a generator, which a caller can close early"),
    ],
)
def test_a_violation_is_named(name: str, complaint: str, tmp_path: Path) -> None:
    with pytest.raises(ContractBroken, match=complaint):
        check_executor(spec(name), tmp_path)
