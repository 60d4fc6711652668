"""Text of ``sacct -P``, with any field list, with or without a header line.

Every row that is a job becomes a row of the table, even if its identifier occurred before: ``sacct -D``
shows each attempt of a requeued job, and the attempts remain separate rows, in order. An array that is not
yet split (``123_[1-3]``) is one row, as in Slurm. Steps are counted and left out.
"""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from mirage.errors import LineError, TraceError, quantity, shortened, shown
from mirage.slurm_words.timestamps import LocalClock
from mirage.trace.formats.decompress import numbered_lines
from mirage.trace.formats.read_report import ReadTally
from mirage.trace.formats.sacct_row import RowParser
from mirage.trace.formats.table_builder import TableBuilder
from mirage.trace.formats.torn_rows import Rejoiner
from mirage.trace.table import JobTable

XDMOD_FIELDS = (
    *("jobid", "jobidraw", "cluster", "partition", "qos", "account", "group", "gid", "user", "uid"),
    *("submit", "eligible", "start", "end", "elapsed", "exitcode", "state"),
    *("nnodes", "ncpus", "reqcpus", "reqmem", "reqtres", "alloctres", "timelimit", "nodelist", "jobname"),
)
"""The fields that XDMoD's shredder requests, which it stores without a header."""

_REJOINED = "row with {} inside a field, put together again"
_CONTINUED = "row with line ends inside a field, put together again"
NOT_ENDED = "last line without a line end (sacct writes one; is the file cut short?)"
IDENTIFIERS = frozenset({"jobid", "jobidraw"})


def read_sacct(
    data: bytes, tally: ReadTally, clock: LocalClock, fields: Sequence[str] | None, delimiter: str = "|"
) -> JobTable:
    """Reads the jobs in the output of ``sacct -P`` (or ``-p``).

    Args:
        data: The text.
        tally: Receives the counts and unreadable rows.
        clock: The zone of the cluster.
        fields: The field list of a text without a header; 26 unnamed fields are assumed to be XDMoD's.
        delimiter: Separator between the cells, as given to ``sacct --delimiter``.

    Raises:
        TraceError: The fields are unknown; or reading is strict and a row cannot be read.
    """
    numbered = numbered_lines(data, tally)
    rows = TableBuilder()
    first = next(numbered, None)
    if first is not None:
        header = _Header(*first, tally, fields, delimiter)
        lines = LineReader(_with_one_heading(numbered, first[0], header, tally))
        if not header.is_line:
            lines.push_back([first])
        tally.header += header.is_line
        _read_rows(lines, header, tally, clock, rows)
        tally.notes.update([NOT_ENDED] * (not data.endswith(b"\n")))
    return rows.table(tally)


def _with_one_heading(
    lines: Iterator[tuple[int, str]], first: int, header: _Header, tally: ReadTally
) -> Iterator[tuple[int, str]]:
    """Yields the lines; every further heading with the same columns becomes the first one.

    Raises:
        TraceError: A heading names other columns: the rows after it would be read by the wrong ones.
    """
    names = _plain(header.names)
    for number, line in lines:
        if header.delimiter in line and "jobid" in line.lower():
            cells = _plain(line.removesuffix(header.delimiter).split(header.delimiter))
            if IDENTIFIERS & set(cells) and all(cell.isalpha() for cell in cells):
                if cells != names:
                    raise tally.other_heading(number, f"line {first}" if header.is_line else "--fields")
                line = header.line if header.is_line else line
        yield number, line


def _read_rows(lines: LineReader, header: _Header, tally: ReadTally, clock: LocalClock, rows: TableBuilder) -> None:
    parser = RowParser(header.names, clock, tally.notes)
    form = _RowForm(header, Rejoiner(header.names, clock, header.delimiter), tally)
    for number, line in lines:
        if header.is_line and line == header.line:  # repeated where files were concatenated
            tally.header += 1
            continue
        try:
            cells = form.cells(line, lines)
            if parser.is_step(cells):
                tally.steps += 1
            else:
                rows.append(number, parser.job(cells))
        except LineError as bad:
            tally.reject(number, bad)
    tally.check_clusters(parser.clusters)


class _Header:
    """Names of the columns, from the first line or from the caller.

    Attributes:
        names: As written.
        is_line: Whether the first line is the header.
        line: The first line.
        trails: Whether rows end with a delimiter (``sacct -p``).
    """

    def __init__(self, number: int, line: str, tally: ReadTally, fields: Sequence[str] | None, delimiter: str) -> None:
        self.line, self.delimiter, self.trails = line, delimiter, line.endswith(delimiter)
        cells = line.removesuffix(delimiter).split(delimiter)
        self.is_line = bool(IDENTIFIERS & {cell.strip().lower() for cell in cells})
        if self.is_line:
            self.names: Sequence[str] = cells
            if fields is not None and _plain(fields) != _plain(cells):
                own = shortened(delimiter.join(cells), 80)
                raise TraceError(
                    f"{tally.path}:{number}: the first line names its own fields ({own}), "
                    "and other fields were given; leave them out (--fields)"
                )
            return
        if is_padded(line):
            raise TraceError(
                f"{tally.path}:{number}: its columns have a fixed width, which cuts long values; make it with sacct -P"
            )
        self.names = XDMOD_FIELDS if fields is None else fields
        self.trails = len(line.split(delimiter)) == len(self.names) + 1 and line.endswith(delimiter)
        if fields is not None and not IDENTIFIERS & set(_plain(fields)):
            named = ",".join(fields)
            raise TraceError(f"{tally.path}:{number}: the fields {named} hold no JobID; name all, separated by commas")
        if fields is None and line.count(delimiter) < len(XDMOD_FIELDS) - 1:
            raise TraceError(
                f"{tally.path}:{number}: no header with a JobID, and {quantity(len(cells), 'field')} without names; "
                "give the field list that sacct was called with, and its --delimiter if it had one"
            )


def is_padded(line: str) -> bool:
    """Whether a line is the heading of sacct without -P: columns of a fixed width."""
    words = [word for word in line.lower().split(" ") if word]
    return len(words) > 1 and bool(IDENTIFIERS & set(words)) and all(word.isalpha() for word in words)


def _plain(fields: Sequence[str]) -> list[str]:
    """The names of fields in lower case, without widths."""
    return [name.partition("%")[0].strip().lower() for name in fields]


class _RowForm:
    """Splits rows into cells, whatever the cells contain."""

    def __init__(self, header: _Header, rejoiner: Rejoiner, tally: ReadTally) -> None:
        self._delimiter, self._trails = header.delimiter, header.trails
        self._header_line = header.line if header.is_line else None
        self._width, self._rejoiner, self._tally = len(header.names), rejoiner, tally
        self._ends_in_several_lines = rejoiner.ends_in_several_lines
        self._rejoined = _REJOINED.format(header.delimiter)

    def cells(self, line: str, lines: LineReader) -> list[str]:
        """Returns the cells of a row; takes further lines if the row spans them.

        Raises:
            LineError: The cells are ambiguous, or there are too few.
        """
        cells = self._split(line)
        if len(cells) < self._width:
            found, further = continuation(line, lines, self._begins_row, self._joined)
            if found is None:
                cell_count = f"{len(cells)} of {self._width}, in {shown(line)}"
                raise LineError("too few fields", cell_count, "the line is cut short, or a name holds a line break")
            self._note_continued(further)
            return found
        if len(cells) > self._width:
            cells = self._rejoiner.rejoin(cells)
            self._tally.notes[self._rejoined] += 1
        if self._ends_in_several_lines:
            self._append_what_follows(cells, lines)
        return cells

    def _append_what_follows(self, cells: list[str], lines: LineReader) -> None:
        """Append lines that are not rows to the last field, if that is free text."""
        further = 0
        for following in lines:
            if self._begins_row(following[1]) or len(self._split(following[1])) >= self._width:
                lines.push_back([following])
                break
            cells[-1] += f"\n{following[1]}"
            further += 1
        if further:
            self._note_continued(further)

    def _note_continued(self, further: int) -> None:
        self._tally.continued += further
        self._tally.notes[_CONTINUED] += 1

    def _split(self, line: str) -> list[str]:
        cells = line.split(self._delimiter)
        if not cells[-1] and (self._trails or len(cells) == self._width + 1):
            cells.pop()
        if self._delimiter == "," and len(cells) > self._width and '"' in line:  # saved again by another program
            with suppress(csv.Error):
                quoted = next(csv.reader([line]))
                cells = quoted if len(quoted) == self._width else cells
        return cells

    def _begins_row(self, line: str) -> bool:
        return line == self._header_line or self._rejoiner.begins_row(self._split(line))

    def _joined(self, text: str) -> list[str] | None:
        if text.count(self._delimiter) < self._width - 1:
            return None
        try:
            return self._rejoiner.rejoin(self._split(text))
        except LineError:
            return None


_MOST_LINES = 200
"""A row of more lines is assumed to be truncated."""


@dataclass
class LineReader:
    """Numbered lines with a push-back buffer.

    Attributes:
        source: The lines that are not blank.
    """

    source: Iterator[tuple[int, str]]
    _returned: deque[tuple[int, str]] = field(default_factory=deque)

    def __iter__(self) -> LineReader:
        return self

    def __next__(self) -> tuple[int, str]:
        return self._returned.popleft() if self._returned else next(self.source)

    def push_back(self, lines: Sequence[tuple[int, str]]) -> None:
        """Push lines back, so that they come next again."""
        self._returned.extendleft(reversed(lines))


def continuation(
    line: str, lines: LineReader, begins_row: Callable[[str], bool], read: Callable[[str], list[str] | None]
) -> tuple[list[str] | None, int]:
    """Returns the cells of a row that begins with a short line, and the count of lines added.

    Args:
        line: The first line.
        lines: Those that follow; lines that do not belong to the row are put back.
        begins_row: Whether a line begins a row of its own.
        read: Returns the cells of a row in these lines, ``None`` if they are not a row.
    """
    taken: list[tuple[int, str]] = []
    while len(taken) < _MOST_LINES and (following := next(lines, None)) is not None:
        if begins_row(following[1]):
            lines.push_back([following])
            break
        taken.append(following)
        if (cells := read("\n".join([line, *(text for _, text in taken)]))) is not None:
            return cells, len(taken)
    lines.push_back(taken)
    return None, 0
