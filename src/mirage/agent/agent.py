"""The agent: a loop that polls, reconciles, submits, decides and hands over, then sleeps.

All its state is in the store and in Slurm. Every chain has its own turn and its own problem: an error of one chain is
stored with it, and does not affect the others. Only a controller or a store that cannot be reached affects all.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

from mirage.agent.background.calibration import SiteCalibration, links_of_auto
from mirage.agent.background.endpoints import InstalledEndpoints
from mirage.agent.background.heartbeat import Heartbeat
from mirage.agent.background.notifications import Notifications
from mirage.agent.background.promised_starts import PromisedStarts
from mirage.agent.cycle.context import CycleContext
from mirage.agent.cycle.handover import (
    Progress,
    ReadinessProbes,
    Shell,
    end_links,
    hand_over,
    next_last_call_s,
    note_end,
    send_signals,
)
from mirage.agent.cycle.poller import Poller
from mirage.agent.cycle.reconcile import Reconciler
from mirage.agent.cycle.retries import pause_if_spent, pause_where_not_allowed
from mirage.agent.cycle.submit import Submissions
from mirage.agent.cycle.transitions import steer
from mirage.agent.cycle.turns import Turns
from mirage.agent.decision.decide import Decider
from mirage.agent.decision.fallback import judge_forecast
from mirage.agent.decision.link_sizing import LinkSizing
from mirage.agent.decision.revision import finish_withdrawal, release_early
from mirage.agent.failure.node_exclusion import exclude_where_links_fail
from mirage.agent.failure.output_reading import OutputReadings
from mirage.agent.model import Chain, ChainState, Cycle, Link, LinkState
from mirage.agent.monitoring.cpu_budget import CpuBudget
from mirage.agent.monitoring.outage import SLURM, STORE, OutageWatch
from mirage.agent.policy_runner.in_process import InProcess
from mirage.agent.policy_runner.question import PolicyRunner
from mirage.agent.settings import AgentSettings
from mirage.agent.store.lease import drop_if_gone
from mirage.agent.store.protocol import Store
from mirage.errors import LeaseHeld, SlurmError, SlurmRefused, SlurmUnreachable, StoreError, StoreGone, WrongCluster
from mirage.job_state import MISSING
from mirage.policy.view import Ended, View
from mirage.real_time import real_s
from mirage.slurm.backend import Backend, cluster_of
from mirage.slurm.hidden_jobs import hidden_jobs
from mirage.slurm.records import Queue
from mirage.slurm.slurm_view import Names, ended_of, view_of, waits_from_release

log = logging.getLogger("mirage.agent")

JUMP_S = 60
"""Difference between the wall clock and the steady one between two polls that counts as a jump."""

UNANSWERED = 2
"""Number of chains in a row without an answer after which squeue checks whether the controller is away."""

MARGIN_S, RECENT_CYCLES = 10, 20
"""A signal is sent this much earlier, plus the longest of the recent cycles: the next one may take as long."""

LAST_MESSAGES_S = 5.0
"""Real time that an agent which ends gives to the messages that are under way."""

FOR_ALL = (LeaseHeld, StoreGone, WrongCluster)
"""Errors that end the agent."""


class Agent:
    """The agent of a store, which keeps all its chains alive.

    Args:
        clock: Wall-clock seconds, on the cluster's time.
        monotonic: Clock of seconds that never goes back, for pacing.
        holder: Name of this agent in the lease: host and process.
        runner: Runs policies; by default in this process.
        submissions: Runs sbatch; by default within the cycle.
        on_cycle: Receives every cycle and its duration, for metrics.
        promised: Adds outcomes of promised starts; None for none.
        calibration: Updates the calibration of this cluster; None for none.
        state_file: File with the present outage for commands; None for none.
        endpoints: Files of proxies that follow chains; None for none.
        notifications: Messages to the users of chains; None for none.
        heartbeat: Requests to a monitor; None for none.
        budget: Budget of processor time; None for none.
        folder: The agent's folder, with the copies of scripts; None for that of each chain's submission.
        outputs: Reads the output of failed links; None for none.
    """

    def __init__(
        self,
        store: Store,
        backend: Backend,
        shell: Shell,
        *,
        clock: Callable[[], float],
        monotonic: Callable[[], float],
        holder: str,
        settings: AgentSettings | None = None,
        runner: PolicyRunner | None = None,
        submissions: Submissions | None = None,
        on_cycle: Callable[[Cycle, float], None] | None = None,
        promised: PromisedStarts | None = None,
        calibration: SiteCalibration | None = None,
        state_file: Path | None = None,
        endpoints: InstalledEndpoints | None = None,
        notifications: Notifications | None = None,
        heartbeat: Heartbeat | None = None,
        budget: CpuBudget | None = None,
        folder: Path | None = None,
        outputs: OutputReadings | None = None,
    ) -> None:
        self.store, self.backend, self.clock, self.monotonic = store, backend, clock, monotonic
        self.holder, self.settings = holder, settings or AgentSettings()
        self.poller = Poller(backend, self.settings)
        self.reconciler, self.probes = Reconciler(), ReadinessProbes(shell)
        self.outputs, self.sizing = outputs, LinkSizing()
        self.budget, self.decider = budget, Decider(real_s, runner or InProcess(), budget, self.sizing)
        self.turns, self.submissions = Turns(self.settings), submissions or Submissions()
        self.names, self.on_cycle = Names(), on_cycle
        self.promised, self.calibration, self.endpoints = promised, calibration, endpoints
        self.folder, self.notifications, self.heartbeat = folder, notifications, heartbeat
        self.outages = OutageWatch(self.settings, holder, state_file, Random(holder).random)
        self._ended: Ended | None = None
        self._took_s: deque[float] = deque([0.0, 0.0], maxlen=3)
        self._cycles_s: deque[float] = deque([0.0], maxlen=RECENT_CYCLES)
        self._answered_s = 0.0
        self._last: tuple[float, float] | None = None
        self._renewed_s = self._tried_s = -1.0

    def cycle(self) -> Cycle:
        """One poll and its consequences; without an answer of Slurm or the store an outage begins.

        Raises:
            LeaseHeld: Another agent has this store.
            StoreGone: The store's file was deleted or replaced.
            WrongCluster: Slurm's commands reach another cluster than that of the chains.
        """
        now_s = int(self.clock())
        self._notice_jumps(now_s)
        try:
            self._renew()
            self._probe()
            cycle, source = self._cycle(now_s), SLURM
            self._cycles_s.append(max(self.clock() - now_s, 0.0))
        except FOR_ALL:
            raise
        except (SlurmError, StoreError) as error:
            cycle, source = Cycle(trouble=str(error)), STORE if isinstance(error, StoreError) else SLURM
        if not cycle.trouble:
            self.outages.end(now_s)
            if self.heartbeat is not None:
                self.heartbeat.beat()
            return cycle
        self.outages.begin(source, cycle.trouble, now_s)
        assert self.outages.current is not None
        return replace(cycle, outage_since_s=self.outages.current.since_s)

    def pause_s(self, cycle: Cycle, took_s: float) -> float:
        """The pause until the next cycle: until the next turn, longer for a slow controller.

        In an outage it is short: the next cycle begins with one small command, or one small write.

        Args:
            took_s: Duration of this cycle's poll; our commands after it do not measure the controller.
        """
        if cycle.trouble:
            return self.outages.pause_s()
        self._took_s.append(took_s)  # one slow answer is an accident; several are a busy controller
        now_s = self.clock()
        pause_s = max(self.turns.next_s(now_s) - now_s, 10 * min(self._took_s))
        if self.budget is not None:
            pause_s = max(pause_s, self.budget.wait_s())
        return max(min(pause_s, self.turns.next_moment_s() - now_s, self.settings.longest_poll_s), 0.0)

    def stand_by(self, sleep: Callable[[float], object], stop: Callable[[], bool]) -> None:
        """Wait until no other agent has the store's lease.

        The lease of an agent on a dead host remains until it expires.

        Raises:
            StoreGone: The store's file was deleted or replaced meanwhile.
        """
        waiting_for = ""
        while not stop():
            try:
                drop_if_gone(self.store)
                self._renew()
                return
            except LeaseHeld as error:
                if not waiting_for:
                    waiting_for = str(error)
                    log.info("standing by", extra={"detail": waiting_for})
            except StoreGone:
                raise
            except StoreError as error:
                log.warning("trouble", extra={"detail": str(error)})
            sleep(self.settings.busy_poll_s)

    def run(self, sleep: Callable[[float], object], stop: Callable[[], bool]) -> None:
        """Cycle until ``stop`` returns true, then return the lease."""
        try:
            try:
                if (gone := drop_if_gone(self.store)) is not None:
                    log.info("lease taken over", extra={"detail": f"from {gone}, which is dead"})
            except FOR_ALL:
                raise
            except StoreError as error:  # the first cycle finds the outage
                log.warning("trouble", extra={"detail": str(error)})
            while not stop():
                begun_s = self.monotonic()
                cycle = self.cycle()
                if self.on_cycle is not None:
                    self.on_cycle(cycle, self.monotonic() - begun_s)
                self.pause(self.pause_s(cycle, self._answered_s), sleep, stop)
        finally:
            self.leave(LAST_MESSAGES_S)

    def leave(self, messages_s: float) -> None:
        """End what the agent has started, and return the lease.

        Args:
            messages_s: Real time for the messages that are under way; the next agent sends the others again.
        """
        self.decider.runner.close()
        for started in (self.calibration, self.endpoints, self.heartbeat):
            if started is not None:
                started.close()
        try:
            if self.notifications is not None:
                self.notifications.finish(self.store, messages_s)
            self.store.drop_lease(self.holder)
        except StoreGone:
            log.info("left", extra={"detail": "the store is gone, and its lease with it"})
        except StoreError as error:
            log.warning("trouble", extra={"detail": f"the lease remains until it expires: {error}"})

    def pause(self, seconds: float, sleep: Callable[[float], object], stop: Callable[[], bool]) -> None:
        """Sleep, and renew the lease meanwhile: it must outlive the longest sleep.

        A store that cannot be written ends the sleep: the next cycle finds the outage.
        """
        left_s = seconds
        while not stop():
            sleep(min(left_s, self.settings.lease_s / 4))
            left_s -= self.settings.lease_s / 4
            if left_s <= 0:
                return
            try:
                self._renew()
            except FOR_ALL:
                raise
            except StoreError:
                return

    def _renew(self) -> None:
        """Take the lease, or renew it."""
        self.store.take_lease(self.holder, self.clock(), self.settings.lease_s)
        self._renewed_s = self.monotonic()
        self.outages.contact(STORE, int(self.clock()))

    def _probe(self) -> None:
        """In an outage of Slurm, run one small command before the poll.

        The queue is still polled in full once in ``longest_poll_s``: a site may not allow the small command.

        Raises:
            SlurmUnreachable: No answer.
        """
        outage = self.outages.current
        if outage is None or outage.source != SLURM:
            return
        if self.monotonic() - self._tried_s < self.settings.longest_poll_s:
            try:
                self.backend.probe()
            except SlurmRefused:
                pass  # an answer
            except SlurmUnreachable:
                self.outages.probes_answered = 0
                raise
            self.outages.probes_answered += 1
        self.poller.forget_silence()

    def _cycle(self, now_s: int) -> Cycle:
        chains = {chain.id: chain for chain in self.store.chains(alive=True)}
        links = group(link for link in self.store.links(open=True) if link.chain in chains)
        open_links = [link for row in links.values() for link in row if link.state is not LinkState.ENDED]
        known = self.store.identity()
        self._tried_s = begun_s = self.monotonic()
        snapshot = self.poller.poll(now_s, known.identity, missing_since_s=self.reconciler.missing_since_s(open_links))
        context = CycleContext(
            self.store,
            self.backend,
            self.settings,
            now_s,
            snapshot,
            chains,
            links,
            margin_s=MARGIN_S + round(max(self._cycles_s)),
            folder=self.folder,
            machine=self.poller.machine,
            reservations=self.poller.reservations,
        )
        if chains and not any(context.job_of(chains[link.chain], link) for link in open_links):
            self.poller.identify(now_s)
        if chains and known.cluster != (cluster := cluster_of(self.poller.options or {})):
            self.store.bind(cluster)
        self._answered_s = self.monotonic() - begun_s
        self.outages.contact(SLURM, now_s)
        if self.outages.current is not None:
            self.turns.forget_silence()
        self.store.record_poll(now_s)
        self.store.backup_if_due(now_s)
        turn = self.turns.begin(chains, now_s)
        self.submissions.forget(chains)
        trouble = self._attend_all(context, turn)
        if self.endpoints is not None:
            self.endpoints.refresh(context)
        if self.notifications is not None:
            self.notifications.update(self.store, now_s)
        late_answers = 0
        self.decider.runner.prepare([c.spec.policy for c in chains.values() if c.state is ChainState.ACTIVE])
        if self.poller.complete and not trouble:
            self.decider.options = self.poller.options or {}
            self._note_hidden_jobs(snapshot.queue)
            late_answers = self._decide(context, turn)
        for number in turn:
            chain = context.chains[number]
            decided = self.poller.complete and number not in self.decider.open
            call_s = next_last_call_s(context, chain)
            self.turns.end(chain, now_s, decided and not context.awaits_start(chain), call_s)
        if trouble:
            self.turns.interrupted(turn)
        if self.promised is not None:
            self.promised.update(self.poller.options, snapshot.queue, self.poller.ended.values())
        if self.calibration is not None:
            self.calibration.update(self.poller.options, now_s, links_of_auto(context))
        return Cycle(len(chains), self.turns.busy, late_answers, trouble)

    def _attend_all(self, context: CycleContext, turn: Sequence[int]) -> str:
        """Attend to the chains with a turn; returns what stops all of them, empty for nothing.

        Signals are sent before anything is submitted: an sbatch takes as long as many signals in one command.
        """
        attended: dict[int, Progress] = {}

        def attend(chain: Chain) -> None:
            attended[chain.id] = self._attend(context, chain)

        def submit(chain: Chain) -> None:
            if chain.id in attended:
                self.turns.progress(chain.id, self._submit(context, chain, attended[chain.id]))

        away = self._for_each(context, turn, attend)
        if not away:
            if context.signals or context.endings:
                self._renew()
            unsent = send_signals(context, context.signals)
            unsent |= end_links(context, [one for one in context.endings if one[0].id not in unsent])
            for number, why in unsent.items():
                attended.pop(number, None)
                self._stumbled(context, number, why, unanswered=True)
            if context.unanswered >= UNANSWERED:
                away = self._controller_is_away() or ""
        if not away:
            away = self._for_each(context, turn, submit)
        for number in turn:
            self._note_trouble(context, number)
        return away

    def _for_each(self, context: CycleContext, turn: Sequence[int], do: Callable[[Chain], None]) -> str:
        """Do something with each of some chains; returns what stops all of them."""
        unanswered = 0
        for number in turn:
            if self.monotonic() - self._renewed_s > self.settings.lease_s / 4:
                self._renew()
            try:
                do(context.chains[number])
                unanswered = 0
            except SlurmUnreachable as error:
                unanswered += 1
                self._stumbled(context, number, str(error), unanswered=True)
                if unanswered >= UNANSWERED:
                    if (away := self._controller_is_away()) is not None:
                        return away
                    unanswered = 0
            except SlurmRefused as error:
                unanswered = 0
                self._stumbled(context, number, str(error))
            except StoreError:
                raise
            except Exception as error:
                log.exception("fault", extra={"chain": context.chains[number].name})
                self._stumbled(context, number, f"a fault of Mirage: {type(error).__name__}: {error}")
        return ""

    def _attend(self, context: CycleContext, chain: Chain) -> Progress:
        """Update one chain from the snapshot, and do what is due for its links."""
        before = {link.number: link.state for link in context.links.get(chain.id, ())}
        self.reconciler.follow(context, chain, self.submissions.under_way.keys())
        for link in context.of(chain, LinkState.RUNNING):
            if before.get(link.number) in (LinkState.HELD, LinkState.QUEUED):
                chain = judge_forecast(context, chain, link, replaced=not self.decider.revises(chain))
                if any(other.state is LinkState.QUEUED for other in context.next_links(chain)):
                    chain = context.change_chain(chain, next_decision_s=0)  # the next one may start at any moment
        release_early(context, chain)
        finish_withdrawal(context, chain)
        ended = [x for x in context.of(chain, LinkState.ENDED) if before.get(x.number) is not LinkState.ENDED]
        chain = pause_where_not_allowed(context, chain)
        for link in ended:
            note_end(context, chain, link)
            chain = exclude_where_links_fail(context, chain, link)
        if self.outputs is not None:
            chain = self.outputs.update(context, chain, ended)
        chain = steer(context, chain, ended, revises=self.decider.revises(chain))
        chain = pause_if_spent(context, chain)
        chain = self.sizing.update(context, chain)
        if chain.state is ChainState.DONE:
            return Progress()
        proxies = (self.endpoints.turn_in_s,) if self.endpoints is not None else ()
        return hand_over(context, chain, self.probes, *proxies)

    def _submit(self, context: CycleContext, chain: Chain, progress: Progress) -> Progress:
        """Submit the planned link of a chain, if any; returns the state of its hand-over."""
        if chain.state is ChainState.ACTIVE or chain.id in self.submissions.under_way:
            self.submissions.submit_planned(context, chain)
        planned = context.of(chain, LinkState.PLANNED)
        waits = any(link.attempted_s == MISSING for link in planned) and context.now_s < chain.next_try_s
        queued = chain.state is not ChainState.DONE and context.awaits_start(chain)
        return Progress(progress.busy or queued or (bool(planned) and not waits), progress.next_s)

    def _controller_is_away(self) -> str | None:
        """The error of squeue where it has no answer; None where it has one."""
        try:
            self.backend.observe()
        except SlurmError as error:
            return str(error)
        return None

    def _decide(self, context: CycleContext, turn: list[int]) -> int:
        """Decide; returns the number of new questions without an answer in this cycle.

        A fault of Mirage in it must not stop the following of chains and hand-overs.
        """
        before = self.decider.last_number
        try:
            self.decider.decide(context, self._view, turn)
            return sum(question.number > before for question in self.decider.open.values())
        except (SlurmError, StoreError):
            raise
        except Exception:
            log.exception("fault", extra={"detail": "in decisions; links follow by their dependency meanwhile"})
            return 0

    def _stumbled(self, context: CycleContext, number: int, what: str, *, unanswered: bool = False) -> None:
        context.troubles[number] = what
        self.turns.stumbled(number, unanswered=unanswered)

    def _note_trouble(self, context: CycleContext, number: int) -> None:
        """Log a chain's problem, once when it begins and once when it is over."""
        chain = context.chains[number]
        what = context.troubles.get(number) or self.decider.trouble(number)
        if chain.state in (ChainState.DONE, ChainState.PAUSED):
            what = ""
        if what == chain.trouble:
            return
        if what:
            log.warning("trouble", extra={"chain": chain.name, "detail": what})
        kind = "trouble" if what else "trouble-over"
        events = () if bool(what) == bool(chain.trouble) else (context.event(number, 0, kind, what),)
        context.change_chain(chain, *events, trouble=what)

    def _note_hidden_jobs(self, queue: Queue) -> None:
        """Log whether the jobs of other users are hidden; then the waits of one's own decide."""
        hidden = hidden_jobs(self.decider.options, queue, self.backend.user, self.poller.unexplained)
        if hidden != self.decider.hidden:
            what = "the jobs of other users are hidden" if hidden else "the jobs of other users are visible again"
            log.warning(what, extra={"detail": hidden})
            self.decider.hidden, self._ended = hidden, None

    def _view(self, context: CycleContext) -> View:
        assert self.poller.machine is not None
        queue, ended = context.snapshot.queue, list(self.poller.ended.values())
        if self.decider.hidden:
            queue, ended = waits_from_release(queue, ended)
        if self.poller.ended_changed or self._ended is None:
            self._ended = ended_of(ended, self.names)
            self.poller.ended_changed = False
        return view_of(queue, self.poller.machine, self._ended, self.names, self.poller.options)

    def _notice_jumps(self, now_s: int) -> None:
        steady_s = self.monotonic()
        if self._last is not None:
            jump_s = (now_s - self._last[0]) - (steady_s - self._last[1])
            if abs(jump_s) > JUMP_S:
                log.warning("clock jumped", extra={"seconds": round(jump_s)})
        self._last = (now_s, steady_s)


def group(links: Iterable[Link]) -> dict[int, list[Link]]:
    """Links by chain, in order."""
    by_chain: dict[int, list[Link]] = {}
    for link in links:
        by_chain.setdefault(link.chain, []).append(link)
    return by_chain
