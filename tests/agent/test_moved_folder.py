"""A moved agent's folder: chains find their scripts and their store in the new place."""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from mirage.agent.agent import Agent
from mirage.agent.chain.create import store_new_chain, with_scripts
from mirage.agent.chain.request import Caller, read_request
from mirage.agent.chain.submission import link_submission
from mirage.agent.cycle.readiness import SystemShell
from mirage.agent.hosting.agent_job import job_command, script_of_jobs, write_agent_script
from mirage.agent.model import Chain, ChainSpec, LinkState, StoreIdentity
from mirage.agent.paths import Home
from mirage.agent.service import systemd_unit
from mirage.agent.store.chain_file import read_chain_file, read_chain_files
from mirage.agent.store.rows import spec_from_json
from mirage.agent.store.sql_store import SqlStore, open_store
from mirage.errors import ScriptGone, StoreGone
from mirage.job_state import MISSING
from mirage.lab.virtual.program import Program
from mirage.sim.cluster import Cluster
from tests.support.small_slurm import BEGIN_S, small_slurm

SCRIPT = b"#!/bin/sh\n#SBATCH --begin=now\nfirst\n"
IDENTITY = StoreIdentity("safe", "lab@host:7000")


def chain_in(home: Home, name: str = "train", key: str = "deer", text: bytes = SCRIPT) -> Chain:
    """A chain with scripts and file in a folder, as ``mirage submit`` creates them."""
    (home.folder / "job.sh").write_bytes(text)
    environment = {"MIRAGE_HOME": f"{home.folder}/"}
    request = read_request({"time": "1:00:00"}, "job.sh", (), Caller(environment, home.folder, 0o022))
    spec = with_scripts(home, request, ChainSpec(request.submission, policy="lead:0.1"), name)
    chain = Chain(1, name, spec, BEGIN_S, key=key)
    store_new_chain(home, chain, IDENTITY)
    return chain


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home.of({"MIRAGE_HOME": str(tmp_path / "home")})


def moved(home: Home) -> Home:
    home.folder.rename(home.folder.with_name("moved"))
    return Home.of({"MIRAGE_HOME": str(home.folder.with_name("moved"))})


def scripts(chain: Chain, folder: Path | None) -> list[str]:
    """Of the first link and of a later one."""
    return [link_submission(chain, "safe", link, MISSING, False, folder).script for link in (1, 2)]


def test_scripts_are_stored_by_their_paths_from_the_folder_and_submitted_from_where_it_is(home: Home) -> None:
    chain = chain_in(home)
    stored = [chain.spec.submission.script, chain.spec.later_script]
    assert stored == ["chains/train/script/job.sh", "chains/train/later-script/job.sh"]
    assert scripts(chain, None) == [f"{home.folder}/{path}" for path in stored]
    now = moved(home)
    assert scripts(chain, now.folder) == [f"{now.folder}/{path}" for path in stored]
    with pytest.raises(ScriptGone, match=f"{stored[0]}, is not in {home.folder}; where the agent's folder was moved"):
        scripts(chain, None)


def test_jobs_are_given_the_folder_where_it_is(home: Home) -> None:
    chain = chain_in(home)
    options = {**chain.spec.submission.options, "export": "MIRAGE_HOME"}
    chain = replace(chain, spec=replace(chain.spec, submission=replace(chain.spec.submission, options=options)))
    now = moved(home)
    link = link_submission(chain, "safe", 1, MISSING, False, now.folder)
    assert link.environment["MIRAGE_HOME"] == str(now.folder)
    assert link.options["export"] == "MIRAGE_HOME,MIRAGE_CHAIN,MIRAGE_LINK,MIRAGE_TAG,MIRAGE_READY_AFTER"


def test_absolute_paths_of_earlier_versions_lead_to_the_new_place(home: Home) -> None:
    chain = chain_in(home)
    text = asdict(chain.spec)
    del text["folder"]
    text["submission"]["script"] = f"{home.folder}/{chain.spec.submission.script}"
    text["later_script"] = f"{home.folder}/{chain.spec.later_script}"
    assert spec_from_json(text, "train") == chain.spec
    elsewhere = spec_from_json({**text, "later_script": "/opt/job.sh"}, "train")
    assert (elsewhere.submission.script, elsewhere.folder) == (text["submission"]["script"], "")
    other = spec_from_json(text, "serve")
    assert (other.submission.script, other.folder) == (text["submission"]["script"], ""), "the folder of another chain"


def test_a_folder_with_another_chain_of_that_name_is_passed_over(tmp_path: Path, home: Home) -> None:
    """Two agents' folders may share a store on a server, and two stores a folder."""
    chain = chain_in(home)
    other = Home.of({"MIRAGE_HOME": str(tmp_path / "other")})
    chain_in(other, key="bear")
    assert scripts(chain, other.folder) == scripts(chain, None)
    moved(home)
    with pytest.raises(ScriptGone, match=f"is not in {other.folder} or {home.folder};"):
        scripts(chain, other.folder)


def test_the_file_of_a_chain_names_the_store_in_the_new_place(home: Home) -> None:
    chain = chain_in(home)
    chain_file = home.chain_folder("train") / "chain.json"
    written = json.loads(chain_file.read_text())
    assert written["store"]["place"] == "store.db"
    now = moved(home)
    (stored,), _ = read_chain_files(now.folder)
    assert (stored.place, stored.spec) == (f"{now.folder}/store.db", chain.spec)
    written["store"]["place"] = f"{home.folder}/store.db"  # as earlier versions wrote it
    (now.chain_folder("train") / "chain.json").write_text(json.dumps(written))
    (stored,), _ = read_chain_files(now.folder)
    assert stored.place == f"{now.folder}/store.db"


@pytest.mark.parametrize("url", ["postgresql://ada@db/mirage", "sqlite:////opt/mirage/store.db"])
def test_a_store_outside_of_the_folder_stays_where_it_is(home: Home, url: str) -> None:
    chain_in(replace(home, store_url=url))
    now = moved(home)
    stored = read_chain_file(now.chain_folder("train"))
    assert stored is not None
    assert stored.place == url.removeprefix("sqlite:///")


def test_a_store_lost_after_a_move_is_not_begun_anew(home: Home) -> None:
    open_store(home.store_url).close()
    chain_in(home)
    now = moved(home)
    for left in now.folder.glob("store.db*"):
        left.unlink()
    with pytest.raises(StoreGone, match=r"the files of its chains \(train\) show that there was one"):
        open_store(now.store_url)


def test_an_open_store_in_a_moved_folder_reports_the_remedy(home: Home) -> None:
    with closing(open_store(home.store_url)) as store:
        moved(home)
        with pytest.raises(StoreGone, match="where its folder was moved: MIRAGE_HOME=FOLDER mirage agent start"):
            store.chains()


def test_an_agent_with_its_store_elsewhere_waits_for_the_folder_and_loses_no_link(home: Home, store: SqlStore) -> None:
    slurm = small_slurm(Cluster.pool(4), Program(), "easy")
    made = store.add_chain("train", chain_in(home, text=b"#!/bin/sh\n").spec, BEGIN_S)
    store_new_chain(home, made, store.identity())

    def cycles(folder: Path, seconds: int) -> None:
        agent = Agent(
            store, slurm, SystemShell(), clock=slurm.clock, monotonic=slurm.clock, holder="me", folder=folder
        )  # fmt: skip
        end_s = slurm.clock() + seconds
        while slurm.clock() < end_s:
            slurm.sleep(agent.pause_s(agent.cycle(), 0.0))

    cycles(home.folder, 120)
    now = moved(home)
    cycles(home.folder, 4_000)
    assert (
        f"the copy of its script, chains/train/script/job.sh, is not in {home.folder}" in store.chain("train").trouble
    )
    waiting = store.links(made.id)[-1]
    assert (waiting.state, waiting.job, waiting.attempted_s) == (LinkState.PLANNED, MISSING, MISSING)
    cycles(now.folder, 7_200)
    links = store.links(made.id)
    assert [link.number for link in links] == list(range(1, len(links) + 1))
    assert next(link for link in links if link.number == waiting.number).job != MISSING
    assert store.chain("train").trouble == ""
    kinds = [event.kind for event in store.events(made.id)]
    assert (kinds.count("trouble"), kinds.count("trouble-over"), kinds.count("refused")) == (1, 1, 0)


def test_a_unit_runs_only_while_the_folder_is_in_its_place() -> None:
    unit = systemd_unit({"MIRAGE_HOME": "/scratch/50% ada"}).splitlines()
    assert unit.index("ConditionPathIsDirectory=/scratch/50%% ada") < unit.index("[Service]")


def test_an_agent_that_is_a_job_begins_nothing_where_its_folder_was(home: Home, tmp_path: Path) -> None:
    output = tmp_path / "said"
    (tmp_path / "sbatch").write_text(f"#!/bin/sh\necho sbatch >> '{output}'\n")
    (tmp_path / "sbatch").chmod(0o755)
    environment = {"MIRAGE_HOME": str(home.folder), "PATH": f"{tmp_path}:/usr/bin:/bin"}
    spooled = tmp_path / "spooled"
    write_agent_script(home, environment, job_command(home, "safe", "", 3600), 3600)
    spooled.write_bytes(script_of_jobs(home).read_bytes())
    moved(home)
    done = subprocess.run(["sh", str(spooled)], env=dict(os.environ), capture_output=True, text=True)
    assert done.returncode == 1
    assert f"the agent's folder {home.folder} was moved or deleted: MIRAGE_HOME=FOLDER" in done.stderr
    assert not output.exists()
    assert not home.folder.exists()
