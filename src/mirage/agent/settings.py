"""The agent's settings, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass

from mirage.duration import DAY_S, HOUR_S, MINUTE_S, UNLIMITED_S


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """Times in seconds of the cluster's clock, unless they are said to be real.

    Attributes:
        poll_s: Between looks at the queue; a site of thousands of users asks for no more.
        busy_poll_s: While a hand-over is under way, or a question to a policy is open.
        longest_poll_s: However slow the controller is.
        probe_s: Between tries while Slurm does not answer or the store cannot be written, less up to a fourth of it
            at random.
        decide_s: Between decisions about one chain, unless the policy says that it may sleep longer.
        looks_a_link: A link is looked at, and decided about, so often at least in the time of its limit.
        longest_sleep_s: However long the policy would sleep: forecasts grow stale.
        settle_s: A submission whose answer was lost is believed not to have happened once so long has passed and
            neither queue nor accounting shows its tag. Longer than any sbatch is let run.
        vanish_s: A job that the queue has forgotten and accounting does not know is believed over after so long: a
            controller that lost its last seconds does not remember it later, and a link is missing meanwhile.
        runaway_s: The same, where accounting takes it for alive or does not answer: records come late, and the end of
            a job can be missing from them for ever.
        wait_for_answers_s: Of real time that a cycle waits for policies; what comes later is used in the next.
        answer_s: Of real time without an answer until the fall-back decides.
        fresh_s: An answer about a view older than this is not used.
        sight_s: Between looks at the machine, and at accounting where no link needs it sooner.
        options_s: Between looks at the scheduler's options.
        history_s: How far back accounting is read when the agent begins.
        longest_history_s: And then, step by step: as far as forecasts look for days to draw from.
        refusals: Submissions refused in a row until a chain is paused.
        failures: Links that failed early in a row until a chain is paused.
        quick_ends: Links that ended early in a row, with whatever exit code, until a chain is paused.
        early_s: An end within so long of the start is early, and within a fourth of the limit.
        first_retry_s: After a refusal; doubles with each.
        longest_retry_s: Between tries.
        lease_s: Validity of the lease, renewed four times in it at least, asleep or not; another agent may take over
            after that.
        ready_timeout_s: Of real time for a ready command.
        calibrate_every_s: Between calibrations of the simulator to this cluster; 0 for none.
        calibrate_cpu_s: Of processor time for one: ten times what one of 100,000 jobs takes.
        calibrate_real_s: Of real time for one: accounting may be slow, and it goes behind everybody else.
        calibrate_mib: Of memory for one.
    """

    poll_s: int = MINUTE_S
    busy_poll_s: int = 15
    longest_poll_s: int = 10 * MINUTE_S
    probe_s: int = 20
    decide_s: int = 5 * MINUTE_S
    looks_a_link: int = 100
    longest_sleep_s: int = 2 * HOUR_S
    settle_s: int = 90
    vanish_s: int = 2 * MINUTE_S
    runaway_s: int = HOUR_S
    wait_for_answers_s: float = 2.5
    answer_s: float = 60.0
    fresh_s: int = 5 * MINUTE_S
    sight_s: int = 10 * MINUTE_S
    options_s: int = HOUR_S
    history_s: int = 2 * DAY_S
    longest_history_s: int = 14 * DAY_S
    refusals: int = 8
    failures: int = 3
    quick_ends: int = 8
    early_s: int = 10 * MINUTE_S
    first_retry_s: int = MINUTE_S
    longest_retry_s: int = HOUR_S
    lease_s: int = 4 * MINUTE_S
    ready_timeout_s: float = 20.0
    calibrate_every_s: int = 7 * DAY_S
    calibrate_cpu_s: int = 2 * HOUR_S
    calibrate_real_s: float = 12.0 * HOUR_S
    calibrate_mib: int = 4096

    def retry_after_s(self, refusals: int) -> int:
        """The wait after so many refusals in a row: 1, 2, 4 … minutes."""
        return int(min(self.first_retry_s * 2 ** max(refusals - 1, 0), self.longest_retry_s))

    def interval_s(self, limit_s: int) -> int:
        """The time between decisions about links of a limit: short ones are looked at more often."""
        if not 0 < limit_s < UNLIMITED_S:
            return self.decide_s
        return max(min(limit_s // self.looks_a_link, self.decide_s), self.busy_poll_s)

    def early_end_s(self, limit_s: int) -> int:
        """The run time under which the end of a link of a limit is early."""
        return min(self.early_s, limit_s // 4) if 0 < limit_s < UNLIMITED_S else self.early_s
