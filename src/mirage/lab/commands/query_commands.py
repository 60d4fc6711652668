"""``squeue``, ``sacct``, ``sinfo`` and ``sprio``, and their formats of fields."""

from __future__ import annotations

import re
from collections.abc import Mapping

from mirage.job_state import JobState
from mirage.lab.commands.invocation import Failed, Invocation, form_of, midnight_s, read_words, selected
from mirage.lab.commands.output_columns import ACCOUNTS, LIVE, NODES, QUEUE, QUEUE_LETTERS, node_rows
from mirage.lab.virtual.batch_request import read_begin
from mirage.lab.virtual.virtual_slurm import VirtualSlurm

_QUEUE_FORMAT = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
_NODE_FORMAT = "%9P %.5a %.10l %.6D %.6t %N"
_ACCOUNT_FORMAT = "JobID,JobName,Partition,Account,State,ExitCode"


def squeue(slurm: VirtualSlurm, command: Invocation) -> str:
    """``squeue [-h] [-t STATES] [-u USER] [-j JOBS] [-o FORMAT | -O FIELDS]``."""
    names = ["noheader", "all", "states=", "noconvert", "Format=", "format=", "user=", "me", "jobs=", "partition=",
             "name=", "sort=", "long", "array"]  # fmt: skip
    chosen, _ = read_words(command.words, "hat:O:o:u:j:p:n:S:lr", names)
    queue, form = slurm.observe(), form_of(slurm, command)
    jobs = selected(slurm, "squeue", chosen, queue.jobs)
    numbers = chosen.get("jobs", chosen.get("j", ""))
    if wrong := [word for word in numbers.split(",") if numbers and not word.partition("_")[0].isdecimal()]:
        raise Failed(f"squeue: error: Invalid job id: {wrong[0]}")
    if numbers and "," not in numbers and numbers not in {str(job.id) for job in queue.jobs}:
        raise Failed("slurm_load_jobs error: Invalid job id specified")
    wanted = chosen.get("states", chosen.get("t", ""))
    if not wanted and not numbers:
        jobs = [job for job in jobs if job.state in LIVE]
    header = not {"noheader", "h"} & chosen.keys()
    fields = chosen.get("Format", chosen.get("O"))
    layout = read_fields(fields) if fields else read_format(chosen.get("format", chosen.get("o", _QUEUE_FORMAT)))
    lines = ["".join(cell(part, QUEUE[part[0]][0]) if part[0] else part[3] for part in layout)] if header else []
    lines += [
        "".join(cell(part, QUEUE[part[0]][1](job, form)) if part[0] else part[3] for part in layout) for job in jobs
    ]
    return "".join(line + "\n" for line in lines)


def sacct(slurm: VirtualSlurm, command: Invocation) -> str:
    """``sacct [-nXPpa] [-S START] [-E END] [-j JOBS] [-o FIELDS] [--delimiter C]``.

    It shows allocations only.
    """
    names = ["noheader", "parsable2", "parsable", "allocations", "delimiter=", "allusers", "starttime=", "endtime=",
             "format=", "jobs=", "user=", "state=", "duplicates", "noconvert", "name="]  # fmt: skip
    chosen, _ = read_words(command.words, "nPpXaS:E:o:j:u:s:D", names)
    form = form_of(slurm, command)
    began = chosen.get("starttime", chosen.get("S", ""))
    numbers = chosen.get("jobs", chosen.get("j", ""))
    since_s = read_begin(began, form.now_s) if began else 0 if numbers else midnight_s(form.now_s)
    wanted = [word.partition("%") for word in chosen.get("format", chosen.get("o", _ACCOUNT_FORMAT)).split(",")]
    for name, _, _ in wanted:
        if name.lower() not in ACCOUNTS:
            raise Failed(f'sacct: error: Invalid field requested: "{name}"')
    columns = [(*ACCOUNTS[name.lower()], _width(width)) for name, _, width in wanted]
    selection = {**chosen, "state": chosen.get("state", chosen.get("s", ""))}
    over = chosen.get("endtime", chosen.get("E", ""))
    known = slurm.accounting(since_s)
    if over:
        until_s = read_begin(over, form.now_s)
        known = tuple(job for job in known if job.eligible_s < until_s)
    jobs = sorted(selected(slurm, "sacct", selection, known), key=lambda job: job.id)
    rows = [[show(job, form) for _, show, _ in columns] for job in jobs]
    header = not {"noheader", "n"} & chosen.keys()
    parsable = bool({"parsable2", "P", "parsable", "p"} & chosen.keys())
    if parsable:
        rows = [[name for name, _, _ in columns], *rows] if header else rows
        mark = chosen.get("delimiter", "|")
        end = mark if {"parsable", "p"} & chosen.keys() else ""
        return "".join(mark.join(row) + end + "\n" for row in rows)
    widths = [width for _, _, width in columns]
    lines = [[_accounts_cell(value, width) for value, width in zip(row, widths)] for row in rows]
    if header:
        heads = [_accounts_cell(name[: abs(width)], width) for name, _, width in columns]
        lines = [heads, ["-" * abs(width) for width in widths], *lines]
    return "".join(" ".join(line) + " \n" for line in lines)


def _width(text: str) -> int:
    """Width of a column of sacct, negative for a left-aligned one; 10 by default."""
    return int(text) if text.removeprefix("-").isdecimal() and int(text) else 10


def _accounts_cell(value: str, width: int) -> str:
    """A value with its width; a plus sign marks truncation."""
    shown = value if len(value) <= abs(width) else value[: abs(width) - 1] + "+"
    return f"{shown:>{width}}" if width > 0 else f"{shown:<{-width}}"


def sinfo(slurm: VirtualSlurm, command: Invocation) -> str:
    """``sinfo [-hNa] [-t STATES] [-p PARTITION] [-o FORMAT]``."""
    names = ["noheader", "all", "Node", "states=", "format=", "partition=", "exact", "long", "summarize"]
    chosen, _ = read_words(command.words, "haNt:o:p:els", names)
    rows = node_rows(slurm.machine(), bool({"Node", "N"} & chosen.keys()))
    states = [word[:4].lower() for word in chosen.get("states", chosen.get("t", "")).split(",") if word]
    partitions = chosen.get("partition", chosen.get("p", ""))
    rows = [row for row in rows if not states or row.nodes[0].state[:4].rstrip("e") in {s.rstrip("e") for s in states}]
    rows = [row for row in rows if not partitions or row.partition.name in partitions.split(",")]
    layout = read_letters(chosen.get("format", chosen.get("o", _NODE_FORMAT)), NODES)
    header = not {"noheader", "h"} & chosen.keys()
    lines = ["".join(cell(part, NODES[part[0]][0]) if part[0] else part[3] for part in layout)] if header else []
    lines += ["".join(cell(part, NODES[part[0]][1](row)) if part[0] else part[3] for part in layout) for row in rows]
    return "".join(line + "\n" for line in lines)


def sprio(slurm: VirtualSlurm, command: Invocation) -> str:
    """``sprio [-h] [-j JOBS]``: the sum only; the simulator does not store its parts."""
    chosen, _ = read_words(command.words, "hlj:o:u:p:", ["noheader", "long", "jobs=", "format=", "user=", "partition="])
    queue = slurm.observe()
    jobs = [job for job in selected(slurm, "sprio", chosen, queue.jobs) if job.state is JobState.PENDING]
    lines = [] if {"noheader", "h"} & chosen.keys() else [f"{'JOBID':>15} {'PARTITION':<10}{'PRIORITY':>9}"]
    lines += [
        f"{job.id:>15} {job.partition:<10}{int(job.priority):>9}" for job in jobs if 0 <= job.eligible_s <= queue.time_s
    ]
    return "".join(line + "\n" for line in lines)


_WORD = re.compile(r"%(\.?)(\d*)([A-Za-z])")
_FIELD = re.compile(r"([A-Za-z_-]+)(?::(\.?)(\d*)(.*))?", re.DOTALL)

Part = tuple[str, bool, int, str]
"""Field (empty for plain text), whether it is right-aligned, its width (0: natural width), text that follows."""


def cell(part: Part, value: str) -> str:
    """Returns a value with its width and alignment."""
    _, right, width, after = part
    if width:
        value = f"{value[:width]:>{width}}" if right else f"{value[:width]:<{width}}"
    return value + after


def read_fields(text: str) -> list[Part]:
    """Parses ``squeue -O``: ``name[:[.][width][suffix]],…``, 20 wide by default."""
    parts = []
    for word in text.split(","):
        found = _FIELD.fullmatch(word)
        name = found[1].lower() if found else word
        if found is None or name not in QUEUE:
            raise Failed(f"squeue: error: Invalid job format specification: {word}")
        width = 20 if found[2] is None else int(found[3] or "0")
        parts.append((name, bool(found[2]), width, found[4] or ""))
    return parts


def read_format(text: str) -> list[Part]:
    """Parses ``squeue -o``: ``%[.][width]letter`` and plain text between."""
    parts = read_letters(text, QUEUE_LETTERS)
    return [(QUEUE_LETTERS.get(part[0], ""), *part[1:]) if part[0] else part for part in parts]


def read_letters(text: str, known: Mapping[str, object]) -> list[Part]:
    """Parses ``%[.][width]letter``; unknown letters remain as text."""
    parts: list[Part] = []
    at = 0
    for found in _WORD.finditer(text):
        plain = text[at : found.start()]
        parts += [("", False, 0, plain)] if plain else []
        shown = found[3] in known
        parts.append((found[3], bool(found[1]), int(found[2] or "0"), "") if shown else ("", False, 0, found[0]))
        at = found.end()
    return [*parts, ("", False, 0, text[at:])]
