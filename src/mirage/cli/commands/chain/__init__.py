"""``mirage chain``: look at chains, and steer them."""

from __future__ import annotations

from mirage.cli.lazy import LazyCommand, LazyGroup
from mirage.cli.options import CONTEXT, examples

_HERE = "mirage.cli.commands.chain"

chain = LazyGroup(
    name="chain",
    lazy={
        "list": LazyCommand(f"{_HERE}.list:list_", "All chains, and how they stand."),
        "show": LazyCommand(f"{_HERE}.show:show", "One chain: its links over time, and what comes next."),
        "log": LazyCommand(f"{_HERE}.show:log", "What happened to a chain."),
        "explain": LazyCommand(f"{_HERE}.show:explain", "What the last decisions saw, expected and chose."),
        "report": LazyCommand(f"{_HERE}.show:report", "The chain as one HTML file."),
        "pause": LazyCommand(f"{_HERE}.steer:pause", "Let what runs run, and submit nothing more."),
        "resume": LazyCommand(f"{_HERE}.steer:resume", "Go on after a pause."),
        "stop": LazyCommand(f"{_HERE}.steer:stop", "End a chain and its jobs."),
        "rm": LazyCommand(f"{_HERE}.rm:rm", "Remove a chain that is done, and free its name."),
    },
    context_settings=CONTEXT,
    help="Look at chains, and steer them.",
    epilog=examples("mirage chain list", "mirage chain show train-k3f9", "mirage chain stop train-k3f9"),
)
