"""Patterns of all fields of ``sacct -o ALL``, from 20.11 to 25.11.

They separate the parts of a torn row.
"""

from __future__ import annotations

import re

FREE_TEXT = frozenset(
    {
        *("jobname", "comment", "admincomment", "systemcomment", "submitline", "constraints", "extra"),
        *("workdir", "stdin", "stdout", "stderr", "wckey"),
    }
)
"""Fields that users and sites write, so a separator or a line end may occur in them."""

SEVERAL_LINES = frozenset({"jobname", "comment", "admincomment", "systemcomment", "submitline", "extra"})
"""Those of them that contain line ends in practice: scripts in ``--wrap``, remarks."""

LISTS = frozenset(
    {
        *("jobid", "partition", "nodelist", "flags", "licenses", "reqnodes", "reservationid", "alloctres", "reqtres"),
        *("allocgres", "reqgres"),
    }
)
"""Slurm's own lists: with a comma as the separator they are always torn, like all ``TRESUsage…``."""

JOB_ID = re.compile(r"\d+(?:_(?:\d+|\[[\d,:%.-]*\]))?(?:\+\d+)?(?P<step>\.\S+)?", re.ASCII)
"""``123``, array task ``123_4``, unsplit array ``123_[1,5%2]``, het component ``123+0``; a step has a dot."""

_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d|\d{1,15}|Unknown|None|N/A|)", re.ASCII)
_LIMIT = re.compile(r"((\d+-)?\d+:\d\d(:\d\d)?|UNLIMITED|Partition_Limit|INVALID|Unknown|None|)", re.ASCII)
_MINUTES = re.compile(r"(\d*|UNLIMITED|Partition_Limit|INVALID|Unknown)", re.ASCII)
_CPU_TIME = re.compile(r"((\d+-)?(\d+:)?\d+:\d\d(\.\d+)?|INVALID|)", re.ASCII)
_DIGITS = re.compile(r"\d*", re.ASCII)
_SIZE = re.compile(r"(-?\d+(\.\d+)?[KMGTPE]?[nc]?|Unknown|)", re.ASCII)
_TRES = re.compile(r"([\w/:.-]+=[^=,|\n]+(,|$))*")
_EXIT = re.compile(r"(\d+:\d+|)", re.ASCII)
_WORD = re.compile(r"\S*")
_HOSTS = re.compile(r"None assigned|\S*")
_ANYTHING = re.compile(r".*", re.DOTALL)
_LINE = re.compile(r"[^\n]*")

_SHAPES = {
    "jobid": JOB_ID,
    "jobidraw": re.compile(r"\d+(\.\S+)?|", re.ASCII),
    "nodelist": _HOSTS,
    "submit": re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d|\d{1,15}", re.ASCII),  # every job and step has one
    "state": re.compile(r"[^\n]+"),
    **dict.fromkeys(("eligible", "start", "end"), _TIME),
    **dict.fromkeys(("elapsed", "timelimit", "suspended", "cputime", "reserved", "planned"), _LIMIT),
    **dict.fromkeys(("resvcpu", "plannedcpu"), _LIMIT),
    "timelimitraw": _MINUTES,
    **dict.fromkeys(("systemcpu", "usercpu", "totalcpu", "avecpu", "mincpu"), _CPU_TIME),
    **dict.fromkeys(("elapsedraw", "cputimeraw", "resvcpuraw", "plannedcpuraw", "uid", "gid", "associd"), _DIGITS),
    **dict.fromkeys(("dbindex", "priority", "qosraw", "wckeyid", "ntasks", "restarts", "mincputask"), _DIGITS),
    **dict.fromkeys(("maxdiskreadtask", "maxdiskwritetask", "maxpagestask", "maxrsstask", "maxvmsizetask"), _DIGITS),
    **dict.fromkeys(("nnodes", "ncpus", "alloccpus", "reqcpus", "allocnodes", "reqmem", "averss", "maxrss"), _SIZE),
    **dict.fromkeys(("avevmsize", "maxvmsize", "avepages", "maxpages", "avediskread", "maxdiskread"), _SIZE),
    **dict.fromkeys(("avediskwrite", "maxdiskwrite", "consumedenergy", "consumedenergyraw", "avecpufreq"), _SIZE),
    **dict.fromkeys(("alloctres", "reqtres"), _TRES),
    **dict.fromkeys(("exitcode", "derivedexitcode"), _EXIT),
    **dict.fromkeys(("account", "cluster", "group", "user", "partition", "qos", "qosreq", "flags", "layout"), _WORD),
    **dict.fromkeys(("maxdiskreadnode", "maxdiskwritenode", "maxpagesnode", "maxrssnode", "maxvmsizenode"), _WORD),
    **dict.fromkeys(("mincpunode", "reqcpufreq", "reqcpufreqmin", "reqcpufreqmax", "reqcpufreqgov"), _WORD),
    **dict.fromkeys(("blockid", "licenses", "sluid", "failednode", "segmentsize"), _WORD),
}


def shape_of(field: str) -> re.Pattern[str]:
    """Returns the pattern that cells of a field (lower case) match completely."""
    if field in SEVERAL_LINES:
        return _ANYTHING
    return _TRES if field.startswith("tresusage") else _SHAPES.get(field, _LINE)
