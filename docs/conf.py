"""Sphinx configuration: `sphinx-build -W docs docs/_build`."""

project = "Mirage"
copyright = "the Mirage authors"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
exclude_patterns = ["_build"]
myst_heading_anchors = 3
