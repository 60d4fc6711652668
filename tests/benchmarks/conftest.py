"""Modules of the benchmarks, importable by name."""

import sys
from pathlib import Path

sys.path += [str(Path(__file__).parents[2] / "benchmarks" / folder) for folder in ("forecast", "waits")]
