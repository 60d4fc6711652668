"""Sphinx configuration; `scripts/docs` builds the pages, `reference/` from the code."""

import os
import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS))
os.environ["NUMBA_DISABLE_JIT"] = "1"  # kernels are described as the plain functions they are

from quick_python_domain import QuickPythonDomain  # noqa: E402
from reference_pages import write_pages  # noqa: E402

project = "Mirage"
copyright = "the Mirage authors"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_click"]
html_theme = "furo"
exclude_patterns = ["_build"]
myst_heading_anchors = 3
man_pages = [
    ("reference/commands", "mirage", "keep long-running jobs alive on Slurm clusters", "the Mirage authors", 1)
]

autodoc_default_options = {"members": True, "member-order": "bysource", "undoc-members": False}
toc_object_entries = False  # pages list their modules; each page would copy 3,000 names for the tree beside it
autodoc_typehints = "signature"
autodoc_use_type_comments = False  # there are none
napoleon_google_docstring, napoleon_numpy_docstring = True, False
napoleon_use_ivar = True
suppress_warnings = ["ref.python"]  # several classes have an attribute of one name: a link to it is ambiguous

write_pages(DOCS.parent / "src" / "mirage", DOCS / "reference")


def examples_as_they_are_typed(_app: object, _context: object, lines: list[str]) -> None:
    """Show the examples of a command as a literal block, not as lines of text."""
    plain = [line.removeprefix("| ") for line in lines]
    if "Examples:" in plain:
        lines[:] = ["Examples::", "", *plain[plain.index("Examples:") + 1 :]]


def setup(app: Any) -> None:
    """Connect to what sphinx-click reports."""
    app.add_domain(QuickPythonDomain, override=True)
    app.connect("sphinx-click-process-epilog", examples_as_they_are_typed)
