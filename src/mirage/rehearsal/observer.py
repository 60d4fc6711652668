"""The observer of a rehearsal: runs in the job, and records processes, files and output.

It is a program of the standard library, started from the batch script as

    python observer.py mirage-rehearsal-observer RECORD MARK SHELL

where RECORD is the file that it appends to, MARK the value of MIRAGE_OBSERVED in the processes of the job, and SHELL
the process of the batch shell; the job's output is what that shell writes to. The batch script waits for its first
entry. It records changes only, one JSON value a line, and ignores every signal. It ends with the batch shell.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any

EVERY_S = 0.3
FILES, DEPTH = 4_000, 4
"""At most this many files, at most this deep below the working directory, are watched."""

SIGNALS = ("HUP", "INT", "QUIT", "USR1", "USR2", "TERM")


def main(words: list[str]) -> None:
    """Record until the batch shell has ended."""
    _, record, mark, shell = words[:4]
    output = os.readlink(f"/proc/{shell}/fd/1")
    for name in ("HUP", "INT", "USR1", "USR2", "TERM"):
        signal.signal(getattr(signal, f"SIG{name}"), signal.SIG_IGN)
    entry = f"MIRAGE_OBSERVED={mark}".encode()
    own: dict[int, bool] = {os.getpid(): False, int(shell): True}
    shown: list[Any] | None = None
    place, rest = os.path.getsize(output) if os.path.isfile(output) else 0, b""  # it may hold that of an earlier job
    files: dict[str, tuple[int, int, int]] = files_below(".", output, record)
    with open(record, "a", encoding="utf-8") as out:
        out.write(json.dumps({"time_s": 0, "shell": int(shell), "output": output, "place": place}) + "\n")
    while True:
        over = not os.path.exists(f"/proc/{shell}")
        now_s = time.clock_gettime(time.CLOCK_REALTIME)
        entries: list[dict[str, Any]] = []
        processes = _processes(entry, own)
        if processes != shown:
            entries.append({"processes": processes})
            shown = processes
        found = files_below(".", output, record)
        for path in found.keys() | files.keys():
            if found.get(path) != files.get(path):
                size, _, inode = found.get(path, (-1, 0, 0))
                entries.append({"file": path, "size": size, "inode": inode})
        files = found
        lines, place, rest = _lines(output, place, rest)
        entries += [{"line": line} for line in lines]
        if over:
            entries.append({"over": True})
        with open(record, "a", encoding="utf-8") as out:
            out.writelines(json.dumps({"time_s": round(now_s, 3), **one}) + "\n" for one in entries)
        if over:
            return
        time.sleep(EVERY_S)


def _processes(entry: bytes, own: dict[int, bool]) -> list[dict[str, Any]]:
    """The processes of the job on this node, by number."""
    found = []
    numbers = sorted(int(name) for name in os.listdir("/proc") if name.isdecimal())
    for gone in own.keys() - set(numbers):
        del own[gone]  # another process may get this number
    for number in numbers:
        try:
            if number not in own:
                own[number] = _is_own(number, entry, own)
            if own[number]:
                found.append(_process(number))
        except OSError:
            own.pop(number, None)
    return found


def _is_own(number: int, entry: bytes, own: dict[int, bool]) -> bool:
    """Whether a process has the mark, or its parent is known.

    A container may have cleared the environment.
    """
    with open(f"/proc/{number}/stat", "rb") as file:
        parent = int(file.read().rpartition(b")")[2].split()[1])
    try:
        with open(f"/proc/{number}/environ", "rb") as file:
            marked = entry in file.read().split(b"\0")
    except PermissionError:
        marked = False
    return marked or own.get(parent, False)


def _process(number: int) -> dict[str, Any]:
    with open(f"/proc/{number}/status", encoding="utf-8", errors="replace") as file:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    with open(f"/proc/{number}/cmdline", "rb") as file:
        command = file.read().replace(b"\0", b" ").decode(errors="replace").strip()
    with open(f"/proc/{number}/environ", "rb") as file:
        step = next((e[14:].decode() for e in file.read().split(b"\0") if e.startswith(b"SLURM_STEP_ID=")), "")
    if status["State"].startswith("Z"):
        raise ProcessLookupError
    return {
        "pid": number, "parent": int(status["PPid"]), "program": os.path.basename(os.readlink(f"/proc/{number}/exe")),
        "command": command[:300], "step": step, "catches": _names(status["SigCgt"]),
        "ignores": _names(status["SigIgn"]),
    }  # fmt: skip


def _names(mask: str) -> list[str]:
    bits = int(mask, 16)
    return [name for name in SIGNALS if bits >> (getattr(signal, f"SIG{name}") - 1) & 1]


def files_below(folder: str, output: str, record: str) -> dict[str, tuple[int, int, int]]:
    """Size, time and inode of the files below a folder.

    The job's output and Mirage's own files are left out: hidden ones, the agent's folder, and each private Slurm.
    """
    own = os.path.realpath(os.path.join(record, "..", "..", ".."))
    own = os.path.dirname(own) if os.path.basename(own) == "mirage-home" else own
    own = os.path.relpath(own, os.path.realpath(folder))
    found: dict[str, tuple[int, int, int]] = {}
    folders = [(folder, 0)]
    while folders and len(found) < FILES:
        inner, depth = folders.pop()
        try:
            entries = list(os.scandir(inner))
        except OSError:
            continue
        for entry in entries:
            try:
                if entry.is_dir(follow_symlinks=False):
                    hidden = entry.name.startswith((".", "__pycache__")) or os.path.relpath(entry.path, folder) == own
                    hidden = hidden or os.path.isdir(os.path.join(entry.path, "mirage-home"))
                    if depth < DEPTH and not hidden:
                        folders.append((entry.path, depth + 1))
                elif os.path.abspath(entry.path) != output and not entry.name.startswith(".mirage"):
                    facts = entry.stat()
                    found[os.path.relpath(entry.path, folder)] = (facts.st_size, facts.st_mtime_ns, facts.st_ino)
            except OSError:
                continue
    return found


def _lines(output: str, place: int, rest: bytes) -> tuple[list[str], int, bytes]:
    """Complete new lines of the output."""
    try:
        with open(output, "rb") as file:
            if os.fstat(file.fileno()).st_size < place:
                place = 0
            file.seek(place)
            text = rest + file.read()
            place = file.tell()
    except OSError:
        return [], place, rest
    *complete, rest = text.split(b"\n")
    return [line.decode(errors="replace")[:500] for line in complete], place, rest


if __name__ == "__main__":
    main(sys.argv[1:])
