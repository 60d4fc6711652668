"""One job from ``scontrol show job``, with the options of sbatch that it shows.

The form of several lines has a line of its own for each path and for the command, which may contain spaces.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mirage.duration import parse_limit_s
from mirage.errors import ConfigurationError
from mirage.slurm.sbatch_options import OPTIONS, Chosen, parse_sbatch
from mirage.slurm.text.machine import first_pairs
from mirage.slurm_words.absent import text_of
from mirage.slurm_words.numbers import count_of

NOT_SHOWN = ("signal", "open-mode", "propagate", "gpu-bind", "kill-on-invalid-dep")
"""Options of sbatch that change a job, and that ``scontrol show job`` does not show."""

_LINES = ("Command", "SubmitLine", "WorkDir", "Comment", "StdErr", "StdIn", "StdOut")
_STREAMS = {"output": "StdOut", "error": "StdErr", "input": "StdIn"}
_NAME = re.compile(r"^JobId=\S+ (?:(?:Array|HetJob)\w+=\S+ )*JobName=(.*)$")
_OF_NO_LINK = ("array", "begin", "deadline", "dependency", "help", "parsable", "quiet", "test-only", "verbose", "wait",
               "wrap")  # fmt: skip
_FAMILIES = (("gres", "gpus-per-node", "gpus"), ("mem", "mem-per-cpu", "mem-per-gpu"))


@dataclass(frozen=True, slots=True)
class JobDetails:
    """A job as the controller describes it.

    Attributes:
        row: The fields of its description, absent ones left out.
        name: Its name.
        command: Path and arguments of its script, joined by spaces; empty where sbatch made the script.
        submit_line: The command line of its submission (since Slurm 25.05); empty where it is not shown.
        directory: Its working directory.
        comment: Its comment.
    """

    row: Mapping[str, str]
    name: str
    command: str
    submit_line: str
    directory: str
    comment: str

    @property
    def number(self) -> int:
        """Slurm's id."""
        return count_of(self.row.get("JobId", "0"))

    @property
    def user(self) -> str:
        """Name of its user."""
        return self.row.get("UserId", "").partition("(")[0]

    @property
    def is_batch(self) -> bool:
        """Whether it has a batch script: not so for srun and salloc."""
        return self.row.get("BatchFlag") not in (None, "0")


def read_job_details(output: str) -> JobDetails:
    """The job in the output of ``scontrol show job ID``.

    Raises:
        ConfigurationError: The output describes no job, or several.
    """
    records = re.split(r"\n\s*\n(?=JobId=)", output.strip())
    if len(records) != 1 or not records[0].startswith("JobId="):
        raise ConfigurationError(
            f"scontrol show job shows {len(records)} jobs for this number; give the number of a single job, not of an "
            "array or of a heterogeneous job"
        )
    lines = [line.strip() for line in records[0].splitlines()]
    whole = {name: line.partition("=")[2] for line in lines for name in _LINES if line.startswith(f"{name}=")}
    named = _NAME.match(lines[0])
    pairs = " ".join(line for line in lines[1:] if not line.startswith(tuple(f"{name}=" for name in _LINES)))
    head = lines[0].partition("JobName=")[0]
    row = {name: text_of(value) for name, value in first_pairs(f" {head} {pairs}").items()}
    row |= {name: text_of(value) for name, value in whole.items()}
    return JobDetails(
        {name: value for name, value in row.items() if value},
        named[1] if named else "",
        text_of(whole.get("Command", "")),
        text_of(whole.get("SubmitLine", "")),
        whole.get("WorkDir", ""),
        text_of(whole.get("Comment", "")),
    )


def options_shown(job: JobDetails) -> Chosen:
    """The options of sbatch that would request a job's resources, as Slurm shows them."""
    row = job.row
    shown: Chosen = {}
    for field, option in (
        ("Partition", "partition"), ("Account", "account"), ("QOS", "qos"), ("Features", "constraint"),
        ("ReqNodeList", "nodelist"), ("ExcNodeList", "exclude"), ("Licenses", "licenses"),
        ("Reservation", "reservation"), ("TimeMin", "time-min"), ("NumNodes", "nodes"), ("MailUser", "mail-user"),
        ("MailType", "mail-type"), ("Network", "network"),
    ):  # fmt: skip
        if field in row:
            shown[option] = row[field]
    if row.get("TimeLimit", "Partition_Limit") != "Partition_Limit":
        shown["time"] = row["TimeLimit"]
    shown |= {"job-name": job.name} if job.name else {}
    if count_of(row.get("NumTasks", "0")) > count_of(row.get("NumNodes", "1").partition("-")[0], 1):
        shown["ntasks"] = row["NumTasks"]
    a_node = row.get("NtasksPerN:B:S:C", "0").partition(":")[0]
    for option, text, least in (("ntasks-per-node", a_node, 1), ("cpus-per-task", row.get("CPUs/Task", "0"), 2)):
        if count_of(text) >= least:
            shown[option] = text
    for field, option in (("MinMemoryNode", "mem"), ("MinMemoryCPU", "mem-per-cpu")):
        if row.get(field, "0") not in ("0", "0M"):
            shown[option] = row[field]
    for field, option in (("TresPerNode", "gres"), ("TresPerJob", "gpus"), ("TresPerTask", "gpus-per-task"),
                          ("CpusPerTres", "cpus-per-gpu"), ("MemPerTres", "mem-per-gpu")):  # fmt: skip
        if field in row:
            shown |= _of_tres(option, row[field])
    exclusive: dict[str, Chosen] = {
        "NO": {"exclusive": None}, "USER": {"exclusive": "user"}, "MCS": {"exclusive": "mcs"},
        "YES": {"oversubscribe": None},
    }  # fmt: skip
    shown |= exclusive.get(row.get("OverSubscribe", ""), {})
    shown |= {"contiguous": None} if row.get("Contiguous") == "1" else {}
    shown |= {"no-requeue": None} if row.get("Requeue") == "0" else {}
    shown |= {"nice": row["Nice"]} if row.get("Nice", "0") != "0" else {}
    return shown | _files(job)


def _of_tres(option: str, text: str) -> Chosen:
    """``gres:gpu:a100:4`` or ``gres/gpu:4`` as the value of an option."""
    words = [re.sub(r"^gres[:/]", "", word) for word in text.split(",") if re.match(r"gres[:/]", word)]
    if option != "gres":
        words = [word.removeprefix("gpu").lstrip(":=") for word in words if word.startswith("gpu")]
    return {option: ",".join(words)} if any(words) else {}


def _files(job: JobDetails) -> Chosen:
    """The files of standard streams that are no defaults."""
    default = {
        "output": f"{job.directory}/slurm-{job.number}.out",
        "error": job.row.get("StdOut"),
        "input": "/dev/null",
    }
    return {option: _general(job, option) for option, field in _STREAMS.items()
            if job.row.get(field, default[option]) != default[option]}  # fmt: skip


def _general(job: JobDetails, option: str) -> str:
    """The file of a standard stream; the job's number in an output is ``%j``."""
    file = job.row[_STREAMS[option]]
    return file if option == "input" else re.sub(rf"(?<!\d){job.number}(?!\d)", "%j", file)


def other_files(job: JobDetails, given: Chosen) -> Chosen:
    """The files of standard streams, where the given options name others.

    Of a pattern, the job's number, name and user are known; its other fields may have any value.
    """
    number = f"0*{job.number}"
    known = {"%": "%", "A": number, "j": number, "u": re.escape(job.user), "x": re.escape(job.name)}
    others: Chosen = {}
    for option, field in _STREAMS.items():
        pattern = Path(given.get(option) or "")
        name = re.sub(r"%\d*([%A-Za-z])", lambda match: known.get(match[1], ".*"), re.escape(str(pattern)))
        where = "" if pattern.is_absolute() else re.escape(f"{job.directory}/")
        if given.get(option) and field in job.row and not re.fullmatch(where + name, str(Path(job.row[field]))):
            others[option] = _general(job, option)
    return others


def options_of_line(submit_line: str, job: JobDetails) -> Chosen | None:
    """The options in the command line of a submission; None where it is ambiguous.

    Slurm joins the words by spaces, without quotes: a value with spaces shows by a script that is not the job's.
    """
    try:
        options, script, _ = parse_sbatch(submit_line.split()[1:])
    except ConfigurationError:
        return None
    if "wrap" not in options:
        path = script if script is None or script.startswith("/") else f"{job.directory}/{script}"
        plain = (job.command or "").split(" ")[0]
        if script is None or not (job.command.startswith(path or "/") or plain.endswith(f"/{script}")):
            return None
    return {name: value for name, value in options.items() if name in OPTIONS and name not in _OF_NO_LINK}


def differing(shown: Chosen, base: Chosen) -> Chosen:
    """The options shown that other sources do not give, or give with another value.

    Args:
        shown: As ``options_shown`` returns them.
        base: The options of script, environment and command line.
    """
    return {name: value for name, value in shown.items() if not _is_given(name, value, base)}


def _is_given(name: str, value: str | None, base: Chosen) -> bool:
    if name in ("output", "error", "input") and name in base:
        return True  # a pattern, of which Slurm shows the name of the file: see ``other_files``
    family = next((members for members in _FAMILIES if name in members), (name,))
    given = next((member for member in family if member in base), "")
    if not given:
        return name == "nodes" and value == "1"
    other = base[given] or ""
    if name == "time":
        try:
            return -(-parse_limit_s(other) // 60) == -(-parse_limit_s(value or "") // 60)
        except ConfigurationError:
            return False
    if name == "nodes":
        least, _, most = other.partition("-")
        return count_of(least) <= count_of((value or "").partition("-")[0]) <= count_of(most or least)
    if family == _FAMILIES[1]:
        return True  # Slurm shows it in another unit, and sites round it
    if family == _FAMILIES[0]:
        return sorted(re.findall(r"\d+$", other)) == sorted(re.findall(r"\d+$", value or ""))
    return name in ("exclusive", "nodelist", "exclude", "constraint", "licenses") or other == (value or "")
