"""The site file: what it may contain, which rule wins, and what each rule changes."""

from __future__ import annotations

import os
import socket
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mirage.agent import site_file
from mirage.agent.cycle.handover import ReadinessProbes, hand_over
from mirage.agent.cycle.poller import Poller
from mirage.agent.cycle.retries import pause_where_not_allowed
from mirage.agent.model import ChainSpec, ChainState
from mirage.agent.paths import LINK_SCRIPT, Home
from mirage.agent.settings import AgentSettings
from mirage.agent.site_file import SiteFile, read_site_file, read_site_files
from mirage.agent.store.sql_store import open_store
from mirage.cli import cli_context, main
from mirage.errors import ConfigurationError
from mirage.slurm.records import Machine, Queue, Submission
from tests.support.one_chain import NOW_S, OneChain, job, running
from tests.support.ready_shells import TrueShell

SITE = """
contact = "hpc@example.org"
least_poll = "2m"
most_chains = 3
most_overlap = "45m"
no_chains_in_partitions = ["debug"]
login_nodes = ["login[1-2]", "front"]
"""

USER = """
contact = "me"
least_poll = "30s"
most_chains = 7
most_held_jobs = 2
most_waiting_links = 1
most_overlap = "00:10:00"
no_chains_in_partitions = ["long", "debug"]
no_chains_in_qos = ["Short"]
"""


def files(folder: Path, site: str = SITE, user: str = USER) -> tuple[dict[str, str], Path]:
    path = folder / "etc.toml"
    path.write_text(site)
    own = folder / "config" / "mirage" / "site.toml"
    own.parent.mkdir(parents=True)
    own.write_text(user)
    return {"XDG_CONFIG_HOME": str(folder / "config")}, path


def test_the_stricter_value_of_each_rule_wins(tmp_path: Path) -> None:
    environment, path = files(tmp_path)
    found = read_site_files(environment, path)
    assert found == SiteFile(
        path=f"{path} and {tmp_path}/config/mirage/site.toml",
        contact="hpc@example.org",
        least_poll_s=120,
        most_chains=3,
        most_held_jobs=2,
        most_waiting_links=1,
        most_overlap_s=600,
        no_chains_in_partitions=("debug", "long"),
        no_chains_in_qos=("short",),
        login_nodes=("login1", "login2", "front"),
    )


def test_without_files_there_are_no_rules(tmp_path: Path) -> None:
    found = read_site_files({"HOME": str(tmp_path)}, tmp_path / "none")
    assert found == SiteFile()
    assert found.lines() == []
    assert AgentSettings().under(found) == AgentSettings()
    assert not found.is_login_node()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("most_chain = 3", "unknown rule 'most_chain'. Known: contact, least_poll"),
        ("most_chains = true", "most_chains = True: it is a number of at least 0"),
        ("most_chains = -1", "it is a number of at least 0"),
        ("least_poll = 120", "a duration is a text, such as"),
        ('least_poll = "2h"', "it is at most 00:30:00"),
        ('least_poll = "soon"', "'soon' is no duration"),
        ('least_poll = "-1"', "it is negative; leave the rule out"),
        ('least_poll = "30"', 'it has no unit; write "30s" or "30m"'),
        ('most_overlap = "-1"', "it is negative; leave the rule out"),
        ('most_overlap = "-5m"', "'-5m' is no duration"),
        ("most_overlap = 45", "a duration is a text, such as"),
        ("most_held_jobs = 1.5", "it is a number of at least 0"),
        ('most_waiting_links = "2"', "it is a number of at least 0"),
        ("most_waiting_links = 0", "it is a number of at least 1: one link waits in every chain"),
        ('no_chains_in_partitions = ["debug,short"]', 'it is a list of names, one a text: ["debug", "short"]'),
        ('no_chains_in_partitions = ["debug", "main*"]', "no name has a *, with which sinfo marks the default"),
        ('no_chains_in_qos = ["*"]', "write each name in full"),
        ('no_chains_in_qos = ["debug "]', "it is a list of names, one a text"),
        ("no_chains_in_qos = [3]", "it is a list of names, one a text"),
        ('login_nodes = ["none"]', "it is a list of names of hosts"),
        ('login_nodes = [""]', "it is a list of names of hosts"),
        ('login_nodes = ["login[4-1]"]', "is descending"),
        ('contact = "a\\u001b[2Jb"', "it is one line of text"),
        ("[site]\nmost_chains = 3", "unknown rule 'site'. Known: contact, least_poll"),
        ('login_nodes = "login1"', "it is a list of names"),
        ('login_nodes = ["*"]', "'*' is no name of a host; write names and ranges"),
        ("most_chains =", "is not TOML"),
        ('contact = "a\\nb"', "it is one line of text"),
    ],
)
def test_a_rule_that_cannot_be_used_is_an_error(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "site.toml").write_text(text)
    with pytest.raises(ConfigurationError, match=r"site\.toml") as error:
        read_site_file(tmp_path / "site.toml")
    assert message in str(error.value)


def test_a_rule_file_that_is_no_text_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "latin.toml").write_bytes('contact = "Hélène"'.encode("latin-1"))
    with pytest.raises(ConfigurationError, match=r"latin\.toml: it is not text in UTF-8: byte 13 is 0xe9; ask"):
        read_site_file(tmp_path / "latin.toml")
    os.mkfifo(tmp_path / "pipe.toml")  # opened, it would wait for ever for a writer
    with pytest.raises(ConfigurationError, match=r"pipe\.toml: it is not a file; ask its owner"):
        read_site_file(tmp_path / "pipe.toml")


def test_qos_are_compared_without_case_and_partitions_with_it(tmp_path: Path) -> None:
    rules = read_site_files(*files(tmp_path))
    assert "no chains in QOS short" in rules.place_refusal("", "SHORT")
    assert "no chains in partition debug" in rules.place_refusal("debug", "")
    assert rules.place_refusal("DEBUG", "") == ""


def test_refusals_name_the_file_and_the_contact_line(tmp_path: Path) -> None:
    environment, path = files(tmp_path, user="")
    rules = read_site_files(environment, path)
    of_site = f"(site file {rules.path}); contact: hpc@example.org"
    assert rules.chains_refusal(2) == ""
    assert rules.chains_refusal(3) == f"this site allows 3 chains of a user; alive: 3 {of_site}"
    assert rules.place_refusal("gpu,debug", "").startswith("this site allows no chains in partition debug; choose")
    assert rules.place_refusal("gpu", "debug") == ""
    held = replace(rules, most_held_jobs=1).chains_refusal(1)
    assert held == f"this site allows 1 held job of a user: each chain holds one; alive: 1 chain {of_site}"


def test_chains_without_an_agent_count_until_they_end(tmp_path: Path) -> None:
    home = Home.of({"MIRAGE_HOME": str(tmp_path / "home")})
    rules = SiteFile("/etc/x", most_chains=2)
    with closing(open_store(home.store_url)) as store:
        store.add_chain("serve", ChainSpec(Submission("serve.sh")), 0)
        rules.check_chains(store, home)
        folder = home.agentless_folder("alone")
        folder.mkdir(parents=True)
        (folder / LINK_SCRIPT).touch()
        with pytest.raises(ConfigurationError, match=r"alive: 2 \(site file /etc/x\); without an agent: alone$"):
            rules.check_chains(store, home)
        for mark in ("stop", "done"):
            (folder / mark).touch()
            rules.check_chains(store, home)
            (folder / mark).unlink()


def test_login_nodes_are_known_by_full_and_short_name() -> None:
    rules = SiteFile("/etc/x", login_nodes=("login1", "front.example.org"))
    hosts = ("login1", "login1.example.org", "front.example.org", "front", "login2", "login10")
    assert [rules.is_login_node(host) for host in hosts] == [True, True, True, False, False, False]
    here = replace(rules, login_nodes=(socket.gethostname(),))
    assert "is a login node: do not train here, but in a job (site file /etc/x)" in here.login_refusal("train")
    assert AgentSettings().under(here).calibrate_every_s == 0
    assert AgentSettings().under(rules).calibrate_every_s > 0


def test_an_agent_polls_no_more_often_than_the_site_allows() -> None:
    settings = AgentSettings().under(SiteFile("x", least_poll_s=120))
    assert (settings.poll_s, settings.busy_poll_s, settings.probe_s) == (120, 120, 120)
    polls: list[int] = []

    def observe() -> Queue:
        polls.append(len(polls))
        return Queue(0, ())

    nothing = SimpleNamespace(
        observe=observe, configuration=dict, machine=lambda: Machine((), ()), accounting=lambda since_s: (), user="ada"
    )
    poller: Any = Poller(nothing, settings)  # type: ignore[arg-type]
    for now_s in (1000, 1001, 1119, 1120, 1180, 1240):
        poller.poll(now_s, "store", missing_since_s=None)
    assert len(polls) == 3


def test_two_links_overlap_no_longer_than_the_site_allows() -> None:
    settings = AgentSettings().under(SiteFile("/etc/x", most_overlap_s=600))

    def handed_over(started_s: int) -> OneChain:
        world = OneChain(running(1), running(2, started_s=started_s, ready_s=-1), settings=settings, ready_by_job=True)
        world.shows(job(101, link=1), job(102, link=2))
        progress = hand_over(world.context, world.chain, ReadinessProbes(TrueShell()))
        assert progress.busy
        return world

    young, old = handed_over(NOW_S - 599), handed_over(NOW_S - 600)
    assert young.context.signals == []
    assert [link.number for _, link in old.context.signals] == [1]
    assert "overlapped as long as this site allows (site file /etc/x)" in old.trouble


def test_a_chain_where_the_site_allows_none_is_paused() -> None:
    world = OneChain(running(1), settings=AgentSettings(site=SiteFile("/etc/x", no_chains_in_qos=("debug",))))
    world.shows(job(101, link=1, qos="normal"))
    assert pause_where_not_allowed(world.context, world.chain).state is ChainState.ACTIVE
    world.shows(job(101, link=1, qos="debug"))
    paused = pause_where_not_allowed(world.context, world.chain)
    assert paused.state is ChainState.PAUSED
    assert paused.why == "this site allows no chains in QOS debug; choose another QOS (site file /etc/x)"


def test_submit_is_refused_before_slurm_is_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    environment, path = files(tmp_path, user="")
    monkeypatch.setattr(site_file, "SITE_FILE", path)
    monkeypatch.setenv("XDG_CONFIG_HOME", environment["XDG_CONFIG_HOME"])
    monkeypatch.setenv("MIRAGE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("MIRAGE_STORE", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.sh").write_text("#!/bin/sh\n#SBATCH -p debug -t 1:00:00\n")
    assert main(["submit", "--policy", "lead:0.5", "--no-agent", "job.sh"]) == 1
    refused = capsys.readouterr().err
    assert f"no chains in partition debug; choose another partition (site file {path}" in refused
    assert "contact: hpc@example.org" in refused
    with cli_context.store() as store:
        assert store.chains() == []


@pytest.mark.parametrize("words", [["compile", "what-if"], ["train", "predict", "swf", "-o", "model"]])
def test_heavy_work_is_refused_on_a_login_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    environment, path = files(tmp_path, site=f'login_nodes = ["{socket.gethostname()}"]', user="")
    monkeypatch.setattr(site_file, "SITE_FILE", path)
    monkeypatch.setenv("XDG_CONFIG_HOME", environment["XDG_CONFIG_HOME"])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "swf").write_text("; \n")
    assert main(words) == 1
    assert "is a login node: do not" in capsys.readouterr().err
