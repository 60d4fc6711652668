"""Compilation of a tree into a POSIX shell function.

The function ``decide`` reads measured numbers from variables and sets ``answer``. Splits become integer comparisons,
which dash, busybox sh and bash evaluate alike.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from mirage.distill.tree import Leaf, Node, Tree

DERIVED = {
    "expected_wait": "expected_wait=$((slurm_wait * use / 1000))",
    "spare": "spare=$((remaining - expected_wait))",
    "cover": "cover=$((remaining * 1000 / (expected_wait + 1)))",
    "idle_links": "idle_links=$((idle_nodes / link_nodes))",
}
"""Feature → the assignment that computes it, in the order of execution."""

_NEEDS = {"spare": ("expected_wait",), "cover": ("expected_wait",)}
_MEASURES = {"expected_wait": ("slurm_wait", "use"), "idle_links": ("idle_nodes",)}


def measured_names(tree: Tree) -> frozenset[str]:
    """Names of the numbers that a shell has to measure for a tree."""
    found: set[str] = set()
    for name in tree.tested:
        for needed in (*_NEEDS.get(name, ()), name):
            found |= set(_MEASURES.get(needed, () if needed in DERIVED else (needed,)))
    return frozenset(found)


def decide_function(tree: Tree) -> str:
    """The shell function ``decide`` of a tree: it sets ``answer`` to ``wait`` or ``submit``.

    It reads ``remaining``, ``elapsed``, ``slurm_wait``, ``use``, ``pending_jobs``, ``idle_nodes`` and ``link_nodes``,
    as far as the tree tests them. All values are whole numbers.
    """
    derived = {needed for name in tree.tested for needed in (*_NEEDS.get(name, ()), name)}
    lines = [code for name, code in DERIVED.items() if name in derived]
    return "\n".join(["s() { answer=submit; }", "decide() {", "answer=wait", *lines, *_lines(tree.root), "}", ""])


def _lines(node: Node) -> Iterator[str]:
    """The commands of a node; features are whole numbers, so a threshold is rounded up.

    ``answer`` is ``wait`` unless a leaf calls ``s``, which sets it to ``submit``.
    """
    if isinstance(node, Leaf):
        if node.value != "wait":
            yield "s"
        return
    below, above = list(_lines(node.below)), list(_lines(node.above))
    test = f"${node.feature} -lt {math.ceil(node.threshold)}"
    if below:
        yield f"if [ {test} ]; then"
        yield from below
        if above:
            yield "else"
            yield from above
        yield "fi"
    elif above:
        yield f"if [ {test.replace('-lt', '-ge')} ]; then"
        yield from above
        yield "fi"
