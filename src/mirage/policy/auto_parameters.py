"""Parameters of ``auto``, and the names of the policies that it chooses from."""

from __future__ import annotations

from dataclasses import dataclass

from mirage.policy.parameter import MODEL, YES_OR_NO, read_parameters

AUTO = "auto"

USER_WAITS = "user-waits"
"""The policy for ``auto`` where Slurm hides the jobs of other users."""

REACTIVE, WHAT_IF, HOLDS, HOLD, BANKING = "reactive", "what-if", "holds", "hold", "holds:bank=yes"


@dataclass(frozen=True, slots=True)
class AutoParameters:
    """What follows the name: ``auto:bank=yes``, ``auto:model=./model``.

    Attributes:
        bank: Whether a link may be submitted early only to gather age.
        model: A trained model that may be chosen too; empty for none.
    """

    bank: bool = False
    model: str = ""

    @classmethod
    def of(cls, text: str) -> AutoParameters:
        """Reads the text after the name.

        Raises:
            ConfigurationError: It is something else.
        """
        forms = {"bank": YES_OR_NO, "model": MODEL}
        return cls(**read_parameters(AUTO, text, forms))

    @property
    def members(self) -> tuple[str, ...]:
        """Names of the policies that an evaluation may choose from, the simplest first."""
        banking = (HOLD, BANKING) if self.bank else ()
        model = (self.model,) if self.model else ()
        return (REACTIVE, WHAT_IF, HOLDS, *banking, *model)


def without_other_jobs(policy: str) -> str:
    """The policy that decides for another one where Slurm hides the jobs of other users.

    A forecast from one's own jobs alone would find the nodes of all others free, so waits decide for ``auto``. Every
    other policy, and a model that the user named, decide themselves.

    Args:
        policy: Its name, with its parameter.
    """
    base, _, parameter = policy.partition(":")
    return USER_WAITS if base == AUTO and not AutoParameters.of(parameter).model else policy
