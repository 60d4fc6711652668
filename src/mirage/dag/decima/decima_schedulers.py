"""Deep schedulers: ``decima`` draws decisions, ``decima-argmax`` takes the likeliest.

Each takes a file of weights, ``decima:FILE``: one of the published ones (npz), or a model of ``mirage train decima``;
``decima:own`` is our model, which ships with the package. ``decima`` alone takes the file in the environment variable
``MIRAGE_DECIMA_WEIGHTS``.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from mirage.dag.decima.network_file import DECIMA_2019, SPARK_SCHED_SIM, read_network, read_published
from mirage.dag.decima.networks import decima_2019, graph_network, spark_sched_sim
from mirage.dag.decima.networks.layers import Perceptrons
from mirage.dag.decima.networks.workspace import Extent, workspace
from mirage.dag.schedulers.stage_schedulers import StageScheduler, make_scheduler
from mirage.errors import ConfigurationError, ModelFileError

WEIGHTS_VARIABLE = "MIRAGE_DECIMA_WEIGHTS"
"""Environment variable: the default file of weights of ``decima`` and ``decima-argmax``."""

OWN = "own"
"""Architecture of the networks of ``mirage train decima``, and name of the shipped one."""

SHIPPED = Path(__file__).with_name("own.safetensors")

PUBLISHED_NAME = "spark_sched_sim_decima_weights.npz"
"""The file of weights that is expected next to a file of profiles."""


def decima(text: str, given: Sequence[str]) -> StageScheduler:
    """The scheduler that draws its decisions, in the form of ``stage_schedulers``.

    Raises:
        ConfigurationError: No file of weights is given.
        ModelFileError: The file contains none.
    """
    return _scheduler(text, given, argmax=False)


def decima_argmax(text: str, given: Sequence[str]) -> StageScheduler:
    """The scheduler that takes the likeliest decision; see `decima`."""
    return _scheduler(text, given, argmax=True)


def read_weights(path: str) -> tuple[str, Perceptrons]:
    """The architecture and the layers in a file of any known kind.

    Raises:
        ConfigurationError: It is one of our models, and the extra ``predict`` is not installed.
        ModelFileError: It contains no known network.
    """
    file = SHIPPED if path == OWN else Path(path)
    if not file.is_file():
        raise ModelFileError(f"{path}: no such file; give published weights (npz) or a model of 'mirage train decima'")
    return _read(str(file), file.stat().st_mtime_ns)


def with_weights(text: str, weights: str | None, profiles: str | None) -> StageScheduler:
    """Makes a scheduler; ``decima`` and ``decima-argmax`` may get their file separately.

    Args:
        text: Its name and parameters.
        weights: The file of weights, if given.
        profiles: A file of profiles, whose folder may contain the published weights.

    Raises:
        ConfigurationError: See ``mirage.dag.schedulers.stage_schedulers.make_scheduler``.
        ModelFileError: The file contains no weights.
    """
    if text not in ("decima", "decima-argmax"):
        return make_scheduler(text)
    if weights is None and WEIGHTS_VARIABLE not in os.environ and profiles is not None:
        published = Path(profiles).with_name(PUBLISHED_NAME)
        weights = str(published) if published.is_file() else None
    return make_scheduler(text) if weights is None else replace(make_scheduler(f"{text}:{weights}"), name=text)


def scheduler_of(name: str, architecture: str, net: Perceptrons, *, argmax: bool) -> StageScheduler:
    """Makes a scheduler of a network."""
    from mirage.dag.decima import deciders  # imported here because it compiles

    decider, network = {
        DECIMA_2019: (deciders.decide_2019, decima_2019),
        SPARK_SCHED_SIM: (deciders.decide_spark_sched_sim, spark_sched_sim),
        OWN: (deciders.decide_own, graph_network),
    }[architecture]
    space = workspace(net, network.FEATURES, network.WIDTH, argmax=argmax)
    return StageScheduler(name, decider, space, seeded=not argmax, most_jobs=Extent().jobs)


@lru_cache(maxsize=8)
def _read(path: str, changed_ns: int) -> tuple[str, Perceptrons]:
    if zipfile.is_zipfile(path):
        return read_published(path)
    return OWN, read_network(path)


def _scheduler(text: str, given: Sequence[str], *, argmax: bool) -> StageScheduler:
    path = ":".join(given) or os.environ.get(WEIGHTS_VARIABLE, "")
    if not path:
        raise ConfigurationError(
            f"{text} needs a file of weights; write {text}:FILE, or {text}:own for our model, or set {WEIGHTS_VARIABLE}"
        )
    return scheduler_of(text, *read_weights(path), argmax=argmax)
