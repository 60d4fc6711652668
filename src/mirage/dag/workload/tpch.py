"""TPC-H queries as jobs: profiles published with Decima (SIGCOMM 2019), in one JSON file."""

from __future__ import annotations

import gzip
import json
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirage.dag.workload.templates import LONGEST_MS, JobTemplate, StageProfile
from mirage.errors import ConfigurationError, reason, shown

SIZES = ("2g", "5g", "10g", "20g", "50g", "80g", "100g")
QUERIES = 22


def read_tpch(path: Path) -> tuple[JobTemplate, ...]:
    """Reads profiles of 22 queries at 7 sizes, in the order of sizes, then queries.

    The file holds, by ``SIZE/qNUMBER``, an ``adjacency`` matrix and per stage ``fresh_durations``, ``first_wave`` and
    ``rest_wave``, each with lists of milliseconds by number of executors. It may be compressed by gzip.

    Raises:
        ConfigurationError: The file cannot be read, or has another form.
    """
    try:
        content = path.read_bytes()
        profiles = json.loads(gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content)
    except (OSError, EOFError, ValueError, zlib.error, RecursionError) as error:
        raise ConfigurationError(
            f"the profiles {path} cannot be read: {reason(error)}; name a JSON file, or a .gz of one"
        ) from error
    names = [f"{size}/q{query}" for size in SIZES for query in range(1, QUERIES + 1)]
    if not isinstance(profiles, dict) or not set(names) <= profiles.keys():
        missing = [name for name in names if not isinstance(profiles, dict) or name not in profiles]
        raise ConfigurationError(
            f"the profiles {path} lack {len(missing)} of {len(names)} jobs, the first {missing[0]}; name another file"
        )
    made = []
    for name in names:
        try:
            made.append(_template(name, profiles[name]))
        except ConfigurationError as error:
            raise ConfigurationError(f"the profiles {path}, {name}: {error}") from error
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise ConfigurationError(
                f"the profiles {path} are not in the form of TPC-H profiles: {name}: {shown(error)}"
            ) from error
    return tuple(made)


def _template(name: str, profile: dict[str, Any]) -> JobTemplate:
    adjacency = np.asarray(profile["adjacency"])
    if adjacency.ndim != 2 or adjacency.shape[0] != adjacency.shape[1]:
        raise ConfigurationError(f"the adjacency has the shape {adjacency.shape}; it must be a square of 0 and 1")
    edges = tuple((int(parent), int(child)) for parent, child in np.argwhere(adjacency))
    measured = profile["task_duration_ms"]
    stages = []
    for stage in range(len(adjacency)):
        try:
            stages.append(_stage(measured[str(stage)]))
        except ConfigurationError as error:
            raise ConfigurationError(f"stage {stage}: {error}") from error
    return JobTemplate(name, edges, tuple(stages))


def _stage(measured: dict[str, dict[str, list[int]]]) -> StageProfile:
    """The profile of a stage; its number of tasks is that of the first listed measurement."""
    if not measured["first_wave"]:
        raise ConfigurationError("nothing was measured in its first wave; a stage has one task at least")
    counted = next(iter(measured["first_wave"]))
    tasks = len(measured["first_wave"][counted]) + len(measured["rest_wave"][counted])
    fresh, first, rest = (
        {int(count): _durations(listed) for count, listed in measured[wave].items()}
        for wave in ("fresh_durations", "first_wave", "rest_wave")
    )
    return StageProfile(tasks, fresh, _without_fresh(first, fresh), rest)


def _durations(listed: list[Any]) -> NDArray[np.int32]:
    """Checks durations in whole milliseconds.

    Raises:
        ConfigurationError: A list entry is not a duration.
    """
    found = np.array(listed)
    is_right = np.zeros(len(listed), bool)
    if found.dtype.kind in "iuf" and found.ndim == 1:
        is_right = (found >= 1) & (found <= LONGEST_MS) & (found == np.floor(found))
    if not is_right.all():
        raise ConfigurationError(
            f"{shown(listed[int(np.argmin(is_right))])} is not the duration of a task; "
            f"give whole milliseconds, 1 to {LONGEST_MS:,}"
        )
    return found.astype(np.int32)


def _without_fresh(
    first: dict[int, NDArray[np.int32]], fresh: dict[int, NDArray[np.int32]]
) -> dict[int, NDArray[np.int32]]:
    """The first wave without the fresh executors' tasks, which are in both.

    Where nothing is left, the result of the next smaller number of executors is used.
    """
    cleaned: dict[int, NDArray[np.int32]] = {}
    smaller = np.zeros(0, np.int32)
    for count in sorted(first):
        left = Counter(first[count].tolist())
        left.subtract(fresh.get(count, smaller[:0]).tolist())
        durations = np.array(list((+left).elements()), np.int32)
        cleaned[count] = smaller = durations if len(durations) else smaller
    return cleaned
