"""The job table as Parquet, with nulls for missing values; needs the extra ``parquet``.

Integers are int64 (an unlimited limit is ``UNLIMITED_S``), states and names are dictionary-encoded text.
"""

from __future__ import annotations

import importlib
import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from mirage.array_types import Ints
from mirage.errors import ConfigurationError, LineError, TraceError, UnknownName
from mirage.extras import install
from mirage.job_state import MISSING, JobState
from mirage.slurm_words.states import UNHEARD_STATE, is_known_state, job_state
from mirage.slurm_words.timestamps import LATEST_S, LocalClock
from mirage.slurm_words.unicode import valid_unicode
from mirage.trace.formats.job_table_csv import COLUMNS, check_each_once
from mirage.trace.formats.mapped_csv import LOCAL_TIME
from mirage.trace.formats.plausible_times import without_impossible_times
from mirage.trace.formats.read_report import ReadTally
from mirage.trace.table import INT_COLUMNS, LABEL_COLUMNS, JobTable, Labels

_STATES = {state.name: int(state) for state in JobState}


def _pyarrow(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ConfigurationError(f"Parquet needs pyarrow, which is not installed; run: {install('parquet')}") from error


def read_parquet(data: bytes, tally: ReadTally, clock: LocalClock, *, zone_configured: bool) -> JobTable:
    """Reads the table in a Parquet file; error messages give rows (from 1) instead of lines.

    Args:
        data: The file.
        tally: Receives the counts.
        clock: Reads times without a zone.
        zone_configured: Whether the zone of such times was configured; otherwise they are noted.

    Raises:
        TraceError: The file is damaged, a column is unknown or of the wrong type, or a job has no ``job_id``.
        ConfigurationError: pyarrow is not installed.
    """
    arrow, parquet = _pyarrow("pyarrow"), _pyarrow("pyarrow.parquet")
    tally.unit = "record"
    try:
        names = parquet.read_schema(io.BytesIO(data)).names
    except (arrow.ArrowException, OSError, ValueError, MemoryError) as error:
        raise TraceError(f"{tally.path}:1: not a Parquet file that can be read: {error}") from error
    for name in names:
        if name not in COLUMNS:
            raise TraceError(
                f"{tally.path}:1: {UnknownName('column', name, COLUMNS)} Save it as CSV to map its columns (--columns)"
            )
    check_each_once(names, tally)
    try:
        content = parquet.read_table(io.BytesIO(data))
    except (arrow.ArrowException, OSError, ValueError, MemoryError) as error:
        raise TraceError(f"{tally.path}:1: not a Parquet file that can be read: {error}") from error
    tally.lines += content.num_rows
    columns = {name: _column(content.column(name), name, tally) for name in names}
    for name in names:
        if arrow.types.is_timestamp(kind := content.schema.field(name).type) and kind.tz is None:
            columns[name], count = _in_zone(columns[name], clock)
            if count and not zone_configured:
                tally.notes[LOCAL_TIME] += count
    table = JobTable.build(columns.pop("job_id"), **columns)
    named = np.asarray(table.job_id != "")
    for row in np.flatnonzero(~named).tolist():
        tally.reject(row + 1, LineError("no job id", "null", "every job needs one"))
    rows = np.flatnonzero(named)
    return without_impossible_times(table if named.all() else table[rows], rows + 1, tally)


def _column(column: Any, name: str, tally: ReadTally) -> Any:
    """Returns a column of the file in the form for ``JobTable.build``."""
    arrow = _pyarrow("pyarrow")
    try:
        if name in INT_COLUMNS and name != "state":
            if arrow.types.is_duration(column.type):
                column = column.cast(arrow.duration("s"), safe=False)
            elif arrow.types.is_timestamp(column.type):
                column = column.cast(arrow.timestamp("s", column.type.tz), safe=False)
            elif arrow.types.is_floating(column.type):  # pandas writes an unknown number as NaN
                column = arrow.array(column.to_numpy(), from_pandas=True)
            return column.cast(arrow.int64()).fill_null(MISSING).to_numpy()
        encoded = column.cast(arrow.string()).combine_chunks().dictionary_encode()
        codes = encoded.indices.fill_null(MISSING).to_numpy(zero_copy_only=False).astype(np.int64)
        names = tuple(encoded.dictionary.to_pylist())
    except (arrow.ArrowException, ValueError, MemoryError) as error:
        raise TraceError(f"{tally.path}:1: the column {name} is {column.type}: {error}") from error
    if name == "state":
        unheard = [code for code, word in enumerate(names) if not is_known_state(word)]
        if unheard:
            tally.notes[UNHEARD_STATE] += int(np.isin(codes, unheard).sum())
        return np.array([*map(job_state, names), JobState.UNKNOWN])[codes]
    if name == "job_id":
        return np.array([*names, ""], dtype=np.str_)[codes]
    if "" not in names:
        return Labels(codes, names)
    return Labels.of([names[code] if code >= 0 else None for code in codes.tolist()])


def _in_zone(local_s: Ints, clock: LocalClock) -> tuple[Ints, int]:
    """Returns the instants of local times, given as if in UTC, and their number."""
    known = (local_s >= 0) & (local_s <= LATEST_S)
    texts = np.datetime_as_string(local_s[known].astype("datetime64[s]")).tolist()
    found = local_s.copy()
    found[known] = [clock.seconds(text) for text in texts]
    return found, len(texts)


def parquet_bytes(table: JobTable) -> bytes:
    """Returns the table as a Parquet file.

    Raises:
        ConfigurationError: pyarrow is not installed.
    """
    arrow, parquet = _pyarrow("pyarrow"), _pyarrow("pyarrow.parquet")
    columns: dict[str, Any] = {"job_id": _strings(arrow, table.job_id.tolist())}
    for name in INT_COLUMNS:
        values = getattr(table, name)
        columns[name] = arrow.array(values, arrow.int64(), mask=values == MISSING)
    columns["state"] = _dictionary(arrow, Labels(np.maximum(table.state, MISSING), tuple(_STATES)[1:]))
    for name in LABEL_COLUMNS:
        columns[name] = _dictionary(arrow, getattr(table, name))
    file = io.BytesIO()
    parquet.write_table(arrow.table(columns), file, compression="zstd")
    return file.getvalue()


def _dictionary(arrow: Any, labels: Labels) -> Any:
    indices = arrow.array(labels.codes, arrow.int32(), mask=labels.codes < 0)
    return arrow.DictionaryArray.from_arrays(indices, _strings(arrow, labels.names))


def _strings(arrow: Any, texts: Sequence[str]) -> Any:
    """Returns texts in UTF-8, as Parquet needs."""
    return arrow.array([valid_unicode(text) for text in texts], arrow.string())
