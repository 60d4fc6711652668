"""``auto``: the policy that suits a site and a link.

On an unknown site it follows from the scheduler's settings: ``holds`` where a held job retains its age, otherwise
``what-if``. An evaluation on the site's own accounting may choose another one, but only where the difference is beyond
its interval, see ``mirage.provision.evaluation.rolling_choice``. Links are submitted early only to gather age where the
user allows it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from mirage.errors import ConfigurationError
from mirage.policy.contract import Policy
from mirage.policy.parameter import YES_OR_NO, ParameterForm, read_parameters
from mirage.policy.plan import Action, Plan, Release, Wait
from mirage.policy.policy_choice import AUTO, PolicyChoice, nearest_choice
from mirage.policy.policy_registry import make_policy, policy_spec
from mirage.policy.policy_settings import PolicySettings
from mirage.policy.view import View
from mirage.provision.policies.lead_rules import chain_of
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings

REACTIVE, WHAT_IF, HOLDS, HOLD, BANKING = "reactive", "what-if", "holds", "hold", "holds:bank=yes"


def _named(text: str) -> str:
    if not text:
        raise ValueError(text)
    return text


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
        forms = {"bank": YES_OR_NO, "model": ParameterForm("FILE", _named, last=True)}
        return cls(**read_parameters(AUTO, text, forms))

    @property
    def members(self) -> tuple[str, ...]:
        """Names of the policies that an evaluation may choose from, the simplest first."""
        banking = (HOLD, BANKING) if self.bank else ()
        model = (self.model,) if self.model else ()
        return (REACTIVE, WHAT_IF, HOLDS, *banking, *model)


def default_choice(settings: PolicySettings, *, bank_age: bool) -> PolicyChoice:
    """Returns the policy for a site that has not been evaluated.

    Args:
        settings: Of the policy: how the site orders its queue, and its limits.
        bank_age: Whether links may be submitted early only to gather age.
    """
    scheduler = settings.scheduler if isinstance(settings.scheduler, SlurmSettings) else SlurmSettings()
    if not scheduler.retains_age(settings.limits):  # type: ignore[arg-type]
        return PolicyChoice(WHAT_IF, "a job that is held loses its age on this cluster")
    fair = scheduler.weight_fairshare > scheduler.weight_age
    if bank_age and not fair:
        return PolicyChoice(BANKING, "age orders the queue, a held job retains it, and --bank-age allows to gather it")
    why = "a held job retains its age"
    return PolicyChoice(HOLDS, f"{why}, but fair-share weighs more than age: nothing is gathered" if fair else why)


def auto(parameter: str = "", *, bank_age: bool = False, **needed: Any) -> Auto:
    """Creates ``auto`` from the parameter in its name and the settings that it needs.

    Raises:
        ConfigurationError: The parameter is invalid, or its model is no policy.
    """
    given = AutoParameters.of(parameter)
    settings = PolicySettings(**needed)
    if given.model:
        make_policy(given.model, settings)
    return Auto(settings, bank_age=bank_age or given.bank)


class Auto:
    """Decides by another policy, the one chosen for links of the present size.

    Args:
        settings: Costs, seed, the scheduler, and the choices of evaluations on this site.
        bank_age: Whether links may be submitted early only to gather age.
    """

    def __init__(self, settings: PolicySettings, *, bank_age: bool = False) -> None:
        self.settings, self.bank_age = settings, bank_age
        self.default = default_choice(settings, bank_age=bank_age)
        self._made: dict[str, Policy] = {}

    def choice(self, nodes: int, limit_s: int) -> PolicyChoice:
        """Returns the policy for links of a size."""
        ratio = self.settings.cost.ratio
        found = nearest_choice(self.settings.choices, nodes, limit_s, ratio, bank_age=self.bank_age)
        return self.default if found is None else found

    def decide(self, view: View) -> Plan:
        """Decide as the chosen policy does.

        A policy that revises no queued link lets it compete, also if another one held it before.
        """
        chain = chain_of(view)
        choice = self.choice(chain.nodes, chain.limit_s)
        if chain.queued is not None and not policy_spec(choice.policy).revises_queued_link:
            held = chain.queued.held or chain.queued.begins_s > view.now_s
            action: Action = Release(reason="competes") if held else Wait(reason="competes")
            return Plan((action,), choice=choice)
        return replace(self._policy(choice.policy).decide(view), choice=choice)

    def _policy(self, name: str) -> Policy:
        if name not in self._made:
            try:
                self._made[name] = make_policy(name, self.settings)
            except ConfigurationError as error:
                raise ConfigurationError(f"{AUTO} chose {name}, which cannot be made: {error}") from error
        return self._made[name]
