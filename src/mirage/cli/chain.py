"""``mirage chain``: look at chains, and steer them."""

from __future__ import annotations

from mirage.cli.lazy import LazyCommand, LazyGroup
from mirage.cli.options import CONTEXT, examples

chain = LazyGroup(
    name="chain",
    lazy={
        "list": LazyCommand("mirage.cli.chain_list:list_", "All chains, and how they stand."),
        "show": LazyCommand("mirage.cli.chain_show:show", "One chain: its links over time, and what comes next."),
        "log": LazyCommand("mirage.cli.chain_show:log", "What happened to a chain."),
        "explain": LazyCommand("mirage.cli.chain_show:explain", "What the last decisions saw, expected and chose."),
        "report": LazyCommand("mirage.cli.chain_show:report", "The chain as one HTML file."),
        "pause": LazyCommand("mirage.cli.chain_steer:pause", "Let what runs run, and submit nothing more."),
        "resume": LazyCommand("mirage.cli.chain_steer:resume", "Go on after a pause."),
        "stop": LazyCommand("mirage.cli.chain_steer:stop", "End a chain and its jobs."),
    },
    context_settings=CONTEXT,
    help="Look at chains, and steer them.",
    epilog=examples("mirage chain list", "mirage chain show train-k3f9", "mirage chain stop train-k3f9"),
)
