"""The batch script of a link: it runs the user's script, and submits the next link."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

from mirage.agentless.shell_code import decide_function, measured_names
from mirage.agentless.shell_tree import PASS_S
from mirage.distill.tree import Tree
from mirage.errors import ConfigurationError

MOST_BYTES = 6_144
"""Largest size of a script without the user's own words."""

MARK = "# mirage: a link of a chain without an agent"
"""Second line of the script."""

LEAST_S = 300
"""Three links in a row that ended within this time stop the chain."""

_NO_ESTIMATE = """\
if may_test; then
at=$(request --test-only 2>&1 | sed -nE 's/.*to start at ([0-9]+) using.*/\\1/p')
[ "$at" ] || return 1
[ $freed = 0 ] || at=$((at-$(behind)))
slurm_wait=$((at>now?at-now:0))
case $waits$start in
afterany*) ;;
*N/A|*\\)) plan= ;;
*) plan=$((start>now?start-now:0)) ;;
esac
[ "${plan:-$slurm_wait}" -ge $slurm_wait ] || slurm_wait=$plan
else
slurm_wait=$lead use=1000 age_retained=0
fi"""
"""Slurm plans the start of the next link while that competes; its last plan still counts while it is held again."""

_MEASURES = {
    "slurm_wait": _NO_ESTIMATE,
    "pending_jobs": "pending_jobs=$(squeue -h -t PD -o %r | grep -vcE 'Dependency|Held|BeginTime|Limit')",
    "idle_nodes": "idle_nodes=$(sinfo -ht idle -o %D ${parts:+-p $parts} | awk '{n+=$1} END{print n+0}')",
}
"""Measured number → the commands that measure it."""


@dataclass(frozen=True, slots=True)
class AgentlessSpec:
    """The rules of a chain without an agent.

    Attributes:
        chain: Its name.
        key: Random letters that distinguish it from other chains of this name.
        folder: The folder of its script, state and log, on a file system that all nodes share.
        script: Name of the user's script in it.
        options: Options of sbatch for every link after the first: long name without dashes → value.
        arguments: Arguments of the user's script.
        nodes: Nodes of a link.
        use: Use of limits, in thousandths.
        nice: What the user subtracts from the priority.
        lead_s: Lead where Slurm's estimate of a start cannot be used.
        signal: Signal to the user's script at a hand-over; empty for none.
        grace_s: Time from that signal to the end of the script.
        warmup_s: Time that a link needs to take over, if it does not report it itself.
        ready_by_job: Whether the script reports that it can take over: it makes the file ``$MIRAGE_READY``.
        links: Most links; 0 for any number.
        until_s: No link starts after this time; 0 for no such time.
        until_done: Whether a script that exits with 0 before a hand-over ends the chain.
        every_s: Time between two queries of the queue.
        least_s: Three links in a row that ended within this time stop the chain.
    """

    chain: str
    key: str
    folder: str
    script: str
    options: Mapping[str, str | None]
    arguments: Sequence[str] = ()
    nodes: int = 1
    use: int = 1000
    nice: int = 0
    lead_s: int = 0
    signal: str = "USR2"
    grace_s: int = 120
    warmup_s: int = 0
    ready_by_job: bool = False
    links: int = 0
    until_s: int = 0
    until_done: bool = True
    every_s: int = PASS_S
    least_s: int = LEAST_S


def link_script(spec: AgentlessSpec, tree: Tree) -> str:
    """The batch script of every link of a chain.

    Raises:
        ConfigurationError: The script without the user's words is larger than ``MOST_BYTES``.
    """
    template = files("mirage.agentless").joinpath("link.sh").read_text(encoding="utf-8")
    lines = [line.strip() for line in template.splitlines()]
    code_lines = [lines[0], lines[3], *(line for line in lines[4:] if line and not line.startswith("#"))]
    measured = measured_names(tree)
    code = "\n".join(code_lines) + "\n"
    code = code.replace("@MEASURES@", "\n".join(text for name, text in _MEASURES.items() if name in measured) or ":")
    if "slurm_wait" not in measured:
        code = _without_function(_without_function(code, "may_test"), "behind")
    code = code.replace("@TREE@\n", decide_function(tree))
    code = code.replace("@SETTINGS@", _settings(spec)).replace("@REQUEST@\n", _request(spec))
    if (size := len(code.encode()) - len(" ".join(_words(spec)).encode())) > MOST_BYTES:
        raise ConfigurationError(
            f"the script of a link would have {size} bytes, more than {MOST_BYTES}; give a tree with fewer leaves"
        )
    return code


def read_link_script(code: str) -> AgentlessSpec:
    """The rules of a chain, from the script of its links: the inverse of ``link_script``.

    Raises:
        ConfigurationError: It is no such script, or another version of Mirage has made it.
    """
    head, _, body = code.partition("\nlink=$1 ")
    line = body.partition("\nexec sbatch ")[2].partition("\n)\n")[0]
    try:
        given = dict(word.split("=", 1) for word in shlex.split(head, comments=True))
        words = shlex.split(line)
        at, after = words.index("$@"), words.index("$me")
        options = {
            name.removeprefix("--"): value if sign else None
            for name, sign, value in (word.partition("=") for word in words[:at])
        }
        if given["comment"]:
            options["comment"] = given["comment"].removesuffix(" ")
        return AgentlessSpec(
            given["chain"],
            given["key"],
            given["d"],
            given["script"],
            options,
            tuple(words[after + 1 :]),
            nodes=int(given["link_nodes"]),
            use=int(given["use"]),
            nice=int(given["nice"]) - 1,
            lead_s=int(given["lead"]),
            signal=given["signal"],
            grace_s=int(given["grace"]),
            warmup_s=int(given["warmup"]),
            ready_by_job=given["by_job"] == "1",
            links=int(given["links"]),
            until_s=int(given["until"]),
            until_done=given["until_done"] == "1",
            every_s=int(given["every"]),
            least_s=int(given["least"]),
        )
    except (KeyError, ValueError) as error:
        raise ConfigurationError(
            "this is no script of a chain without an agent, or of another version of Mirage"
        ) from error


def _words(spec: AgentlessSpec) -> list[str]:
    """The user's own words in the script: the options of sbatch, and the arguments."""
    options = {name: value for name, value in spec.options.items() if name != "comment"}
    words = [f"--{name}" if value is None else f"--{name}={value}" for name, value in options.items()]
    return [shlex.quote(word) for word in (*words, *spec.arguments)]


def _without_function(code: str, name: str) -> str:
    """Shell code without one of its functions."""
    before, _, rest = code.partition(f"{name}() {{\n")
    return before + rest.partition("\n}\n")[2]


def _settings(spec: AgentlessSpec) -> str:
    """The assignments at the head of the script."""
    comment = spec.options.get("comment")
    values: dict[str, str | int] = {
        "d": spec.folder,
        "chain": spec.chain,
        "key": spec.key,
        "script": spec.script,
        "comment": f"{comment} " if comment else "",
        "parts": spec.options.get("partition") or "",
        "signal": spec.signal,
        "every": spec.every_s,
        "least": spec.least_s,
        "grace": spec.grace_s,
        "warmup": spec.warmup_s,
        "by_job": int(spec.ready_by_job),
        "links": spec.links,
        "until": spec.until_s,
        "until_done": int(spec.until_done),
        "link_nodes": spec.nodes,
        "use": spec.use,
        "nice": spec.nice + 1,
        "lead": spec.lead_s,
    }
    return "\n".join(f"{name}={shlex.quote(str(value))}" for name, value in values.items())


def _request(spec: AgentlessSpec) -> str:
    """The shell function that calls sbatch for the next link.

    sbatch does not get the variables of the present job.
    """
    words = _words(spec)
    given, arguments = " ".join(words[: len(words) - len(spec.arguments)]), shlex.join(spec.arguments)
    return f"""\
request() (
without "SLURM|SBATCH"
[ "$1" != --test-only ] || export SLURM_TIME_FORMAT=%s
exec sbatch {given} "$@" "$d/link.sh" $after $me {arguments}
)
"""
