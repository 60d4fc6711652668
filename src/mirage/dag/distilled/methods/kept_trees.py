"""A journal of the trees that an interrupted fit has finished."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from mirage.dag.resumption import Kept
from mirage.distill.tree import Leaf, Node, Tree
from mirage.distill.tree_reading import tree_of
from mirage.distill.tree_text import text_of


class KeptTrees(dict[tuple[int, int], Tree]):
    """Trees by leaves and round; each is on disk as soon as it is set.

    Args:
        kept: The journal; the trees in it are present from the start.
        method: The method that fits them; those of other methods may be in the same file.
    """

    def __init__(self, kept: Kept, method: str) -> None:
        self._kept, self._name = kept, f"trees by {method}"
        for name, told in kept.finished.get(self._name, {}).items():
            leaves, _, turn = name.partition("/")
            super().__setitem__((int(leaves), int(turn)), _tree(told))

    def __setitem__(self, key: tuple[int, int], tree: Tree) -> None:
        super().__setitem__(key, tree)
        told = {"text": text_of(tree), "shares": [leaf.share for leaf in tree.leaves]}
        self._kept.keep(**{self._name: {**self._kept.finished.get(self._name, {}), f"{key[0]}/{key[1]}": told}})


def _tree(told: dict[str, Any]) -> Tree:
    tree = tree_of(told["text"])
    return replace(tree, root=_with_shares(tree.root, iter(told["shares"])))


def _with_shares(node: Node, shares: Iterator[float | None]) -> Node:
    if isinstance(node, Leaf):
        return replace(node, share=next(shares))
    below = _with_shares(node.below, shares)
    return replace(node, below=below, above=_with_shares(node.above, shares))
