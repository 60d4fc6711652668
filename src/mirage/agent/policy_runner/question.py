"""Questions to policies, their answers, and what runs policies."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from mirage.policy.cost import Cost
from mirage.policy.plan import Plan
from mirage.policy.registry import policy_spec
from mirage.policy.settings import PolicySettings
from mirage.policy.view import Chain, View


@dataclass(frozen=True, slots=True)
class PolicyRequest:
    """Which policy decides about a chain, and what an hour costs there.

    Attributes:
        bank_age: Whether a link may be submitted early only to gather age while it is held.
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
        form: The chain as its policy sees it.
        number: Of the question, unlike that of any earlier one about the chain.
    """

    chain: int
    request: PolicyRequest
    form: Chain
    number: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer about one chain.

    Attributes:
        plan: None where the policy failed.
        failure: How it failed, in words.
        number: Of the question.
    """

    chain: int
    plan: Plan | None
    failure: str = ""
    number: int = 0


class PolicyRunner(Protocol):
    """A runner of policies."""

    def ask(self, questions: Sequence[Question], options: Mapping[str, str], view: View) -> None:
        """Ask about chains, the most urgent first; this does not wait.

        Args:
            options: The scheduler's, keys in lower case.
            view: Without a chain, the same for all of them.
        """
        ...

    def answers(self, wait_s: float) -> list[Answer]:
        """The answers that have come; real time is waited for the others, but no longer than so."""
        ...

    def prepare(self, policies: Sequence[str]) -> None:
        """Let policies get ready for questions that will come, in the background."""
        ...

    def excuse(self) -> str:
        """Why there is no answer yet, in words; empty where it is not known."""
        ...

    def rest(self) -> None:
        """Forget open questions, and give memory back."""
        ...

    def close(self) -> None:
        """End everything that was started."""
        ...


def simulates(policy: str) -> bool:
    """Whether a policy runs the simulator, which has to be compiled once.

    Raises:
        UnknownName: No such policy.
    """
    return "scheduler" in policy_spec(policy).needs


def settings_for(
    request: PolicyRequest, options: Mapping[str, str], limits: tuple[Hashable, ...] = ()
) -> PolicySettings:
    """What a policy is made with here, as ``mirage evaluate`` makes it from a ``slurm.conf`` or a cluster file.

    The scheduler's options are read only for a policy that needs them: reading them loads the simulator.

    Args:
        request: The policy and its costs.
        options: The scheduler's, keys in lower case.
        limits: What users may run at once, as far as it is known.

    Raises:
        UnknownName: No such policy.
        ConfigurationError: A cost or an option has a value that cannot be used.
    """
    cost = Cost(request.interruption_cost, request.overlap_cost)
    if not simulates(request.policy):
        return PolicySettings(cost, bank_age=request.bank_age)
    from mirage.sim.slurm_conf.settings import SlurmSettings

    scheduler = SlurmSettings.from_options(options, "scontrol show config")
    return PolicySettings(cost, scheduler=scheduler, limits=limits, bank_age=request.bank_age)
