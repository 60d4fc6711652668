"""Running policies, in this process or in one that a policy may fill, stall or crash without harm to the agent.

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
from typing import Protocol

from mirage.errors import MirageError
from mirage.policy.contract import Policy
from mirage.policy.cost import Cost
from mirage.policy.plan import Plan
from mirage.policy.registry import make_policy, policy_spec
from mirage.policy.settings import PolicySettings
from mirage.policy.view import Chain, View

Line = Connection
"""Between the agent and the child process."""

PATIENCE_S = 240.0
"""Longer than the first forecast after an installation, which compiles the simulator; shorter than the lease."""

ENDS_S = 5.0
"""So long the child process may take to end by itself."""

FAILURES = (MirageError, ValueError, ArithmeticError, LookupError, AttributeError, TypeError)
"""What a policy may raise without ending the agent."""


class PolicyFailed(MirageError):
    """A policy gave no plan."""


@dataclass(frozen=True, slots=True)
class PolicyRequest:
    """Which policy decides about a chain, and what an hour costs there."""

    policy: str
    interruption_cost: float
    overlap_cost: float


class PolicyRunner(Protocol):
    """Asks policies."""

    def decide(self, request: PolicyRequest, options: Mapping[str, str], view: View, chain: Chain) -> Plan:
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
    """Runs policies in this process. Chains with equal requests share a policy object."""

    policies: dict[tuple[str, PolicySettings], Policy] = field(default_factory=dict)
    _options: Mapping[str, str] = field(default_factory=dict)
    _settings: dict[PolicyRequest, PolicySettings] = field(default_factory=dict)

    def decide(self, request: PolicyRequest, options: Mapping[str, str], view: View, chain: Chain) -> Plan:
        """As ``PolicyRunner`` says."""
        try:
            return self._policy(request, options).decide(replace(view, chain=chain))
        except FAILURES as error:
            raise PolicyFailed(f"{type(error).__name__}: {error}") from error

    def rest(self) -> None:
        """Keep what was compiled."""

    def _policy(self, request: PolicyRequest, options: Mapping[str, str]) -> Policy:
        """The policy made before from equal settings, else a new one: a site may change how its scheduler is set."""
        if options != self._options:
            self._options = options
            self._settings.clear()
        if request not in self._settings:
            self._settings[request] = settings_for(request, options)
        made = (request.policy, self._settings[request])
        if made not in self.policies:
            self.policies[made] = make_policy(*made)
        return self.policies[made]


class ChildProcess:
    """Runs policies in a process of its own, which ends when there is nothing to decide."""

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        self.patience_s = patience_s
        self._child: tuple[BaseProcess, Line] | None = None
        self._shown: View | None = None

    def decide(self, request: PolicyRequest, options: Mapping[str, str], view: View, chain: Chain) -> Plan:
        """As ``PolicyRunner`` says."""
        line = self._line()
        try:
            line.send((request, dict(options), view if self._shown is not view else None, chain))
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


def settings_for(request: PolicyRequest, options: Mapping[str, str]) -> PolicySettings:
    """What a policy is made with here, as ``mirage evaluate`` makes it from a ``slurm.conf``.

    The scheduler's options are read only for a policy that needs them: reading them loads the simulator.

    Raises:
        UnknownName: No such policy.
        ConfigurationError: A cost or an option has a value that cannot be used.
    """
    cost = Cost(request.interruption_cost, request.overlap_cost)
    if "scheduler" not in policy_spec(request.policy).needs:
        return PolicySettings(cost)
    from mirage.sim.slurm_conf.settings import SlurmSettings

    return PolicySettings(cost, scheduler=SlurmSettings.from_options(options, "scontrol show config"))


def answer_all(line: Line) -> None:
    """The work of the child process: answer until its line is closed, by us or by our death."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the agent, which then closes the line
    runner, view = InProcess(), None
    while True:
        try:
            request, options, shown, chain = line.recv()
        except (EOFError, OSError):
            return
        view = shown if shown is not None else view
        assert view is not None
        try:
            answer: Plan | str = runner.decide(request, options, view, chain)
        except PolicyFailed as error:
            answer = str(error)
        line.send(answer)
