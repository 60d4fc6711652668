"""Checks that the packages learning needs are installed, all at once and before the work."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib.metadata import packages_distributions, version
from importlib.util import find_spec

from mirage.errors import ConfigurationError
from mirage.extras import install

NAMES = {"sklearn": "scikit-learn", "torch": "PyTorch", "xgboost": "XGBoost"}
"""Common names of packages whose modules have other names."""


def check_packages(what: str, modules: Iterable[str], extra: str = "learn") -> None:
    """Checks that packages of an extra are installed, without importing them.

    Args:
        what: The part of Mirage that needs them, for the message.
        modules: Names of their modules.

    Raises:
        ConfigurationError: A package is missing.
    """
    missing = [NAMES.get(module, module) for module in sorted(set(modules)) if find_spec(module) is None]
    if missing:
        raise ConfigurationError(
            f"{what} needs {', '.join(missing)}, which {'are' if len(missing) > 1 else 'is'} not installed; "
            f"run: {install(extra)}"
        )


@cache
def installed_version(module: str) -> str:
    """The version of the package that provides a module; empty where it is not installed."""
    found = packages_distributions().get(module, ())
    return version(found[0]) if found else ""
