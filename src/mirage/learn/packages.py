"""The packages that learning needs: what is missing is said before the work, and all of it at once."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib.metadata import packages_distributions, version
from importlib.util import find_spec

from mirage.errors import ConfigurationError

NAMES = {"sklearn": "scikit-learn", "torch": "PyTorch", "xgboost": "XGBoost"}
"""What people call a package, where that is not the name of its module."""


def check_packages(what: str, modules: Iterable[str]) -> None:
    """See that packages of the extra ``learn`` are installed; none is imported.

    Args:
        what: What needs them.
        modules: Names of their modules.

    Raises:
        ConfigurationError: One is not.
    """
    missing = [NAMES.get(module, module) for module in sorted(set(modules)) if find_spec(module) is None]
    if missing:
        raise ConfigurationError(
            f"{what} needs {', '.join(missing)}, which {'are' if len(missing) > 1 else 'is'} not installed; "
            'run: pip install "mirage-hpc[learn]"'
        )


@cache
def installed_version(module: str) -> str:
    """The version of the package that a module is of; empty where it is not installed."""
    found = packages_distributions().get(module, ())
    return version(found[0]) if found else ""
