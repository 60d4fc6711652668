"""Names of the features that hold the quantiles of a forecast."""

from __future__ import annotations

import re

from mirage.errors import ConfigurationError, shown

_QUANTILE = re.compile(r"gap_q(\d\d)_h")


def forecast_columns(names: tuple[str, ...]) -> tuple[str, ...]:
    """The features that hold quantiles of a forecast outcome, by rising level.

    Raises:
        ConfigurationError: There are fewer than two such features.
    """
    found = tuple(sorted(name for name in names if _QUANTILE.fullmatch(name)))
    if len(found) < 2:
        raise ConfigurationError(
            f"a correction needs the quantiles of a forecast, such as gap_q50_h; the data have {shown(names)}; "
            "make them with forecasts"
        )
    return found


def levels_of(names: tuple[str, ...]) -> tuple[float, ...]:
    """Levels of the quantiles in such features.

    Raises:
        ConfigurationError: A feature holds no quantile.
    """
    found = []
    for name in names:
        match = _QUANTILE.fullmatch(name)
        if match is None:
            raise ConfigurationError(f"feature {shown(name)} holds no quantile of a forecast; train the model again")
        found.append(int(match[1]) / 100)
    return tuple(found)
