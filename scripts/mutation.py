"""Mutation run: the number of small changes to the code that the tests of a scope catch.

The mutants are made and run by mutmut: one process imports everything and runs the tests once, to learn
which tests enter which function; each mutant is then a fork of it that runs those tests only. It works on a
copy of the tree under ``build/mutation`` and never touches the checkout.

A mutant is caught where a test fails or runs out of time. One that no test enters has survived.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CAUGHT = frozenset({"killed", "timeout", "segfault", "suspicious"})
MEMORY_BYTES = 6 * 2**30  # a mutant that never stops collecting fails here, before the machine does


@dataclass(frozen=True)
class Scope:
    """A part of the code, and the tests that answer for it.

    Attributes:
        code: Patterns of files below ``src/mirage``.
        tests: Files and folders below ``tests``; tests marked slow are left out.
        without: Words in the names of tests that take too long to be run for every mutant.
        not_code: Patterns of files that ``code`` matches and that are not mutated.
    """

    code: tuple[str, ...]
    tests: tuple[str, ...]
    without: tuple[str, ...] = ()
    not_code: tuple[str, ...] = ()


SCOPES = {
    "readers": Scope(
        code=("trace/formats/*.py", "trace/read_trace.py"),
        tests=("trace/formats", "trace/test_read.py", "trace/test_write.py", "cli/commands/trace/test_trace_info.py"),
    ),
    "slurm": Scope(
        code=("slurm/slurm_view.py", "slurm/text/*.py", "slurm/slurm_json.py", "slurm_words/*.py"),
        tests=("slurm", "slurm_words"),
    ),
    "agent": Scope(
        code=tuple(f"agent/cycle/{name}.py" for name in ("transitions", "observations", "handover", "reconcile")),
        tests=("agent/cycle", "agent/chain", "agent/test_agent.py"),
        without=("reactive_chain", "leaves_nothing", "refusals", "forgotten", "fail_at_once"),
    ),
    "scoring": Scope(
        code=(
            *(f"provision/evaluation/{name}.py" for name in ("policy_score", "oracle", "frontier")),
            "study/intervals.py",
        ),
        tests=("provision/evaluation", "study"),
    ),
    "reports": Scope(
        code=("report/terminal/*.py", "report/pages/*.py"),
        tests=("report",),
    ),
    "calibration": Scope(
        code=("calibration/*.py",),
        tests=("calibration", "cli/commands/simulation/test_calibrate_command.py"),
    ),
    "forecast": Scope(
        code=tuple(
            f"forecast/{name}.py"
            for name in ("forecaster", "priority_offsets", "past_arrivals", "run_times", "use_history")
        ),  # the rest are compiled kernels, which mutmut leaves alone
        tests=("forecast",),
    ),
    "schedule": Scope(
        code=("schedule/*.py",),
        tests=("schedule",),
        not_code=(
            "schedule/compile_schedule.py",  # its effect shows only in the next process; a slow test starts one
            "schedule/engine/kernel/*.py",  # compiled kernels, which mutmut leaves alone, and what runs at their import
        ),
    ),
    "dag": Scope(
        code=("dag/*.py",),
        tests=("dag",),
        not_code=(
            "dag/compile_ahead.py",  # its effect shows only in the next process; a slow test starts one
            "dag/decima/networks/workspace.py",  # kernels inline it as it is
            "dag/simulator/dag_arrays.py",  # the types of kernels, which are made at import
        ),
    ),
    "learn": Scope(
        code=("learn/*.py",),
        tests=("learn",),
        # What these two learn is judged by slow tests: each mutant would take trainings of a minute.
        not_code=tuple(f"learn/reinforcement/{name}.py" for name in ("dqn", "ppo")),
    ),
}


@dataclass(frozen=True)
class Outcome:
    """The number of mutants of a scope, and the verdict on each one that was run."""

    made: int
    verdicts: dict[str, str]

    @property
    def survivors(self) -> list[str]:
        """The names of the mutants that no test caught."""
        return sorted(name for name, verdict in self.verdicts.items() if verdict not in CAUGHT)


def main() -> None:
    """Run the selected scopes; the table goes to stdout, progress to stderr."""
    options = _arguments()
    os.environ.setdefault("MIRAGE_DATA", str(ROOT.parent / "shared" / "data"))
    outcomes = {}
    for name in options.scopes or SCOPES:
        tree = Path(options.work) / "tree"  # one path for all scopes: compiled kernels are kept per path
        _lay_out(tree, SCOPES[name], options.seed)
        outcomes[name] = _run(tree, name, options)
        for survivor in outcomes[name].survivors:
            print(_shown(tree, survivor, outcomes[name].verdicts[survivor]), flush=True)
    print(f"{'scope':<10} {'mutants':>8} {'tried':>6} {'caught':>7} {'survived':>9} {'share':>7}")
    for name, outcome in outcomes.items():
        tried, survived = len(outcome.verdicts), len(outcome.survivors)
        share = f"{(tried - survived) / tried:.1%}" if tried else ""
        print(f"{name:<10} {outcome.made:>8} {tried:>6} {tried - survived:>7} {survived:>9} {share:>7}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("scopes", nargs="*", metavar="SCOPE", help=f"of {', '.join(SCOPES)}; default: all")
    parser.add_argument(
        "--sample", type=int, metavar="N", help="try N mutants of a scope, drawn at random; default: all"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the draw and of the property tests (default: 1)")
    parser.add_argument("--only", default="", metavar="TEXT", help="only mutants with TEXT in their name")
    parser.add_argument("--jobs", type=int, default=2, help="mutants at the same time (default: 2)")
    parser.add_argument("--work", default=ROOT / "build" / "mutation", metavar="DIR", help="where the copies are made")
    options = parser.parse_args()
    if unknown := set(options.scopes) - SCOPES.keys():
        parser.error(f"no scope {', '.join(sorted(unknown))}; there are {', '.join(SCOPES)}")
    return options


def _lay_out(tree: Path, scope: Scope, seed: int) -> None:
    """Make the folder mutmut runs in: links to the code and the tests, and a configuration."""
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    for name in ("src", "tests", "benchmarks", "docs", "README.md"):
        (tree / name).symlink_to(ROOT / name)
    chosen = ["-k", f"not ({' or '.join(scope.without)})"] if scope.without else []
    settings = {
        "source_paths": ["src"],
        "only_mutate": [f"src/mirage/{pattern}" for pattern in scope.code],
        "do_not_mutate": [f"src/mirage/{pattern}" for pattern in scope.not_code],
        "also_copy": ["benchmarks", "docs", "README.md"],
        "pytest_add_cli_args_test_selection": [f"tests/{path}" for path in scope.tests],
        "pytest_add_cli_args": ["-m", "not slow", "-p", "no:cacheprovider", f"--hypothesis-seed={seed}", *chosen],
        "timeout_multiplier": 10.0,
        "timeout_constant": 6.0,  # seconds for fixtures, which are not in the times of tests that mutmut measures
        "track_dependencies": False,
        "use_git_change_detection": False,
    }
    lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]  # JSON's lists and strings are TOML's
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (tree / "pyproject.toml").write_text("\n".join([project, "[tool.mutmut]", *lines, ""]), encoding="utf-8")


def _run(tree: Path, scope: str, options: argparse.Namespace) -> Outcome:
    names = [name for name in _mutants(tree) if options.only in name]
    wanted = names
    if options.sample is not None and options.sample < len(names):
        wanted = random.Random(options.seed).sample(names, options.sample)
    print(f"{scope}: {len(wanted)} of {len(names)} mutants", file=sys.stderr, flush=True)
    command = [sys.executable, "-m", "mutmut", "run", "--max-children", str(options.jobs), *wanted]
    log = tree.with_name(f"{scope}.log")
    one_thread = os.environ | {"OMP_NUM_THREADS": "1"}  # a fork of PyTorch waits forever for threads that it lacks
    with log.open("w") as out:
        status = subprocess.run(
            command, cwd=tree, env=one_thread, stdout=out, stderr=out, check=False, preexec_fn=_limit_memory
        )
    if status.returncode:
        print("\n".join(log.read_text(errors="replace").splitlines()[-30:]), file=sys.stderr)
        raise SystemExit(f"mutmut failed on {scope}, status {status.returncode}; all it said is in {log}")
    verdicts = _verdicts(tree)
    return Outcome(len(names), {name: verdicts[name] for name in wanted})


def _limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))


def _mutants(tree: Path) -> list[str]:
    """The names mutmut will give to the mutants, in a fixed order."""
    from mutmut.mutation.file_mutation import mutate_file_contents
    from mutmut.utils.file_utils import walk_mutatable_files
    from mutmut.utils.format_utils import get_mutant_name

    with _inside(tree):
        return [
            get_mutant_name(path, name)
            for path in sorted(walk_mutatable_files())
            for name in mutate_file_contents(str(path), path.read_text(encoding="utf-8")).mutant_names
        ]


def _verdicts(tree: Path) -> dict[str, str]:
    from mutmut.mutation.data import SourceFileMutationData
    from mutmut.stats import status_by_exit_code
    from mutmut.utils.file_utils import walk_mutatable_files

    verdicts = {}
    with _inside(tree):
        for path in walk_mutatable_files():
            data = SourceFileMutationData(path=path)
            data.load()
            verdicts.update({name: status_by_exit_code[code] for name, code in data.exit_code_by_key.items()})
    return verdicts


def _shown(tree: Path, mutant: str, verdict: str) -> str:
    """A mutant as file, line and the changed lines."""
    from mutmut.mutation.diff_apply import find_mutant, get_diff_for_mutant

    with _inside(tree):
        path = Path(find_mutant(mutant).path)
        diff = get_diff_for_mutant(mutant, path=path).splitlines()[2:]
        changed = [line for line in diff if line[:1] in "+-"]
        source = path.read_text(encoding="utf-8").splitlines()
    before = [line[1:].strip() for line in changed if line[0] == "-"]
    line = _line_of(source, mutant, before[0] if before else "")
    title = f"{path}:{line}: {verdict}, {mutant.rpartition('.')[2]}"
    return "\n".join([title, *(f"    {text}" for text in changed), ""])


def _line_of(source: list[str], mutant: str, text: str) -> int:
    """The first line with this text, from the mutated function on."""
    from mutmut.utils.format_utils import orig_function_and_class_names_from_key

    function, _ = orig_function_and_class_names_from_key(mutant)
    numbered = list(enumerate(source, 1))
    start = next((number for number, line in numbered if line.strip().startswith(f"def {function}(")), 1)
    return next((number for number, line in numbered[start - 1 :] if line.strip() == text), start)


@contextlib.contextmanager
def _inside(tree: Path) -> Iterator[None]:
    """Read mutmut's files where it wrote them, with the configuration it ran under."""
    from mutmut.configuration import reset_config

    reset_config()
    with contextlib.chdir(tree):
        yield


if __name__ == "__main__":
    main()
