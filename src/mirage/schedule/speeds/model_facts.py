"""Facts about models that measured tables do not contain: restart costs and slowdowns.

The six models of Pollux and Sia have the published values: restart costs as in Sia (SOSP'23), slowdowns from the
calibration of its simulator on real runs. A file ``models.toml`` in the folder of profiles gives them for other models.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from mirage.errors import ConfigurationError

FACTS_FILE = "models.toml"


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """Facts about a model in addition to its tables.

    Attributes:
        restart_s: Seconds lost at a start, a restart or a resize.
        slowdown: Real step time over measured step time.
        epochs: Number of epochs that a job trains; None for all measured epochs.
        max_local: Maximum local batch by GPU type, where it is smaller than the measured one.
    """

    restart_s: float = 30.0
    slowdown: float = 1.0
    epochs: int | None = None
    max_local: Mapping[str, int] = field(default_factory=dict)


PUBLISHED: Mapping[str, ModelFacts] = {
    "bert": ModelFacts(120.0, 1.2, 2),
    "cifar10": ModelFacts(50.0, 1.8, 100),
    "deepspeech2": ModelFacts(25.0, 1.2, 80, {"rtx": 57}),
    "imagenet": ModelFacts(250.0, 1.2, 90),
    "ncf": ModelFacts(15.0, 1.5, 10),
    "yolov3": ModelFacts(80.0, 1.2, 50),
}


def read_facts(folder: Path) -> dict[str, ModelFacts]:
    """Facts by model: the published ones, replaced by those of the folder's own file.

    Raises:
        ConfigurationError: The file cannot be read, or has unknown keys or invalid values.
    """
    path = folder / FACTS_FILE
    if not path.exists():
        return dict(PUBLISHED)
    try:
        declared = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"{path}: {error}; write a table [MODEL] for every model") from error
    return {**PUBLISHED, **{model: _read_model(path, model, keys) for model, keys in declared.items()}}


def _read_model(path: Path, model: str, declared: Any) -> ModelFacts:
    known = [f.name for f in fields(ModelFacts)]
    if not isinstance(declared, dict) or set(declared) - set(known):
        raise ConfigurationError(f"{path}: [{model}] is {declared!r}; its keys are {', '.join(known)}")
    facts = ModelFacts(**declared)
    fits = (
        isinstance(facts.restart_s, int | float)
        and isinstance(facts.slowdown, int | float)
        and facts.restart_s >= 0
        and facts.slowdown > 0
        and (facts.epochs is None or (isinstance(facts.epochs, int) and facts.epochs >= 1))
        and isinstance(facts.max_local, dict)
    )
    if not fits:
        raise ConfigurationError(
            f"{path}: [{model}] is {declared!r}; restart_s is 0 or more, slowdown above 0, epochs 1 or more, max_local "
            "a table of GPU types"
        )
    return facts
