"""Boosted trees of XGBoost, stored as UBJ in model files.

XGBoost is imported only when trees are trained or used.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirage.errors import ConfigurationError, ModelFileError
from mirage.extras import install


def xgboost() -> Any:
    """Returns the package XGBoost if it is installed.

    Raises:
        ConfigurationError: The extra ``predict`` is not installed.
    """
    try:
        import xgboost
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"boosted trees need XGBoost, which is not installed; run: {install('predict')}"
        ) from error
    return xgboost


def trees_as_bytes(booster: Any) -> NDArray[np.uint8]:
    """Returns a booster as the array of bytes that a model file stores, in XGBoost's UBJ."""
    return np.frombuffer(bytes(booster.save_raw("ubj")), dtype=np.uint8)


def trees_from_bytes(content: NDArray[np.uint8]) -> Any:
    """Returns a booster from the array of bytes of a model file.

    Raises:
        ConfigurationError: The extra ``predict`` is not installed.
        ModelFileError: The bytes are not XGBoost's UBJ, or this version of XGBoost cannot read them.
    """
    package = xgboost()
    booster = package.Booster()
    try:
        booster.load_model(bytearray(content.tobytes()))
    except package.core.XGBoostError as error:
        reason = str(error).strip().splitlines()[0]
        raise ModelFileError(f"XGBoost {package.__version__} cannot read the trees of this model: {reason}") from error
    return booster
