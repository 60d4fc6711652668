"""Policies in this process, at once: for demonstrations, tests, and the child process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from mirage.agent.policy_runner.question import Answer, PolicyRequest, Question, settings_for
from mirage.agent.policy_runner.site_knowledge import KnownSite, SiteKnowledge
from mirage.policy.contract import Policy
from mirage.policy.plan import Plan
from mirage.policy.policy_registry import make_policy
from mirage.policy.policy_settings import PolicySettings
from mirage.policy.view import View


@dataclass
class InProcess:
    """Runs policies in this process. Chains with equal requests share a policy object.

    Attributes:
        site: Facts from the site's calibration.
    """

    site: SiteKnowledge = field(default_factory=lambda: SiteKnowledge(None))
    policies: dict[tuple[str, PolicySettings], Policy] = field(default_factory=dict)
    _options: Mapping[str, str] = field(default_factory=dict)
    _known: KnownSite = field(default_factory=KnownSite)
    _settings: dict[PolicyRequest, PolicySettings] = field(default_factory=dict)
    _answers: list[Answer] = field(default_factory=list)

    def request(self, questions: Sequence[Question], options: Mapping[str, str], view: View) -> None:
        """Answer at once."""
        self._answers += [self.answer(question, options, view) for question in questions]

    def answer(self, question: Question, options: Mapping[str, str], view: View) -> Answer:
        """The answer to one question."""
        try:
            plan = checked(self._policy(question.request, options).decide(replace(view, chain=question.form)))
        except Exception as error:  # any error of a plug-in is its chain's own problem
            return Answer(question.chain, None, f"{type(error).__name__}: {error}", question.number)
        return Answer(question.chain, plan, number=question.number)

    def answers(self, wait_s: float) -> list[Answer]:
        """The answers to all questions so far."""
        given, self._answers = self._answers, []
        return given

    def prepare(self, policies: Sequence[str]) -> None:
        """Does nothing: a request blocks until its answer."""

    def excuse(self) -> str:
        """Always empty: there is never a delay."""
        return ""

    def rest(self) -> None:
        """Does nothing: compiled code stays."""

    def close(self) -> None:
        """Does nothing: nothing was started."""

    def _policy(self, request: PolicyRequest, options: Mapping[str, str]) -> Policy:
        """The policy created before from equal settings, else a new one.

        A site may change its scheduler's options, and is calibrated again.
        """
        known = self.site.of(options)
        if (options, known) != (self._options, self._known):
            self._options, self._known = options, known
            self._settings.clear()
        if request not in self._settings:
            self._settings[request] = settings_for(request, options, known.limits, known.choices)
        made = (request.policy, self._settings[request])
        if made not in self.policies:
            self.policies[made] = make_policy(*made)
        return self.policies[made]


def checked(plan: object) -> Plan:
    """The plan, if it is valid; its estimates as plain numbers.

    Raises:
        TypeError: It is something else.
        ValueError: An estimate is no number.
    """
    if not isinstance(plan, Plan):
        raise TypeError(f"it decided on {type(plan).__name__!r}, which is no Plan")
    return replace(plan, estimate={str(name): float(value) for name, value in plan.estimate.items()})
