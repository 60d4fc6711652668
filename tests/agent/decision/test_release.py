"""The release of held links: all by one command, and each one's refusal its own."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from mirage.agent.decision.decide import release
from mirage.agent.model import Chain, Link, LinkState
from mirage.errors import SlurmRefused, SlurmUnreachable
from tests.support.one_chain import NOW_S, OneChain, Slurm, held, running

FREE = {"Dependency": ""}


class Controller(Slurm):
    """Refuses a whole command because of one of its jobs, as scontrol does; or is silent."""

    def __init__(self, refused: Sequence[int] = (), *, silent_after: int = 99) -> None:
        super().__init__()
        self.refused, self.silent_after = refused, silent_after

    def update(self, job: int | list[int], changes: dict[str, str]) -> None:
        if len(self.calls) >= self.silent_after:
            raise SlurmUnreachable("scontrol had no answer")
        self.calls.append(("update", job, changes))
        if any(number in self.refused for number in ([job] if isinstance(job, int) else job)):
            raise SlurmRefused("Job/step already completing or completed")


def three(slurm: Slurm) -> tuple[OneChain, list[tuple[Chain, Link]]]:
    world = OneChain(running(1), held(2))
    world.context.backend = slurm
    chains = [world.chain, *(world.other(n, running(1), held(2, job=100 * n + 2)) for n in (2, 3))]
    return world, [(chain, world.context.links[chain.id][1]) for chain in chains]


def states(world: OneChain) -> list[LinkState]:
    world.chain  # noqa: B018 - store and cycle agree
    return [world.store.rows[number, 2].state for number in (1, 2, 3)]


HELD, QUEUED = LinkState.HELD, LinkState.QUEUED


def test_links_are_released_by_one_command() -> None:
    slurm = Controller()
    world, links = three(slurm)
    assert release(world.context, links) == {}
    assert slurm.calls == [("update", [102, 202, 302], FREE)]
    assert states(world) == [QUEUED, QUEUED, QUEUED]
    assert {world.store.rows[number, 2].released_s for number in (1, 2, 3)} == {NOW_S}
    assert [(e.chain, e.kind, e.detail) for e in world.store.reported] == [
        (n, "released", f"job {n}02: its dependency is cleared") for n in (1, 2, 3)
    ]


def test_nothing_to_release_is_no_command() -> None:
    slurm = Controller()
    assert release(three(slurm)[0].context, []) == {}
    assert slurm.calls == []


def test_one_that_is_refused_does_not_stop_the_others_from_it() -> None:
    slurm = Controller([202])
    world, links = three(slurm)
    refused = release(world.context, links)
    assert refused == {2: "job 202 cannot be released: Job/step already completing or completed"}
    assert slurm.calls == [("update", job, FREE) for job in ([102, 202, 302], 102, 202, 302)]
    assert states(world) == [QUEUED, HELD, QUEUED]
    assert world.context.chains[2].next_decision_s == NOW_S + 15
    assert [(e.chain, e.kind) for e in world.store.reported] == [
        (1, "released"),
        (2, "release-refused"),
        (3, "released"),
    ]


def test_the_only_one_is_refused_by_one_command() -> None:
    slurm = Controller([102])
    world, links = three(slurm)
    assert "already completing" in release(world.context, links[:1])[1]
    assert len(slurm.calls) == 1
    assert states(world)[0] is HELD


@pytest.mark.parametrize(("silent_after", "released"), [(0, [HELD, HELD, HELD]), (2, [QUEUED, HELD, HELD])])
def test_a_controller_that_is_away_leaves_what_it_did_not_answer(silent_after: int, released: list[LinkState]) -> None:
    slurm = Controller([202], silent_after=silent_after)
    world, links = three(slurm)
    refused = release(world.context, links)
    assert states(world) == released
    assert sorted(refused) == [n + 1 for n, state in enumerate(released) if state is HELD]
    assert "scontrol had no answer" in refused[3]
    assert world.context.chains[3].next_decision_s == NOW_S + 15
