"""Compilation of a tree into a POSIX shell function.

The function ``decide`` reads measured numbers from variables and sets ``answer``. A tree becomes one term of integer
arithmetic, which dash, busybox sh and bash evaluate alike.
"""

from __future__ import annotations

import math

from mirage.distill.tree import Leaf, Node, Tree

DERIVED = {
    "expected_wait": "expected_wait=$((slurm_wait*use/1000))",
    "spare": "spare=$((remaining-expected_wait))",
    "cover": "cover=$((remaining*1000/(expected_wait+1)))",
    "idle_links": "idle_links=$((idle_nodes/link_nodes))",
}
"""Feature → the assignment that computes it, in the order of execution."""

_NEEDS = {"spare": ("expected_wait",), "cover": ("expected_wait",)}
_MEASURES = {"expected_wait": ("slurm_wait", "use"), "idle_links": ("idle_nodes",), "age_retained": ("slurm_wait",)}


def measured_names(tree: Tree) -> frozenset[str]:
    """Names of the numbers that a shell has to measure for a tree."""
    found: set[str] = set()
    for name in tree.tested:
        for needed in (*_NEEDS.get(name, ()), name):
            found |= set(_MEASURES.get(needed, () if needed in DERIVED else (needed,)))
    return frozenset(found)


def decide_function(tree: Tree) -> str:
    """The shell function ``decide`` of a tree: it sets ``answer`` to ``wait`` or ``submit``.

    It reads ``remaining``, ``elapsed``, ``slurm_wait``, ``use``, ``pending_jobs``, ``idle_nodes``, ``link_nodes`` and
    ``age_retained``, as far as the tree tests them. All values are whole numbers.
    """
    derived = {needed for name in tree.tested for needed in (*_NEEDS.get(name, ()), name)}
    lines = [code for name, code in DERIVED.items() if name in derived]
    answer = f"[ $(({_term(tree.root)})) = 0 ] || answer=submit"
    return "\n".join(["decide() {", "answer=wait", *lines, answer, "}", ""])


def _term(node: Node) -> str:
    """The arithmetic term of a node, 1 for ``submit``.

    Features are whole numbers, so a threshold is rounded up.
    """
    if isinstance(node, Leaf):
        return str(int(node.value != "wait"))
    below, above = _term(node.below), _term(node.above)
    threshold = math.ceil(node.threshold)
    if below == above:
        return below
    if {below, above} == {"0", "1"}:
        return f"{node.feature}{'<' if below == '1' else '>='}{threshold}"
    return f"{node.feature}<{threshold}?{below}:{above}"
