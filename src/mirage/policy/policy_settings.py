"""Settings of a policy, the same in the simulator and on a real cluster."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from mirage.policy.cost import Cost
from mirage.policy.policy_choice import PolicyChoice


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """Everything a policy may be made with, except the parameter in its name.

    A policy gets only what its specification needs.

    Attributes:
        cost: What an hour of interruption and an hour of overlap cost.
        seed: Seed of all randomness in the policy.
        discipline: Name of the queue discipline under which the cluster starts jobs.
        scheduler: Parameters of the cluster's scheduler, a ``mirage.sim.slurm_conf.slurm_settings.SlurmSettings``;
            None for Slurm's defaults.
        limits: What users may run at once, as far as it is known; of ``mirage.sim.cluster.Limit``.
        bank_age: Whether the user allows a link to be submitted early only to gain age while it is held.
        choices: The policies that an evaluation on this site chose, for ``auto``.
    """

    cost: Cost = field(default_factory=Cost)
    seed: int = 0
    discipline: str = "slurm"
    scheduler: Hashable | None = None
    limits: tuple[Hashable, ...] = ()
    bank_age: bool = False
    choices: tuple[PolicyChoice, ...] = ()
