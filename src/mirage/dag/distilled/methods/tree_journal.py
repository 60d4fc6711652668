"""A journal of the trees that an interrupted fit has finished."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from mirage.distill.tree import Leaf, Node, Tree
from mirage.distill.tree_reading import tree_of
from mirage.distill.tree_text import text_of
from mirage.study.work_journal import WorkJournal


class TreeJournal(dict[tuple[int, int], Tree]):
    """Trees by leaves and round; each is on disk as soon as it is set.

    Args:
        journal: The journal; the trees in it are present from the start.
        method: The method that fits them; those of other methods may be in the same file.
    """

    def __init__(self, journal: WorkJournal, method: str) -> None:
        self._journal, self._name = journal, f"trees by {method}"
        for name, stored in journal.finished.get(self._name, {}).items():
            leaves, _, turn = name.partition("/")
            super().__setitem__((int(leaves), int(turn)), _tree(stored))

    def __setitem__(self, key: tuple[int, int], tree: Tree) -> None:
        super().__setitem__(key, tree)
        stored = {"text": text_of(tree), "shares": [leaf.share for leaf in tree.leaves]}
        self._journal.store(
            **{self._name: {**self._journal.finished.get(self._name, {}), f"{key[0]}/{key[1]}": stored}}
        )


def _tree(stored: dict[str, Any]) -> Tree:
    tree = tree_of(stored["text"])
    return replace(tree, root=_with_shares(tree.root, iter(stored["shares"])))


def _with_shares(node: Node, shares: Iterator[float | None]) -> Node:
    if isinstance(node, Leaf):
        return replace(node, share=next(shares))
    below = _with_shares(node.below, shares)
    return replace(node, below=below, above=_with_shares(node.above, shares))
