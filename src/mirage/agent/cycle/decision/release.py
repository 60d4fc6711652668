"""The release of held links: clear the dependency, so that they compete for nodes."""

from __future__ import annotations

from collections.abc import Mapping

from mirage.agent.cycle.context import CycleContext
from mirage.agent.model import Chain, Link, LinkState
from mirage.errors import SlurmRefused, SlurmUnreachable

_FREE = {"Dependency": ""}


def release(
    context: CycleContext, links: list[tuple[Chain, Link]], last_troubles: Mapping[int, str] | None = None
) -> dict[int, str]:
    """Release links, by one command unless Slurm refuses one; returns troubles by chain.

    Args:
        last_troubles: Troubles of the last attempt by chain; an unchanged one is not logged again.
    """
    if not links:
        return {}
    refused: dict[int, str] = {}
    try:
        context.backend.update([link.job for _, link in links], _FREE)
    except SlurmUnreachable as error:
        refused = {link.job: str(error) for _, link in links}
    except SlurmRefused as error:
        refused = {links[0][1].job: str(error)} if len(links) == 1 else _release_each(context, links)
    troubles = {c.id: f"job {x.job} cannot be released: {refused[x.job]}" for c, x in links if x.job in refused}
    for chain, link in links:
        if chain.id in troubles:
            again = troubles[chain.id] == (last_troubles or {}).get(chain.id)
            if not again:
                event = context.event(chain.id, link.number, "release-refused", refused[link.job])
                context.change_link(link, event)
            pause_s = context.settings.poll_s if again else context.settings.busy_poll_s
            context.change_chain(chain, next_decision_s=context.now_s + pause_s)
        else:
            event = context.event(chain.id, link.number, "released", f"job {link.job}: its dependency is cleared")
            context.change_link(link, event, state=LinkState.QUEUED, released_s=context.now_s)
    return troubles


def _release_each(context: CycleContext, links: list[tuple[Chain, Link]]) -> dict[int, str]:
    """Refusals by job, after releasing each link alone; stops once Slurm does not answer."""
    refused: dict[int, str] = {}
    for k, (_, link) in enumerate(links):
        try:
            context.backend.update(link.job, _FREE)
        except SlurmRefused as error:
            refused[link.job] = str(error)
        except SlurmUnreachable as error:
            return refused | {unanswered.job: str(error) for _, unanswered in links[k:]}
    return refused
