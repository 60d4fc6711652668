"""``mirage chain``: list chains, inspect them and control them."""

from __future__ import annotations

from mirage.cli.lazy import LazyCommand, LazyGroup
from mirage.cli.options import CONTEXT, examples

_HERE = "mirage.cli.commands.chain"

chain = LazyGroup(
    name="chain",
    lazy={
        "list": LazyCommand(f"{_HERE}.list:list_", "All chains and their states."),
        "show": LazyCommand(f"{_HERE}.show:show", "One chain: its links over time, and what comes next."),
        "log": LazyCommand(f"{_HERE}.show:log", "What happened to a chain."),
        "explain": LazyCommand(f"{_HERE}.show:explain", "What the last decisions observed, expected and chose."),
        "report": LazyCommand(f"{_HERE}.show:report", "The chain as one HTML file."),
        "edit": LazyCommand(f"{_HERE}.edit_command:edit", "Change the policy, the end or the jobs of a chain."),
        "pause": LazyCommand(f"{_HERE}.steer:pause", "Let the running job finish, and submit no further jobs."),
        "resume": LazyCommand(f"{_HERE}.steer:resume", "Resume after a pause."),
        "stop": LazyCommand(f"{_HERE}.steer:stop", "End a chain and its jobs."),
        "rm": LazyCommand(f"{_HERE}.rm:rm", "Remove a chain that is done, and free its name."),
    },
    context_settings=CONTEXT,
    help="List chains, inspect them and control them.",
    epilog=examples("mirage chain list", "mirage chain show train-k3f9", "mirage chain stop train-k3f9"),
)
