"""The agent's settings, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass

from mirage.duration import DAY_S, HOUR_S, MINUTE_S


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """Times in seconds of the cluster's clock.

    Attributes:
        poll_s: Between looks at the queue; a site of thousands of users asks for no more.
        busy_poll_s: While a hand-over is under way.
        longest_poll_s: However slow or silent the controller is.
        decide_s: Between decisions about one chain, unless the policy says that it may sleep longer.
        longest_sleep_s: However long the policy would sleep: forecasts grow stale.
        settle_s: A submission whose answer was lost is believed not to have happened once so long has passed and
            neither queue nor accounting shows its tag. Longer than any sbatch is let run.
        vanish_s: A job that the queue has forgotten and accounting does not know is believed over after so long: a
            controller that lost its last seconds does not remember it later, and a link is missing meanwhile.
        budget_s: Of real time for the decisions of one cycle; the most urgent come first, the rest wait for the next.
        sight_s: Between looks at the machine, and at accounting where no link needs it sooner.
        history_s: How far back accounting is read when the agent begins.
        refusals: Submissions refused in a row until a chain is paused.
        failures: Links that failed early in a row until a chain is paused.
        early_s: A failure within so long of the start is early.
        first_retry_s: After a refusal; doubles with each.
        longest_retry_s: Between tries.
        lease_s: Validity of the lease; another agent may take over after that.
        ready_timeout_s: Of real time for a ready command.
    """

    poll_s: int = MINUTE_S
    busy_poll_s: int = 15
    longest_poll_s: int = 10 * MINUTE_S
    decide_s: int = 5 * MINUTE_S
    longest_sleep_s: int = 2 * HOUR_S
    settle_s: int = 90
    vanish_s: int = 2 * MINUTE_S
    budget_s: float = 2.5
    sight_s: int = 10 * MINUTE_S
    history_s: int = 2 * DAY_S
    refusals: int = 8
    failures: int = 3
    early_s: int = 10 * MINUTE_S
    first_retry_s: int = MINUTE_S
    longest_retry_s: int = HOUR_S
    lease_s: int = 5 * MINUTE_S
    ready_timeout_s: float = 20.0

    def retry_after_s(self, refusals: int) -> int:
        """The wait after so many refusals in a row: 1, 2, 4 … minutes."""
        return int(min(self.first_retry_s * 2 ** max(refusals - 1, 0), self.longest_retry_s))
