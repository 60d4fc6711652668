"""A tree as a policy that runs, and that a reader can change.

Its text is the one that ``mirage explain`` writes and ``mirage.distill.tree_text`` describes. The answers are ``wait``
and ``submit``, the features those of ``columns``. Settings:

- ``futures``: futures of the forecast for ``wait_p80`` and similar features;
- ``policy`` and ``cost``: the origin of the tree; they have no effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from mirage.distill.tree import Tree
from mirage.distill.tree_reading import tree_of
from mirage.distill.tree_text import reason
from mirage.distill.units import Unit
from mirage.errors import ConfigurationError, MirageError, UnknownName, shown
from mirage.forecast.shared_futures import SharedFutures, shared_futures
from mirage.learn.explain.readable_columns import Column, columns_named, rows_of
from mirage.learn.features.forecast_features import FUTURES, forecast_at
from mirage.learn.features.hand_over_features import features_of
from mirage.policy.contract import Policy
from mirage.policy.plan import Plan, Submit, Wait
from mirage.policy.start_forecast import StartForecast
from mirage.policy.view import ChainView, View
from mirage.provision.policies.lead_rules import chain_of, plan_without_choice
from mirage.sim.cluster import Limit
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings

WAIT, SUBMIT = "wait", "submit"
ANSWERS = (WAIT, SUBMIT)

FUTURES_KEY, POLICY_KEY, COST_KEY = "futures", "policy", "cost"
SETTINGS = (POLICY_KEY, COST_KEY, FUTURES_KEY)
"""Known settings."""

_CACHED_TREES = 8
_LONGEST_BYTES = 1_000_000


class TreeRule:
    """Decides by a tree; the reason is the path to the answer.

    Args:
        tree: A tree of the features in ``columns``.
        futures: The futures of the queue, shared by all chains; None where the tree uses none.

    Raises:
        UnknownName: A feature does not exist.
        ConfigurationError: The tree needs a forecast and ``futures`` is None.
    """

    def __init__(self, tree: Tree, futures: SharedFutures | None) -> None:
        self.tree = tree
        self._columns = used_columns(tree)
        self._forecasts = any(column.needs_forecast for column in self._columns)
        if self._forecasts and futures is None:
            raise ConfigurationError("the tree needs a forecast, and there is none; give futures")
        self.futures = futures

    def decide(self, view: View) -> Plan:
        """Returns the plan that the tree gives."""
        chain = chain_of(view)
        if (plan := plan_without_choice(view, chain)) is not None:
            return plan
        row, forecast = self._row(view, chain)
        leaf = self.tree.leaf_of(row)
        path = f"tree:{reason(self.tree, row)}"
        estimate = {"remaining_s": float(chain.ends_s - view.now_s)}
        for column in self._columns:
            unit = "_s" if column.feature.unit is Unit.DURATION else ""
            estimate[column.feature.name + unit] = row[column.feature.name]
        if leaf.value == SUBMIT:
            return Plan((Submit(reason=path),), estimate, forecast)
        until_s = min(view.now_s + chain.step_s, chain.ends_s)
        return Plan((Wait(reason=path, until_s=until_s),), estimate, forecast)

    def _row(self, view: View, chain: ChainView) -> tuple[dict[str, float], StartForecast | None]:
        """The inputs of the tree, and its forecast; None for a tree that uses no forecast."""
        forecast = None
        if self._forecasts:
            assert self.futures is not None
            forecast = forecast_at(self.futures, view, chain)
        values, names = features_of(view, forecast)
        remaining_s = np.array([chain.ends_s - view.now_s], dtype=np.int64)
        row = rows_of(self._columns, values[None, :], names, remaining_s)[0]
        return {column.feature.name: float(value) for column, value in zip(self._columns, row)}, forecast


def used_columns(tree: Tree) -> tuple[Column, ...]:
    """The columns that a tree really uses.

    Raises:
        UnknownName: It names a feature that does not exist.
        ConfigurationError: It gives a feature in another unit.
    """
    known = columns_named(tree.features)
    return tuple(column for column in known if column.feature.name in tree.tested)


def tree_from_file(
    path: str,
    *,
    seed: int,
    discipline: str,
    scheduler: SlurmSettings | None,
    limits: Sequence[Limit] = (),
    **unused: Any,
) -> Policy:
    """The policy of a tree in a file; called by ``mirage.learn.policies.policy_file``.

    Raises:
        ConfigurationError: The file cannot be read, or holds no tree that answers wait or submit.
    """
    whole = Path(path).expanduser()
    try:
        stat = whole.stat()
        tree = _read(str(whole.resolve()), path, stat.st_mtime_ns, stat.st_size)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from error
    futures = None
    if any(column.needs_forecast for column in used_columns(tree)):
        futures = shared_futures(futures_of(tree), seed, discipline, scheduler, tuple(limits))
    return TreeRule(tree, futures)


@lru_cache(maxsize=_CACHED_TREES)
def _read(path: str, shown_path: str, mtime_ns: int, size: int) -> Tree:
    """Reads a tree; an unchanged file is read once."""
    if size > _LONGEST_BYTES:
        raise ConfigurationError(f"{shown_path} has {size:,} bytes; a readable tree has a few thousand")
    return tree_rule_of(Path(path).read_text(encoding="utf-8-sig", errors="replace"), shown_path)


def tree_rule_of(text: str, source: str = "tree") -> Tree:
    """Reads a tree with the answers, features and settings of hand-overs.

    Raises:
        ConfigurationError: The tree has others, or the text is no tree; the message begins with the source.
    """
    tree = tree_of(text, source)
    try:
        check_hand_over_tree(tree)
    except MirageError as error:
        raise ConfigurationError(f"{source}: {error}") from None
    return tree


def check_hand_over_tree(tree: Tree) -> None:
    """Checks that a tree can decide about hand-overs.

    Raises:
        UnknownName: A feature, an answer or a setting is not known.
        ConfigurationError: It answers numbers, gives a feature in another unit, or a setting cannot be read.
    """
    if isinstance(tree.answers, Unit):
        raise ConfigurationError(
            "the tree answers numbers, as those of mirage distill do, which schedule stages; a policy of chains "
            f"answers {' or '.join(ANSWERS)}: mirage explain makes one"
        )
    for answer in tree.answers:
        if answer not in ANSWERS:
            raise UnknownName("answer", answer, ANSWERS)
    columns_named(tree.features)
    for key, _ in tree.settings:
        if key not in SETTINGS:
            raise UnknownName("setting", key, SETTINGS)
    futures_of(tree)


def futures_of(tree: Tree) -> int:
    """Number of futures of a tree's forecasts.

    Raises:
        ConfigurationError: The setting is not a number above 0.
    """
    text = dict(tree.settings).get(FUTURES_KEY, str(FUTURES))
    if not (text.isascii() and text.isdecimal()) or not 0 < int(text) <= 100_000:
        raise ConfigurationError(f"setting 'futures' is {shown(text)}; give a number of futures, such as 32")
    return int(text)
