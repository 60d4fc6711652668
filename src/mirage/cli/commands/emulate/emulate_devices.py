"""``mirage emulate devices``: the emulated devices of a folder, and faults in them."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from mirage.cli.options import CONTEXT, examples, json_output
from mirage.cli.values import COUNT, COUNT_OR_NONE, IntegerRange
from mirage.errors import ConfigurationError


@click.command(
    context_settings=CONTEXT,
    epilog=examples(
        "mirage emulate devices gpus",
        "mirage emulate devices gpus --node node3 --device 0 --lose",
        "mirage emulate devices gpus --node node3 --device 0 --xid 48 --ecc 1",
        "mirage emulate devices gpus --node node3 --device 0 --restore",
    ),
)
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
@click.option("--node", metavar="NAME", help="Only this node.")
@click.option("--device", type=COUNT_OR_NONE, metavar="N", help="The device to inject faults into.")
@click.option("--lose", is_flag=True, help="The device falls off the bus (Xid 79): its jobs fail within a second.")
@click.option("--xid", type=IntegerRange(1, 255), metavar="N", help="The driver reports this Xid.")
@click.option("--ecc", type=COUNT, metavar="N", help="The device counts N more uncorrected ECC errors.")
@click.option("--restore", is_flag=True, help="Remove the faults of the device.")
@json_output
def devices(
    directory: Path,
    node: str | None,
    device: int | None,
    lose: bool,
    xid: int | None,
    ecc: int | None,
    restore: bool,
    as_json: bool,
) -> None:
    """List the emulated devices of DIRECTORY with their jobs, or inject a fault into one."""
    from mirage.emulate.device_ledger import DeviceLedger

    files = sorted(directory.glob("*.gpus" if node is None else f"{node}.gpus"))
    if not files:
        where = str(directory) if node is None else f"{directory} for node {node}"
        raise ConfigurationError(
            f"no emulated devices in {where}; run `mirage emulate train --devices {directory}` once"
        )
    if restore and (lose or xid or ecc):
        raise click.UsageError("--restore removes the faults that --lose, --xid and --ecc inject; give one of them")
    if device is not None and not (lose or xid or ecc or restore):
        raise click.UsageError("--device needs a fault: --lose, --xid, --ecc or --restore")
    if lose or xid or ecc or restore:
        if device is None or node is None:
            raise click.UsageError("a fault needs --node and --device")
        ledger = DeviceLedger(files[0])
        if restore:
            ledger.restore(device)
        if lose or xid or ecc:
            ledger.fault(device, xid=xid or 0, uncorrected=ecc or 0, lost=lose)
        ledger.close()
    rows = []
    for file in files:
        ledger = DeviceLedger(file)
        rows += [{"node": file.stem, "device": k, **asdict(ledger.device(k))} for k in range(ledger.count)]
        ledger.close()
    if as_json:
        click.echo(json.dumps(rows))
        return
    for row in rows:
        held = sum(owner["memory_mib"] for owner in row["owners"])
        jobs = ",".join(str(owner["pid"]) for owner in row["owners"]) or "-"
        fault = "lost" if row["lost"] else f"Xid {row['xid']}" if row["xid"] else "ok"
        click.echo(
            f"{row['node']} {row['device']} {row['name']}: {held} of {row['memory_mib']} MiB, jobs {jobs}, {fault}"
        )
