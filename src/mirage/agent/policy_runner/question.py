"""Questions to policies, their answers, and the contract of policy runners."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from mirage.policy.cost import Cost
from mirage.policy.plan import Plan
from mirage.policy.policy_choice import PolicyChoice
from mirage.policy.policy_registry import policy_spec
from mirage.policy.policy_settings import PolicySettings
from mirage.policy.view import ChainView, View


@dataclass(frozen=True, slots=True)
class PolicyRequest:
    """A policy of a chain, and its costs per hour.

    Attributes:
        bank_age: Whether a link may be submitted early and held only to gather age.
    """

    policy: str
    interruption_cost: float
    overlap_cost: float
    bank_age: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    """A question about one chain.

    Attributes:
        chain: Number of the chain in the store.
        form: The chain's view for its policy.
        number: Number of the question, different from any earlier one about the chain.
    """

    chain: int
    request: PolicyRequest
    form: ChainView
    number: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer about one chain.

    Attributes:
        plan: None where the policy failed.
        failure: The error as text.
        number: Number of the question.
    """

    chain: int
    plan: Plan | None
    failure: str = ""
    number: int = 0


class PolicyRunner(Protocol):
    """A runner of policies."""

    def request(self, questions: Sequence[Question], options: Mapping[str, str], view: View) -> None:
        """Send questions about chains, the most urgent first; does not block.

        Args:
            options: The scheduler's, keys in lower case.
            view: View without a chain, the same for all of them.
        """
        ...

    def answers(self, wait_s: float) -> list[Answer]:
        """The answers that have arrived, after waiting at most this real time for the others."""
        ...

    def prepare(self, policies: Sequence[str]) -> None:
        """Let policies prepare for questions, in the background."""
        ...

    def excuse(self) -> str:
        """The reason why there is no answer yet; empty where unknown."""
        ...

    def rest(self) -> None:
        """Forget open questions, and free memory."""
        ...

    def close(self) -> None:
        """End everything that was started."""
        ...


def simulates(policy: str) -> bool:
    """Whether a policy runs the simulator, which must be compiled once.

    Raises:
        UnknownName: No such policy.
    """
    return "scheduler" in policy_spec(policy).needs


def settings_for(
    request: PolicyRequest,
    options: Mapping[str, str],
    limits: tuple[Hashable, ...] = (),
    choices: tuple[PolicyChoice, ...] = (),
) -> PolicySettings:
    """The settings of a policy, as ``mirage evaluate`` makes them from a cluster file.

    Or from a ``slurm.conf``. The scheduler's options are read only for a policy that needs them: reading them loads the
    simulator.

    Args:
        request: The policy and its costs.
        options: The scheduler's, keys in lower case.
        limits: Limits of users on running jobs, as far as known.
        choices: The policies that an evaluation of the site chose.

    Raises:
        UnknownName: No such policy.
        ConfigurationError: A cost or an option has a value that cannot be used.
    """
    cost = Cost(request.interruption_cost, request.overlap_cost)
    if not simulates(request.policy):
        return PolicySettings(cost, bank_age=request.bank_age)
    from mirage.sim.slurm_conf.slurm_settings import SlurmSettings

    scheduler = SlurmSettings.from_options(options, "scontrol show config")
    return PolicySettings(cost, scheduler=scheduler, limits=limits, bank_age=request.bank_age, choices=choices)
