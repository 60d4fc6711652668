"""Wait models by name: built-in, or from the entry points ``mirage.wait_models``.

A model is written as its name, or ``name:parameter``; the path of a file that ``mirage train predict`` wrote is a model
too. An entry point names a ``WaitModelSpec``.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from numpy.typing import ArrayLike

from mirage.array_types import Floats
from mirage.errors import ConfigurationError, UnknownName, shown
from mirage.registry import Registry, call_entry, unusable
from mirage.trace.table import JobTable


@runtime_checkable
class WaitPredictor(Protocol):
    """Predicts the wait of a job from accounting alone.

    It reads no clock and opens no file while it predicts: the present is the job's submission.
    """

    def waits_of_next_s(self, accounts: JobTable, job: JobTable, levels: ArrayLike) -> Floats:
        """Returns quantiles of the wait of a job that is not submitted yet.

        Args:
            accounts: sacct's rows of the last days; rows submitted after the job are not used.
            job: The job, one row: its request, with the present as its submission.
            levels: Shape (k,), ascending, from 0.025 to 0.975.

        Returns:
            Shape (k,), in seconds, not negative, and not descending.
        """
        ...


@dataclass(frozen=True, slots=True)
class WaitModelSpec:
    """Facts about a wait model that are known before it is loaded.

    Attributes:
        entry: ``module:class`` or ``module:function`` that makes it; called with the parameter, if it takes one.
        summary: One line for menus.
        parameter: What the text after the colon means; empty if the model takes none.
    """

    entry: str
    summary: str
    parameter: str = ""

    def make(self, parameter: str = "") -> WaitPredictor:
        """Makes the model.

        Raises:
            ConfigurationError: It cannot be imported, does not take the parameter, or is no wait model.
        """
        if bool(parameter) != bool(self.parameter):
            takes = f"needs {self.parameter} after a colon" if self.parameter else f"takes no {shown(parameter)}"
            raise ConfigurationError(f"the wait model {self.entry} {takes}")
        made = call_entry(self.entry, *([parameter] if self.parameter else []))
        if not isinstance(made, WaitPredictor):
            raise unusable(self.entry, f"makes {shown(made)}, which has no method waits_of_next_s")
        return made


BOOSTED = "boosted"
"""The model that a file stands for; its parameter is the path."""

WAIT_MODELS: dict[str, WaitModelSpec] = {
    BOOSTED: WaitModelSpec(
        "mirage.predict.waits.wait_model:load_wait_model",
        "boosted trees with conformal ranges; the path of the file works too",
        "the path of a file of mirage train predict",
    ),
}
"""Name → specification."""

_REGISTRY = Registry(
    "wait model",
    "mirage.wait_models",
    WAIT_MODELS,
    lambda _, found: found if isinstance(found, WaitModelSpec) else None,
    "a WaitModelSpec",
)


def known_wait_models() -> tuple[str, ...]:
    """Names of the wait models, built-in and of installed packages; imports nothing."""
    return _REGISTRY.names()


def wait_model_spec(name: str) -> WaitModelSpec:
    """The specification of a wait model, by its name without a parameter.

    Raises:
        UnknownName: No wait model has that name.
        ConfigurationError: Two packages declare the name, or one cannot be loaded.
    """
    return _REGISTRY.spec(name)


def make_wait_model(text: str) -> WaitPredictor:
    """Makes a wait model from its name, ``name:parameter``, or the path of a file.

    Raises:
        UnknownName: It is a bare word, and neither a wait model nor a file.
        ConfigurationError: The model cannot be loaded, or the extra ``predict`` is not installed.
        ModelFileError: The file is absent, damaged, foreign, of another kind or newer.
    """
    name, _, parameter = text.partition(":")
    if name in known_wait_models():
        return wait_model_spec(name).make(parameter)
    if not (os.sep in text or Path(text).suffix or Path(text).exists()):
        raise UnknownName("wait model", name, [*known_wait_models(), "the path of a file of mirage train predict"])
    return WAIT_MODELS[BOOSTED].make(text)
