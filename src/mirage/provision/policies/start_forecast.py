"""Forecast of the next link's start, from futures of the visible queue."""

from __future__ import annotations

import numpy as np

from mirage.duration import DAY_S
from mirage.errors import ConfigurationError
from mirage.job_state import Ints
from mirage.policy.view import Chain, View
from mirage.provision.policies.futures import UseHistory, Uses, chances, days_to_draw, past_arrivals
from mirage.provision.policies.rollout_kernel import roll_out
from mirage.provision.policies.rules import chain_of
from mirage.sim.contract.from_view import newcomers_standing, revive
from mirage.sim.disciplines.registry import discipline_spec
from mirage.sim.jobs import link_record
from mirage.sim.kernel.allocate import empty_like
from mirage.sim.slurm_conf.settings import SlurmSettings

ROOM_FOR_ARRIVALS = 1024

DAYS_AHEAD = 3
"""Arrivals are drawn for so many days; a link that waits longer competes with no new jobs."""

PATIENCE_S = 5 * DAY_S
"""A future in which the link has not started so long after its predecessor's end is as bad as it gets."""


class StartForecast:
    """Plays futures of the visible queue and reads off when the next link starts.

    Args:
        futures: How many futures are played.
        seed: Of the futures; the same seed and view give the same starts.
        discipline: How the cluster orders its queue.
        scheduler: Its scheduler's parameters; None for Slurm's defaults.
        arrivals: Whether jobs yet to be submitted are drawn, or no new ones come.

    Raises:
        ConfigurationError: The scheduler's parameters are of another kind.
        UnknownName: There is no such discipline.
    """

    def __init__(
        self,
        futures: int,
        *,
        seed: int = 0,
        discipline: str = "slurm",
        scheduler: SlurmSettings | None = None,
        arrivals: bool = True,
    ) -> None:
        if not isinstance(scheduler, SlurmSettings | None):
            raise ConfigurationError(f"the scheduler's parameters must be SlurmSettings, got {scheduler!r}")
        self.futures, self.seed, self.arrivals = futures, seed, arrivals
        self.spec = discipline_spec(discipline)
        self.scheduler = scheduler or SlurmSettings()

    def starts_s(self, view: View, delays_s: Ints, patience_s: int = PATIENCE_S) -> Ints:
        """When the next link starts, in each future (rows) if submitted after each delay (columns).

        One that has not started so long after the end of the present link is taken to start then.
        """
        chain = chain_of(view)
        rng = np.random.default_rng([self.seed, view.now_s])
        world, seen, scratch = revive(view, self.spec, self.scheduler, ROOM_FOR_ARRIVALS, view.phase_s)
        uses = _uses(view)
        jobs = len(view.pending) + len(view.running)
        past = past_arrivals(view, jobs)
        link = link_record(
            jobs + len(world.jobs),
            nodes=chain.nodes,
            limit_s=chain.limit_s,
            gpus=chain.gpus,
            cpus=chain.cpus,
            user=chain.user,
        )
        link.partition = chain.partition
        past.boost = link.boost = newcomers_standing(view, self.scheduler)
        back = days_to_draw(view, past) if self.arrivals else 0
        days = rng.integers(1, back + 1, (self.futures, DAYS_AHEAD)) if back else np.zeros((self.futures, 1), np.int64)
        starts_s = np.zeros((self.futures, len(delays_s)), dtype=np.int64)
        roll_out(
            world, seen, empty_like(seen), empty_like(seen), scratch, self.spec.load(),
            uses.samples, uses.stretch, chances(view, self.futures, rng), past, days,
            link, _slot_of(view, chain), delays_s, chain.ends_s + patience_s, starts_s,
        )  # fmt: skip
        return starts_s


def _uses(view: View) -> Uses:
    pending, running = view.pending, view.running
    return UseHistory(view).draw_from(
        np.concatenate([pending.user, running.user]),
        np.concatenate([pending.limit_s, running.limit_s]),
        np.concatenate([pending.done_s, (view.now_s - running.start_s).astype(np.float64)]),
    )


def _slot_of(view: View, chain: Chain) -> int:
    """Where the present link stands among the revived jobs: pending first, then running; −1 if it is gone."""
    ids = np.concatenate([view.pending.id, view.running.id])
    found = np.flatnonzero(ids == chain.predecessor)
    return int(found[0]) if len(found) else -1
