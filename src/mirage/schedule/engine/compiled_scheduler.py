"""Compiled schedulers, as the engine calls them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class CompiledScheduler:
    """A scheduler in the form of a kernel.

    Attributes:
        name: Its name, for messages.
        function: Called with a reference to world, state and plan buffer; writes actions and returns their number.
        reasons: Texts of the reasons that it writes by number.
        called_on: Events at which it is called, as bits of ``Event``; None for all but progress.
        round_s: Seconds between rounds; None for no rounds.
        knows_run_s: Whether it must know run times.
        memory: Number of float columns in its memory, with one value per job or server and one more.
        ranks: Number of integer columns of the same length.
        table: Whether it needs ``PlanBuffer.table``; the columns of its memory then have one value per GPU, too.
        parameters: Its parameters, by position.
        answer: Called with world, state and plan buffer if ``function`` returns −1, for what is not compiled; it writes
            into the plan buffer, and requests another call. None if ``function`` never does.
    """

    name: str
    function: Callable[..., Any]
    reasons: tuple[str, ...] = ("",)
    called_on: int | None = None
    round_s: float | None = None
    knows_run_s: bool = False
    memory: int = 1
    ranks: int = 1
    table: bool = False
    parameters: tuple[float, ...] = ()
    answer: Callable[..., None] | None = None
