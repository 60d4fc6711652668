"""Sphinx configuration; `scripts/docs` builds the pages. Those in `reference/` are made at every build."""

import os
import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS))
os.environ["NUMBA_DISABLE_JIT"] = "1"  # kernels are described as the plain functions they are

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

autodoc_typehints = "signature"
napoleon_google_docstring, napoleon_numpy_docstring = True, False
napoleon_use_ivar = True
nitpicky = False

write_pages(DOCS.parent / "src" / "mirage", DOCS / "reference")
