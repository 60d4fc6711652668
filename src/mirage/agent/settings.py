"""The agent's settings, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from mirage.agent.site_file import SiteFile
from mirage.duration import DAY_S, HOUR_S, MINUTE_S, UNLIMITED_S
from mirage.job_state import MISSING


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """Times in seconds of the cluster's clock, unless declared as real.

    Attributes:
        poll_s: Between polls of the queue; a site of thousands of users requires no more.
        busy_poll_s: Between polls while a hand-over is under way, or a question to a policy is open.
        notice_s: Delay with which starts, and words of jobs, are noticed where they end the agent's sleep, as in a
            simulation; if missing, a queued link is polled every ``busy_poll_s``, and the delay is twice that.
        longest_poll_s: Maximum between polls, however slow the controller is.
        probe_s: Between attempts while Slurm does not answer or the store cannot be written, less up to a fourth of it
            at random.
        decide_s: Between decisions about one chain, unless the policy requests a longer sleep.
        decisions_per_link: Minimum number of polls and decisions in the time of a link's limit.
        longest_sleep_s: Maximum sleep of a policy: forecasts grow stale.
        settle_s: Time after which a submission without an answer counts as not done, if neither queue nor accounting
            shows its tag. Longer than the maximum time of an sbatch.
        vanish_s: Time after which a job that is missing from queue and accounting counts as ended: a controller that
            lost its last seconds does not find it later, and a link is missing meanwhile.
        runaway_s: The same time where accounting reports it as alive or does not answer: records come late, and the end
            of a job can be missing from them permanently.
        wait_for_answers_s: Real time that a cycle waits for policies; later answers are used in the next one.
        answer_s: Real time without an answer until the fall-back decides.
        fresh_s: An answer about a view older than this is not used.
        sight_s: Between queries of the machine, of reservations, and of accounting where no link needs it sooner.
        options_s: Between queries of the scheduler's options.
        history_s: Length of the accounting history that is read when the agent begins.
        longest_history_s: Its final length, reached step by step: the days from which forecasts draw.
        refusals: Submissions refused in a row until a chain is paused.
        failures: Links that failed early in a row until a chain is paused.
        quick_ends: Links that ended early in a row, with whatever exit code, until a chain is paused.
        early_s: An end within this time of the start, and within a fourth of the limit, is early.
        first_retry_s: Wait after a refusal; doubles with each.
        longest_retry_s: Maximum wait between attempts.
        pass_every_s: Time between passes of ``mirage agent once``, in which no agent runs; 0 for a resident agent.
        site: Rules of the site file; ``under`` applies them to the times.
        lease_s: Validity of the lease, renewed at least four times in it, also during a sleep; another agent may take
            over after that.
        ready_timeout_s: Real time for a ready command.
        calibrate_every_s: Between calibrations of the simulator to this cluster; 0 for none.
        calibrate_cpu_s: Processor time for one: ten times that of a calibration with 100,000 jobs.
        calibrate_real_s: Real time for one: accounting may be slow, and it has the lowest priority.
        calibrate_mib: Memory for one.
    """

    poll_s: int = MINUTE_S
    busy_poll_s: int = 15
    notice_s: int = MISSING
    longest_poll_s: int = 10 * MINUTE_S
    probe_s: int = 20
    decide_s: int = 5 * MINUTE_S
    decisions_per_link: int = 100
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
    pass_every_s: int = 0
    site: SiteFile = field(default_factory=SiteFile)
    lease_s: int = 4 * MINUTE_S
    ready_timeout_s: float = 20.0
    calibrate_every_s: int = 7 * DAY_S
    calibrate_cpu_s: int = 2 * HOUR_S
    calibrate_real_s: float = 12.0 * HOUR_S
    calibrate_mib: int = 4096

    def under(self, site: SiteFile) -> AgentSettings:
        """The settings under the rules of a site, which make polls rarer and never more frequent.

        With a least time between polls, a link without an answer is missing in a snapshot for that much longer.
        """
        least_s = site.least_poll_s
        return replace(
            self,
            site=site,
            poll_s=max(self.poll_s, least_s),
            busy_poll_s=max(self.busy_poll_s, least_s),
            longest_poll_s=max(self.longest_poll_s, least_s),
            probe_s=max(self.probe_s, least_s),
            settle_s=self.settle_s + least_s,
            vanish_s=self.vanish_s + least_s,
            calibrate_every_s=0 if site.is_login_node() else self.calibrate_every_s,
        )

    def retry_after_s(self, refusals: int) -> int:
        """The wait after a number of refusals in a row: 1, 2, 4 … minutes."""
        return int(min(self.first_retry_s * 2 ** max(refusals - 1, 0), self.longest_retry_s))

    def interval_s(self, limit_s: int) -> int:
        """The time between decisions about links of a limit, shorter for short links."""
        if not 0 < limit_s < UNLIMITED_S:
            return self.decide_s
        return max(min(limit_s // self.decisions_per_link, self.decide_s), self.busy_poll_s)

    def early_end_s(self, limit_s: int) -> int:
        """The run time under which the end of a link of a limit is early."""
        return min(self.early_s, limit_s // 4) if 0 < limit_s < UNLIMITED_S else self.early_s
