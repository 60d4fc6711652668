"""Compiled schedulers, as the engine takes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class CompiledScheduler:
    """A scheduler in the form of a kernel.

    Attributes:
        name: Its name, for messages.
        function: Called with a reference to world, state and desk; writes actions and returns how many.
        reasons: What the reasons it writes mean.
        asked_on: Events it is asked on, as bits of ``contract.Event``; None for all but progress.
        round_s: Seconds between rounds; None for none.
        knows_run_s: Whether it must be told run times.
        memory: Columns of numbers it keeps, one number a job and one more.
        ranks: The same of integers.
        parameters: Its parameters, by place.
    """

    name: str
    function: Callable[..., Any]
    reasons: tuple[str, ...] = ("",)
    asked_on: int | None = None
    round_s: float | None = None
    knows_run_s: bool = False
    memory: int = 1
    ranks: int = 1
    parameters: tuple[float, ...] = ()
