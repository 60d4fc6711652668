"""The files that ``mirage evaluate`` writes besides its table."""

from __future__ import annotations

import importlib.util
import io
import json
from typing import Any

from mirage.atomic_file import write_output
from mirage.cli.output import check_distinct, check_output
from mirage.extras import install


def check_outputs(parquet: str | None, plot: str | None, resume: str | None, *inputs: str | None) -> None:
    """Checks before hours of work that the outputs can be written after it.

    Args:
        parquet: The rows, as a file.
        plot: The charts, as a file.
        resume: The folder of results.
        inputs: Files that the command reads.

    Raises:
        ConfigurationError: A package is missing, a file cannot be written, or a picture of that kind cannot be drawn.
    """
    from mirage.errors import ConfigurationError

    if parquet is not None and importlib.util.find_spec("pyarrow") is None:
        raise ConfigurationError(f"Parquet needs pyarrow, which is not installed; run: {install('parquet')}")
    if plot is not None:
        from mirage.report.pages.evaluation_page import kind_of

        kind_of(plot)
    for path in filter(None, (parquet, plot)):
        check_output(path, *inputs)
    check_distinct(parquet, plot, resume)


def write_parquet(report: dict[str, Any], path: str) -> None:
    """Writes the rows as Parquet, with the provenance as metadata of the file.

    Raises:
        ConfigurationError: The file cannot be written.
    """
    import pyarrow
    import pyarrow.parquet

    metadata = json.dumps(
        {key: value for key, value in report.items() if key not in ("rows", "months", "differences", "chains")}
    )
    flat = [{k: list(v) if isinstance(v, tuple) else v for k, v in row.items()} for row in report["rows"]]
    content = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(flat).replace_schema_metadata({"mirage": metadata}), content)
    write_output(path, content.getvalue())
