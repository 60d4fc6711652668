"""Options and arguments that name files, and the refusal of empty names and of devices.

An empty name is usually that of a shell variable that is not set. As a path it would be the working directory. A
device such as ``/dev/zero`` may have no end, so none is read.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from mirage.text_file import is_device

_FILES = {"FILE", "FILE|NAME", "MODEL", "OUT", "PATH", "TREE"}
_FOLDERS = {"DIR", "FOLDER..."}
_FILE_ARGUMENTS = {
    "out",
    "policy",
    "recorded",
    "simulated",
    "trace",
    "tree_file",
    "tree_files",
    "workload",
    "workloads",
}
_FOLDER_ARGUMENTS = {"directory", "profiles"}
_WRITTEN = {"chart", "out", "parquet", "plot", "progress", "report", "report_file"}
_MAY_BE_EMPTY = {"progress_file"}  # mirage chain edit: no file from now on


def names_folder(parameter: click.Parameter) -> bool:
    """Whether the values of a parameter are names of folders."""
    if isinstance(parameter, click.Argument) and parameter.name in _FOLDER_ARGUMENTS:
        return True
    return parameter.metavar in _FOLDERS


def names_file(parameter: click.Parameter) -> bool:
    """Whether the values of a parameter are names of files."""
    if isinstance(parameter, click.Argument):
        return parameter.name in _FILE_ARGUMENTS
    return parameter.metavar in _FILES or (isinstance(parameter.type, click.Path) and not names_folder(parameter))


def refuse_wrong_names(command: click.Command) -> None:
    """Makes a command refuse empty names and, for reading, devices, before any work."""
    for parameter in command.params:
        if parameter.name not in _MAY_BE_EMPTY and (names_file(parameter) or names_folder(parameter)):
            converted = partial(_converted, parameter, type(parameter).type_cast_value)
            setattr(parameter, "type_cast_value", converted)  # noqa: B010  a method of one parameter


def _converted(parameter: click.Parameter, convert: Any, ctx: click.Context, value: Any) -> Any:
    """Returns the converted value of a parameter without an empty name or a device to read."""
    names = value if isinstance(value, list | tuple) else (value,)
    for name in names if names_file(parameter) and parameter.name not in _WRITTEN else ():
        if is_device(name):
            raise click.BadParameter(f"{name} is a device, which may have no end; name a file", ctx, parameter)
    if "" in names:
        what = "folder" if names_folder(parameter) else "file"
        raise click.BadParameter(f"the name of the {what} is empty; name a {what}", ctx, parameter)
    return convert(parameter, ctx, value)
