"""``mirage agent``: the process that manages all chains of a user."""

from __future__ import annotations

from mirage.cli.lazy import LazyCommand, LazyGroup
from mirage.cli.options import CONTEXT, examples

_HERE = "mirage.cli.commands.agent"

agent = LazyGroup(
    name="agent",
    lazy={
        "start": LazyCommand(f"{_HERE}.agent_start:start", "Start the agent if none runs."),
        "status": LazyCommand(f"{_HERE}.agent_status:status", "Where the agent runs, and its present outage."),
        "stop": LazyCommand(f"{_HERE}.agent_start:stop", "End the agent of this host."),
        "run": LazyCommand(f"{_HERE}.agent_run:run", "Manage the chains in the foreground."),
        "once": LazyCommand(f"{_HERE}.agent_once:once", "Manage all chains once and end: for cron or a timer."),
        "install": LazyCommand(f"{_HERE}.agent_install:install", "Install what starts passes, or the agent's jobs."),
        "recover": LazyCommand(f"{_HERE}.agent_recover:recover", "Rebuild a lost or damaged store."),
        "rebind": LazyCommand(f"{_HERE}.agent_status:rebind", "Bind the store to a controller that has moved."),
    },
    context_settings=CONTEXT,
    help="Start, stop and find the agent that manages all your chains.",
    epilog=examples("mirage agent start", "mirage agent status"),
)
