"""Usages of sbatch: words, scripts and environments, with the expected results."""

from __future__ import annotations

from dataclasses import dataclass, field

REPORT = """\
pwd > "$SLURM_SUBMIT_DIR/seen.txt"
umask >> "$SLURM_SUBMIT_DIR/seen.txt"
ulimit -S -a >> "$SLURM_SUBMIT_DIR/seen.txt"
printf '[%s]\\n' "$#" "$@" >> "$SLURM_SUBMIT_DIR/seen.txt"
cat >> "$SLURM_SUBMIT_DIR/seen.txt"
env -0 > "$SLURM_SUBMIT_DIR/seen.env"
echo out
echo err >&2
"""
"""A job that writes down what it finds around it."""


def script(*lines: str, first: str = "#!/bin/bash") -> bytes:
    """A batch script with these lines before its first command."""
    return "\n".join([first, *lines, REPORT]).encode()


@dataclass(frozen=True)
class Usage:
    """A usage.

    Attributes:
        shown: As the table of the documentation shows it; by default the words as code.
        words: Of the command line, in front of the script and its arguments.
        script: The batch script; None for none.
        name: Of the script's file; empty to hand it in on standard input.
        arguments: Of the script.
        environment: Variables that are set beside those of the process.
        umask: Of the process that submits.
        files: Soft limit of open files of that process.
        ours: Further words for ``mirage submit``, without which it refuses for a reason of its own.
        waits: Whether the job never starts here.
        because: Why there is a difference; empty where there is to be none.
        differences: What differs in the job, where there is one all the same.
    """

    words: tuple[str, ...] = ()
    shown: str = ""
    script: bytes | None = field(default_factory=script)
    name: str = "job.sh"
    arguments: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    umask: int = 0o022
    files: int = 0
    ours: tuple[str, ...] = ()
    waits: bool = False
    because: str = ""
    differences: frozenset[str] = frozenset()

    @property
    def title(self) -> str:
        """As the table shows it."""
        return self.shown or f"`{' '.join(self.words)}`"


def words(line: str, **known: object) -> list[Usage]:
    """One usage for each line of options, all else being equal."""
    return [Usage(tuple(one.split()), **known) for one in line.strip().splitlines()]  # type: ignore[arg-type]


PLAIN = """
-N 1
-N 2
-N 1-2
-n 4
-n 4 --ntasks-per-node=2
-c 2
--mincpus=2
--mem=100
--mem=1G -n 2
--mem-per-cpu=100
-G 1
--gpus-per-node=1
--gpus-per-task=1 -n 2
--gres=gpu:1
--exclusive
--exclusive=user
-s
-O
-k
--contiguous
--spread-job
--use-min-nodes
--wait-all-nodes=1
--switches=1@10
-w n1
-x n2
-p small
-t 5
-t 1-0
-t 0:30
-J name
-A phys
--wckey=x
--comment=mine
-L matlab:1
--reservation=ours
--nice
--nice=10
--priority=77
--signal=B:USR1@60
--signal=TERM@30
--requeue
--no-requeue
--open-mode=append
--mail-type=END,FAIL --mail-user=ada@example.org
-o %x-%j.out
-o out.txt -e err.txt
-o /dev/null
-i job.sh
-D sub
-D /
--propagate=NONE
--propagate=NOFILE
--get-user-env
--threads-per-core=1
-B 1
--hint=nomultithread
-m block
--delay-boot=5
--acctg-freq=30
--cpu-freq=low
--kill-on-invalid-dep=yes
--gres-flags=enforce-binding
--ntasks-per-core=1
--export=ALL
"""

WAITING = """
-b now+1hour
-b 2099-01-01
--deadline=now+5hours -b now+1hour
-d afterany:BLOCKER
-d afterok:BLOCKER --kill-on-invalid-dep=no
--begin now+2hours -t 7
-b now+1hour -t 2 --time-min=1
-b now+1hour -p small,main
-N 50
"""

REFUSED = """
-p nowhere
-t soon
--nodez=2
--mem
-y
--gres=fpga:1
-C nosuch
-w nosuch
--begin=never
--dependency=whenever:1
--deadline=yesterdayish
--reservation=nosuch
--tmp=1
"""

NOT_WITH_CHAINS = {
    "-a 1-3": "a chain is one job after another",
    "-H": "Mirage itself holds and releases the jobs of a chain; submit the chain when it may run",
    "-W": "a chain continues after its command has ended",
    "--test-only": "use `--dry-run`",
}

EXPORT = frozenset({"env SLURM_EXPORT_ENV"})
EXPORT_BECAUSE = "its `SLURM_EXPORT_ENV` names `MIRAGE_CHAIN`, `MIRAGE_LINK`, `MIRAGE_TAG` and `MIRAGE_READY_AFTER` too"

SCRIPTS = [
    Usage(shown="a script with the arguments `'a b' \"'\" '' '*'`", arguments=("a b", "'", "", "*", "--links")),
    Usage(shown="a script in another folder", name="sub/deep.sh"),
    Usage(shown="a script without a suffix", name="train"),
    Usage(shown="a script with a space in its name", name="my job.sh"),
    Usage(
        shown="a Python script",
        script=b"#!/usr/bin/env python3\nimport os\nprint(os.getcwd()[:1])\n",
    ),
    Usage(shown="bytes that are no UTF-8", script=script() + b"# caf\xe9\necho \xe9\n"),
    Usage(shown="`#SBATCH --comment` with Latin-1", script=script("#SBATCH -N1").replace(b"-N1", b"--comment=caf\xe9")),
    Usage(shown="several options on one `#SBATCH` line", script=script("#SBATCH -N 1 -t 3 --mem=200 -J many")),
    Usage(
        shown="quotes and backslashes in `#SBATCH`",
        script=script("#SBATCH -J \"a 'b'\" --comment='c \"d\"' --wckey=e\\f"),
    ),
    Usage(shown="a comment after an `#SBATCH` option", script=script("#SBATCH -t 3 # minutes", "#SBATCH -J n#o")),
    Usage(shown="`#SBATCH` behind the first command", script=script("true", "#SBATCH -t 3 -J late")),
    Usage(shown="`#SBATCH` that is indented", script=script("  #SBATCH -t 3 -J indented")),
    Usage(
        shown="`#SBATCH` after blank lines and comments", script=script("", "# x", "", "#SBATCH -t 3", "##SBATCH -J y")
    ),
    Usage(shown="`#SBATCH` with a tab", script=script("#SBATCH\t-t\t3")),
    Usage(shown="`#SLURM`, the older word", script=script("#SLURM -t 3")),
    Usage(shown="a backslash that ends an `#SBATCH` line", script=script("#SBATCH -t 3 \\", "#SBATCH -J next\\")),
    Usage(shown="an empty word in `#SBATCH`", script=script("#SBATCH -t 3 '' -J rest")),
    Usage(shown="`#PBS -N`", script=script("#PBS -N pbs")),
    Usage(shown="`#SBATCH` twice: the later counts", script=script("#SBATCH -t 3", "#SBATCH -t 4")),
    Usage(
        shown="the command line over `#SBATCH`",
        words=("-t", "5", "-J", "mine"),
        script=script("#SBATCH -t 3 -J theirs"),
    ),
    Usage(shown="`#SBATCH --comment`", script=script('#SBATCH --comment="for the paper"')),
    Usage(shown="`--comment` over `#SBATCH --comment`", words=("--comment=a b",), script=script("#SBATCH --comment=c")),
    Usage(shown="`#SBATCH -o` with `%x` and `%j`", script=script("#SBATCH -o log-%x-%j.txt -J named")),
    Usage(shown="`#SBATCH -D`", script=script("#SBATCH -D sub")),
    Usage(shown="`#SBATCH --begin`", script=script("#SBATCH --begin=now+1hour"), waits=True),
    Usage(shown="`#SBATCH --dependency`", script=script("#SBATCH -d afterany:BLOCKER"), waits=True),
    Usage(shown="`#SBATCH --deadline`", script=script("#SBATCH --deadline=now+9hours -b now+1hour"), waits=True),
    Usage(("--wrap=" + REPORT,), shown="`--wrap`", script=None),
    Usage(("--wrap=echo \"a  'b'\" $HOME; " + REPORT,), shown="`--wrap` with quotes and a variable", script=None),
    Usage(("-J", "wrapped", "--wrap=hostname"), script=None),
]

ENVIRONMENTS = [
    Usage(
        shown="`LC_ALL`, `LANG` and `SLURM_TIME_FORMAT` as they are",
        environment={"LC_ALL": "C.UTF-8", "LANG": "de_DE", "SLURM_TIME_FORMAT": "%F"},
    ),
    Usage(shown="`SQUEUE_FORMAT`, `SACCT_FORMAT`", environment={"SQUEUE_FORMAT": "%i", "SACCT_FORMAT": "JobID"}),
    Usage(shown="a variable of several lines", environment={"LINES_OF_IT": "a\nb\n=c"}),
    Usage(shown="a variable that is no UTF-8", environment={"ODD": "\udce9"}),
    Usage(shown="`umask 077`", umask=0o077),
    Usage(shown="`umask 002`", umask=0o002),
    Usage(shown="`ulimit -n 77`", files=77),
    Usage(shown="`ulimit -n 77` and `--propagate=NONE`", words=("--propagate=NONE",), files=77),
    Usage(
        shown="from within a job",
        environment={
            "SLURM_JOB_ID": "7",
            "SLURM_JOBID": "7",
            "SLURM_NNODES": "3",
            "SLURM_JOB_NAME": "outer",
            "SLURM_CPUS_PER_TASK": "9",
        },
    ),
    Usage(
        shown="`SBATCH_TIMELIMIT` over `#SBATCH -t`",
        script=script("#SBATCH -t 3"),
        environment={"SBATCH_TIMELIMIT": "4"},
    ),
    Usage(shown="`-t` over `SBATCH_TIMELIMIT`", words=("-t", "5"), environment={"SBATCH_TIMELIMIT": "4"}),
    Usage(shown="`SBATCH_JOB_NAME`", environment={"SBATCH_JOB_NAME": "variable"}),
    Usage(
        shown="`SBATCH_JOB_NAME` over `#SBATCH -J`",
        script=script("#SBATCH -J line"),
        environment={"SBATCH_JOB_NAME": "variable"},
    ),
    Usage(shown="`SBATCH_PARTITION`", environment={"SBATCH_PARTITION": "small"}),
    Usage(
        shown="`SBATCH_OUTPUT`, `SBATCH_OPEN_MODE`",
        environment={"SBATCH_OUTPUT": "o-%j.txt", "SBATCH_OPEN_MODE": "append"},
    ),
    Usage(shown="`SBATCH_NO_REQUEUE`", environment={"SBATCH_NO_REQUEUE": "1"}),
    Usage(shown="`SBATCH_SIGNAL`", environment={"SBATCH_SIGNAL": "USR1@45"}),
    Usage(shown="`SBATCH_MEM_PER_NODE`", environment={"SBATCH_MEM_PER_NODE": "300"}),
    Usage(("--export=NONE",), because=EXPORT_BECAUSE, differences=EXPORT),
    Usage(("--export=NIL",), because=EXPORT_BECAUSE, differences=EXPORT),
    Usage(("--export=HOME,A=1",), because=EXPORT_BECAUSE, differences=EXPORT),
    Usage(("--export=ALL,A=1",), because=EXPORT_BECAUSE, differences=EXPORT),
    Usage(
        shown="`#SBATCH --export=NONE`",
        script=script("#SBATCH --export=NONE"),
        because=EXPORT_BECAUSE,
        differences=EXPORT,
    ),
    Usage(
        shown="`SBATCH_EXPORT=NONE`", environment={"SBATCH_EXPORT": "NONE"}, because=EXPORT_BECAUSE, differences=EXPORT
    ),
    Usage(
        ("--export-file=vars",),
        because="but nothing can be added to a file of variables: it gets no `MIRAGE_…`",
    ),
    Usage(
        shown="a script on standard input",
        name="",
        because="it gets its name in `SLURM_JOB_NAME` too",
        differences=frozenset({"env SLURM_JOB_NAME"}),
    ),
    Usage(
        shown="`SBATCH_WAIT=1`",
        environment={"SBATCH_WAIT": "1"},
        because="`SBATCH_WAIT` is left out, with a message: a chain continues after its command has ended",
        differences=frozenset({"env SBATCH_WAIT"}),
    ),
    Usage(
        shown="`MIRAGE_KEEP_OUT='*TOKEN*'`",
        environment={"HF_TOKEN": "x", "MIRAGE_KEEP_OUT": "*TOKEN*"},
        because="but for the variables that the user keeps out",
        differences=frozenset({"env HF_TOKEN"}),
    ),
    Usage(("-t", "0"), ours=("--links", "2"), shown="`-t 0`, with `--links 2`"),
    Usage(("-t", "UNLIMITED"), ours=("--for", "14d"), shown="`-t UNLIMITED`, with `--for 14d`"),
]

REFUSED_SCRIPTS = [
    Usage(shown="a script that is not there", script=None, words=("nosuch.sh",)),
    Usage(shown="a folder for a script", script=None, words=("sub",)),
    Usage(shown="an empty script", script=b""),
    Usage(shown="a script without `#!`", script=b"echo\n"),
    Usage(shown="DOS line breaks", script=script().replace(b"\n", b"\r\n")),
    Usage(shown="a NUL in the script", script=script() + b"\0\n"),
    Usage(shown="a word that is no option in `#SBATCH`", script=script("#SBATCH -t 3 word")),
    Usage(shown="`#SBATCHX`", script=script("#SBATCHX")),
    Usage(shown="an unknown option in `#SBATCH`", script=script("#SBATCH --nodez=2")),
    Usage(shown="an unmatched quote in `#SBATCH`", script=script('#SBATCH --comment="x')),
    Usage(shown="a colon in `#SBATCH`", script=script("#SBATCH : -N1")),
    Usage(shown="`--wrap` and a script", words=("--wrap=hostname",)),
    Usage(shown="`SBATCH_PARTITION=nowhere`", environment={"SBATCH_PARTITION": "nowhere"}),
]

OURS_ALONE = [
    Usage(
        shown="`SBATCH_ARRAY_INX=1-3`",
        environment={"SBATCH_ARRAY_INX": "1-3"},
        because="a chain is one job after another",
    ),
    Usage(shown="`#SBATCH --array`", script=script("#SBATCH -a 1-3"), because="a chain is one job after another"),
    Usage(
        shown="`#SBATCH hetjob`",
        script=script("#SBATCH -N1", "#SBATCH hetjob", "#SBATCH -N1"),
        because="a chain is made of jobs of one component",
    ),
    Usage(("-N", "1", ":", "-N", "1"), because="a chain is made of jobs of one component"),
    Usage(
        ("-t", "0"),
        because="a job without a limit never hands over; give `--links`, `--for`, `--until` or `--until-done`",
    ),
    Usage(
        ("-D", "nowhere"),
        because="if the folder is missing, sbatch starts the job in another folder; every link would do the same",
    ),
    Usage(
        ("-t", "2"),
        shown="`-t 2`, with `--grace 5m`",
        ours=("--grace", "5m"),
        because="the grace must be shorter than the limit",
    ),
]

SAME = [
    *words(PLAIN),
    *words(WAITING, waits=True),
    *SCRIPTS,
    *[usage for usage in ENVIRONMENTS if not usage.because],
]
BUT = [usage for usage in ENVIRONMENTS if usage.because]
BOTH_REFUSE = [*words(REFUSED), *REFUSED_SCRIPTS]
WE_REFUSE = [*(Usage(tuple(line.split()), because=why) for line, why in NOT_WITH_CHAINS.items()), *OURS_ALONE]
