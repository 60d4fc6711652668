"""Policies in files: a model of ``mirage train``, or a tree in text; the content decides."""

from __future__ import annotations

from codecs import BOM_UTF8
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

from mirage.errors import ModelFileError, shown
from mirage.forecast.shared_futures import shared_futures
from mirage.learn.policies.learned_provisioner import LearnedProvisioner
from mirage.learn.ranges import Outside
from mirage.learn.training.methods import METHODS
from mirage.learn.training.trained_policy import TrainedPolicy, read_trained
from mirage.policy.contract import Policy
from mirage.policy.cost import Cost
from mirage.policy.policy_registry import make_policy
from mirage.predict.model_file import TrainedOn
from mirage.provision.link_size import LinkSize
from mirage.provision.policies.what_if import WhatIf
from mirage.sim.cluster import Limit
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings

TEXTS: dict[str, str] = {"tree:": "mirage.learn.explain.tree_rule:tree_from_file"}
"""Beginning of the first line of a text → the function that makes its policy, ``module:function``; it is called like
``policy_from_file``."""

_HEAD = 200
_CACHED_MODELS = 8
"""Number of models cached in memory: an evaluation makes its policies again for every window."""


def policy_from_file(path: str, **settings: Any) -> Policy:
    """The policy in a file.

    Args:
        path: The file; ``~`` is the home folder.
        settings: ``cost``, ``seed``, ``discipline``, ``scheduler`` and ``limits``; see ``PolicySettings``.

    Raises:
        ConfigurationError: A package that the model needs is not installed.
        ModelFileError: The file does not exist, or holds no policy, a damaged one, or one of a newer version.
    """
    whole = Path(path).expanduser()
    if whole.is_dir():
        raise ModelFileError(f"{path}: that is a folder; a policy is a file")
    if not whole.is_file():
        raise ModelFileError(f"{path}: no such file; mirage train makes one, and mirage evaluate --help lists policies")
    head = _head(whole)
    first_line = head.removeprefix(BOM_UTF8).partition(b"\n")[0]
    for beginning, entry in TEXTS.items():
        if first_line.startswith(beginning.encode()):
            module, _, name = entry.partition(":")
            policy: Policy = getattr(import_module(module), name)(path, **settings)
            return policy
    if first_line and first_line.isascii() and b"\0" not in head:  # a model may have a newline among its first bytes
        raise ModelFileError(
            f"{path} is a text that begins with {shown(first_line.decode(errors='replace').strip())}, and no policy "
            "begins so; a model is a file of mirage train, and a tree of mirage explain begins with 'tree:'"
        )
    stat = whole.stat()
    return _learned(_read(str(whole.resolve()), stat.st_mtime_ns, stat.st_size), **settings)


def always_outside(path: str, link: LinkSize, cluster_nodes: int | None) -> Outside | None:
    """What makes every decision of a model about a link unlike its training; None for a tree.

    Raises:
        ModelFileError: As ``policy_from_file``.
    """
    policy = make_policy(path)
    return policy.always_outside(link, cluster_nodes) if isinstance(policy, LearnedProvisioner) else None


def training_data(path: str) -> TrainedOn | None:
    """The training data of a model; None for a tree.

    Raises:
        ModelFileError: As ``policy_from_file``.
    """
    policy = make_policy(path)
    return policy.trained.trained_on if isinstance(policy, LearnedProvisioner) else None


def _head(path: Path) -> bytes:
    """The beginning of a file."""
    try:
        with open(path, "rb") as file:
            return file.read(_HEAD)
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror}") from error


@lru_cache(maxsize=_CACHED_MODELS)
def _read(path: str, mtime_ns: int, size: int) -> TrainedPolicy:
    """Reads a model; an unchanged file is read once."""
    return read_trained(path)


def _learned(
    trained: TrainedPolicy,
    *,
    cost: Cost,
    seed: int,
    discipline: str,
    scheduler: SlurmSettings | None,
    limits: tuple[Limit, ...],
) -> LearnedProvisioner:
    """The provisioner of a model, with the futures that all of its kind share."""
    what_if = WhatIf(cost=cost, seed=seed, discipline=discipline, scheduler=scheduler, limits=limits)
    forecasts = any(METHODS[part.method].forecast for part in trained.parts.values() if part.model)
    futures = None
    if forecasts and trained.futures:
        futures = shared_futures(trained.futures, seed, discipline, scheduler, limits)
    return LearnedProvisioner(trained, cost, what_if, futures)
