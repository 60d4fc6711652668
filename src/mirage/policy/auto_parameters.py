"""Parameters of ``auto``, and the names of the policies that it chooses from."""

from __future__ import annotations

from dataclasses import dataclass

from mirage.policy.parameter import MODEL, YES_OR_NO, read_parameters

AUTO = "auto"

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
