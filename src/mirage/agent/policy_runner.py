"""Where policies think: here, or aside, in a process that a policy may fill, stall or crash without harm to the agent.

A forecast needs a compiled simulator and two hundred megabytes; the agent, which lives for weeks on a login node, has
them only while there is something to decide.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, Protocol

from mirage.errors import MirageError
from mirage.policy.contract import Policy
from mirage.policy.plan import Plan
from mirage.policy.registry import make_policy
from mirage.policy.view import Chain, View

Line = Connection
"""Between the agent and the process aside."""

CLOSE = 0.05
"""On a real queue a tie goes to submitting (see ``WhatIf``): on the first chains kept alive on a real slurmctld,
forecasts that saw no gain in submitting before the end of a link were followed by an hour of interruption."""

PATIENCE_S = 240.0
"""Longer than the first forecast after an installation, which compiles the simulator; shorter than the lease."""

ENDS_S = 5.0
"""So long the process aside may take to end by itself."""

FAILURES = (MirageError, ValueError, ArithmeticError, LookupError, AttributeError, TypeError)
"""What a policy may raise without ending the agent."""


class PolicyFailed(MirageError):
    """A policy gave no plan."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which policy is asked, and what an hour costs it."""

    policy: str
    interruption_cost: float
    overlap_cost: float


class PolicyRunner(Protocol):
    """Asks policies."""

    def decide(self, wanted: Wanted, options: Mapping[str, str], view: View, chain: Chain) -> Plan:
        """What a policy says.

        Args:
            options: The scheduler's, keys in lower case.
            view: Without a chain; the same object for all chains of a cycle.

        Raises:
            PolicyFailed: It failed; the message says how.
        """
        ...

    def rest(self) -> None:
        """There is nothing to decide for now."""
        ...


@dataclass
class InProcess:
    """Thinks in this process. Chains that want the same share a policy object."""

    policies: dict[Wanted, Policy] = field(default_factory=dict)

    def decide(self, wanted: Wanted, options: Mapping[str, str], view: View, chain: Chain) -> Plan:
        """As ``PolicyRunner`` says."""
        try:
            if wanted not in self.policies:
                self.policies[wanted] = _policy(wanted, options)
            return self.policies[wanted].decide(replace(view, chain=chain))
        except FAILURES as error:
            raise PolicyFailed(f"{type(error).__name__}: {error}") from error

    def rest(self) -> None:
        """Keep what was compiled."""


class ChildProcess:
    """Thinks in a process of its own, which ends when there is nothing to decide."""

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        self.patience_s = patience_s
        self._child: tuple[BaseProcess, Line] | None = None
        self._shown: View | None = None

    def decide(self, wanted: Wanted, options: Mapping[str, str], view: View, chain: Chain) -> Plan:
        """As ``PolicyRunner`` says."""
        line = self._line()
        try:
            line.send((wanted, dict(options), view if self._shown is not view else None, chain))
            self._shown = view
            if not line.poll(self.patience_s):
                self._end()
                raise PolicyFailed(f"no answer within {self.patience_s:g} s")
            answer = line.recv()
        except (OSError, EOFError) as error:
            raise PolicyFailed(f"its process ended with status {self._end()}") from error
        if isinstance(answer, Plan):
            return answer
        raise PolicyFailed(str(answer))

    def rest(self) -> None:
        """Give its memory back."""
        if self._child is not None:
            self._end()

    def _line(self) -> Line:
        if self._child is None:
            context = multiprocessing.get_context("spawn")
            mine, theirs = context.Pipe()
            child = context.Process(target=answer_all, args=(theirs,), daemon=True)
            child.start()
            theirs.close()
            self._child, self._shown = (child, mine), None
        return self._child[1]

    def _end(self) -> int | None:
        assert self._child is not None
        (child, line), self._child = self._child, None
        line.close()
        child.join(ENDS_S)
        if child.is_alive():
            child.kill()
            child.join()
        status = child.exitcode
        child.close()
        return status


def _policy(wanted: Wanted, options: Mapping[str, str]) -> Policy:
    import mirage.provision.policies.rules  # noqa: F401  registers the policies
    from mirage.provision.chain import Cost

    settings: dict[str, Any] = {"cost": Cost(wanted.interruption_cost, wanted.overlap_cost)}
    if wanted.policy.partition(":")[0] in ("what-if", "slurm-estimate"):
        settings |= scheduler_settings(options)
    return make_policy(wanted.policy, **settings)


def scheduler_settings(options: Mapping[str, str]) -> dict[str, Any]:
    """How the cluster orders its queue, for policies that simulate it."""
    from mirage.sim.slurm_conf.settings import SlurmSettings

    settings = SlurmSettings.from_options(options, "scontrol show config")
    return {"discipline": "slurm", "settings": settings, "close": CLOSE, "glance": True}


def answer_all(line: Line) -> None:
    """What the process aside does: answer until its line is closed, by us or by our death."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the agent, which then closes the line
    runner, view = InProcess(), None
    while True:
        try:
            wanted, options, shown, chain = line.recv()
        except (EOFError, OSError):
            return
        view = shown if shown is not None else view
        assert view is not None
        try:
            answer: Plan | str = runner.decide(wanted, options, view, chain)
        except PolicyFailed as error:
            answer = str(error)
        line.send(answer)
