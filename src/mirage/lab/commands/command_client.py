"""Client in place of Slurm's commands: sends arguments to the server, prints the answer.

The scripts that ``mirage.lab.commands.server`` puts on PATH run it as a file, ``python -SE command_client.py
SOCKET NAME WORD…``. It imports only a few modules of the standard library, so that a command takes hundredths of a
second.
"""

import json
import os
import socket
import sys

_SILENT = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n"


def request(path: str, question: dict[str, object]) -> dict[str, object]:
    """Sends one request to the server and returns its answer."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.connect(path)
        line.sendall(json.dumps(question).encode() + b"\n")
        line.shutdown(socket.SHUT_WR)
        with line.makefile("rb") as answer:
            return json.loads(answer.read())  # type: ignore[no-any-return]


def main(path: str, name: str, words: list[str]) -> int:
    """Runs a command; returns its exit status."""
    environment = {key: value for key, value in os.environ.items() if key.startswith(("SBATCH_", "SLURM_", "USER"))}
    question: dict[str, object] = {
        "name": name, "words": words, "directory": os.getcwd(), "environment": environment
    }  # fmt: skip
    try:
        answer = request(path, question)
        if answer.get("wants_script"):
            answer = request(path, {**question, "script": sys.stdin.read()})
    except (OSError, ValueError):
        sys.stderr.write(_SILENT)
        return 1
    sys.stdout.write(str(answer["out"]))
    sys.stderr.write(str(answer["err"]))
    return int(str(answer["status"]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
