"""Forms of sacct's fields: valid and invalid cells."""

from __future__ import annotations

import pytest

from mirage.trace.formats.field_shapes import FREE_TEXT, SEVERAL_LINES, shape_of

SHAPES = {
    # fields: (cells they may hold, cells they may not)
    ("jobid",): (["7", "7_3", "7_[1,5%2]", "7+0", "7.batch", "7_3.0"], ["", "x", "7_", "7_[a]", "٣"]),
    ("jobidraw",): (["7", "7.extern", ""], ["7_3", "x"]),
    ("nodelist",): (["n[1-2]", "None assigned", ""], ["n1 n2"]),
    ("submit",): (["2024-01-15T08:00:00", "1705305600"], ["", "Unknown", "2024-01-15"]),
    ("eligible", "start", "end"): (["2024-01-15T08:00:00", "1705305600", "Unknown", "None", "N/A", ""], ["soon", "1 "]),
    ("elapsed", "timelimit", "suspended", "cputime", "reserved", "planned", "resvcpu", "plannedcpu"): (
        ["00:00", "1:00:00", "2-00:00:00", "UNLIMITED", "Partition_Limit", "INVALID", "None", ""],
        ["0", "00:01.203", "gpu"],
    ),
    ("timelimitraw",): (["2880", "", "UNLIMITED", "Partition_Limit"], ["1:00", "-1"]),
    ("systemcpu", "usercpu", "totalcpu", "avecpu", "mincpu"): (
        ["00:01.203", "59:58", "3-01:02:03", "INVALID", ""], ["1.5", "UNLIMITED"],
    ),
    ("elapsedraw", "cputimeraw", "resvcpuraw", "plannedcpuraw", "uid", "gid", "associd", "dbindex", "priority",
     "qosraw", "wckeyid", "ntasks", "restarts", "mincputask", "maxdiskreadtask", "maxdiskwritetask", "maxpagestask",
     "maxrsstask", "maxvmsizetask"): (["0", "4048", ""], ["-1", "4K", "gpu"]),
    ("nnodes", "ncpus", "alloccpus", "reqcpus", "allocnodes", "reqmem", "averss", "maxrss", "avevmsize", "maxvmsize",
     "avepages", "maxpages", "avediskread", "maxdiskread", "avediskwrite", "maxdiskwrite", "consumedenergy",
     "consumedenergyraw", "avecpufreq"): (["4", "1.50K", "8000Mc", "4Gn", "-1", "Unknown", ""], ["4 K", "cpu=4"]),
    ("alloctres", "reqtres", "tresusageinave", "tresusageoutmaxnode"): (
        ["", "cpu=4", "billing=4,gres/gpu:a100=2,mem=8G"], ["cpu", "cpu=", "cpu=4|mem=8G"],
    ),
    ("exitcode", "derivedexitcode"): (["0:0", "1:15", ""], ["0", "0:"]),
    ("account", "cluster", "group", "user", "partition", "qos", "qosreq", "flags", "layout", "maxdiskreadnode",
     "maxdiskwritenode", "maxpagesnode", "maxrssnode", "maxvmsizenode", "mincpunode", "reqcpufreq", "reqcpufreqmin",
     "reqcpufreqmax", "reqcpufreqgov", "blockid", "licenses", "sluid", "failednode", "segmentsize"): (
        ["lab", "", "gpu,cpu"], ["two words", "two\nlines"],
    ),
    ("state",): (["COMPLETED", "CANCELLED by 1000"], ["", "COMPLETED\n"]),
    ("workdir", "stdin", "wckey", "constraints", "mcslabel", "unheard"): (["/home/a b", ""], ["two\nlines"]),
    tuple(sorted(SEVERAL_LINES)): (["", "two\nlines", "a | b"], []),
}  # fmt: skip
CELLS = [(field, cell, fits) for fields, (good, bad) in SHAPES.items() for field in fields
         for fits, cells in ((True, good), (False, bad)) for cell in cells]  # fmt: skip


@pytest.mark.parametrize(("field", "cell", "fits"), CELLS)
def test_the_forms_of_a_cell(field: str, cell: str, fits: bool) -> None:
    assert bool(shape_of(field).fullmatch(cell)) is fits


def test_fields_of_several_lines_are_free_text() -> None:
    assert SEVERAL_LINES < FREE_TEXT
    assert {"jobname", "comment", "admincomment", "systemcomment", "submitline", "extra"} == SEVERAL_LINES
