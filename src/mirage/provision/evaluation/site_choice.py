"""Choice of a policy for links on a site, by an evaluation on its own accounting."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from mirage.duration import DAY_S, WEEK_S
from mirage.errors import ConfigurationError
from mirage.policy.auto_parameters import AutoParameters
from mirage.policy.cost import Cost
from mirage.policy.policy_choice import PolicyChoice, nearest_choice
from mirage.provision.evaluation.candidate import settings_in
from mirage.provision.evaluation.episode import Scenario
from mirage.provision.evaluation.evaluate import evaluate
from mirage.provision.evaluation.evaluation_protocol import NAMED_USER, EvaluationProtocol
from mirage.provision.evaluation.policy_score import outcome
from mirage.provision.evaluation.rolling_choice import FEWEST, LONGEST_S, better_choice
from mirage.provision.link_size import LinkSize
from mirage.provision.policies.auto import default_choice
from mirage.study.play_trials import Progress
from mirage.trace.table import JobTable

WARM_UP_S = 2 * WEEK_S
"""Accounts before the first hand-over, for a queue as it was."""

MOST_WINDOWS = 28
SHORTEST_S = 2 * DAY_S
"""Windows closer to each other meet the same queue."""

STEADY = 5
"""The hand-over that is judged: by then the links have almost the standing of an endless chain under fair-share."""


@dataclass(frozen=True, slots=True)
class LinkRequest:
    """Links that a policy is chosen for.

    Attributes:
        nodes: Nodes of a link.
        limit_s: Its time limit.
        cost: What an hour of interruption and of overlap cost its user.
        bank_age: Whether the user allows links to be submitted early only to gather age.
        user: Their owner; a newcomer where it is empty, or where the accounts have no job of that user.
    """

    nodes: int
    limit_s: int
    cost: Cost = field(default_factory=Cost)
    bank_age: bool = False
    user: str = ""


def without_links(accounts: JobTable, request: LinkRequest) -> JobTable:
    """Returns the accounts without earlier links of the same chain.

    These are the owner's jobs with the nodes and the time limit of a link. The evaluation submits links itself.
    """
    if request.user not in accounts.user.names:
        return accounts
    own = accounts.user.codes == accounts.user.names.index(request.user)
    return accounts[~(own & (accounts.nodes == request.nodes) & (accounts.limit_s == request.limit_s))]


def windows_of(scenario: Scenario, limit_s: int) -> EvaluationProtocol:
    """Returns the windows of the last weeks of a site, with hand-overs that are over.

    The hand-over ``STEADY`` is judged, or an earlier one, if the links before it take longer than the warm-up.

    Raises:
        ConfigurationError: The accounts are too short for enough of them.
    """
    submit_s = scenario.jobs.jobs.submit_s
    first_s, last_s = (int(submit_s[0]), int(submit_s[-1])) if len(submit_s) else (0, 0)
    hand_over = min(STEADY, 1 + WARM_UP_S // limit_s)
    end_s = last_s - limit_s - hand_over * DAY_S  # each link may wait
    begin_s = max(first_s + WARM_UP_S, end_s - LONGEST_S)
    every_s = max((end_s - begin_s) // MOST_WINDOWS, SHORTEST_S)
    count = (end_s - begin_s) // every_s
    if count < FEWEST:
        raise ConfigurationError(
            f"the accounts are {(last_s - first_s) // DAY_S} days long; to choose a policy for links of "
            f"{limit_s / DAY_S:.3g} days, at least {FEWEST} hand-overs are needed: "
            f"{math.ceil((WARM_UP_S + FEWEST * SHORTEST_S + limit_s) / DAY_S) + hand_over} days"
        )
    return EvaluationProtocol.warm(begin_s, windows=count, every_s=every_s, hand_over=hand_over)


def choose_policy(
    scenario: Scenario, request: LinkRequest, stored: Iterable[PolicyChoice] = (), progress: Progress | None = None
) -> PolicyChoice:
    """Returns the policy for links: the one so far, unless another is surely better.

    Args:
        scenario: The site, with its accounts, without earlier links, as the trace.
        request: The links.
        stored: The choices so far.
        progress: Called after every window.

    Raises:
        ConfigurationError: The accounts are too short.
    """
    protocol = windows_of(scenario, request.limit_s)
    if request.user in scenario.jobs.table.user.names:
        protocol = replace(protocol, link_user=NAMED_USER + request.user)
    members = AutoParameters(request.bank_age).members
    link = LinkSize(request.nodes, request.limit_s)
    played = evaluate(scenario, protocol, [link], members, [request.cost], progress=progress)
    trials = played.trials[link.nodes]
    outcomes = {name: outcome(name, trials, request.cost) for name in members}
    default = default_choice(settings_in(scenario, request.cost), bank_age=request.bank_age)
    nodes, limit_s, ratio, bank_age = request.nodes, request.limit_s, request.cost.ratio, request.bank_age
    so_far = nearest_choice(stored, nodes, limit_s, ratio, bank_age=bank_age)
    begin = default if so_far is None or so_far.policy not in outcomes else so_far
    present = PolicyChoice(begin.policy, begin.reason, nodes, limit_s, ratio, bank_age)
    found = better_choice(present, trials, outcomes, request.cost)
    if found != present:
        return found
    means = ", ".join(f"{name} {float(one.costs(request.cost).mean()):.2f}" for name, one in outcomes.items())
    return replace(present, reason=f"none is better beyond doubt: cost of a hand-over {means}")
