"""Views through slurmrestd: of both versions' recorded answers, and of a real one."""

from __future__ import annotations

import getpass
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer

import pytest

from mirage.errors import SlurmRefused, SlurmUnreachable, UnknownName
from mirage.job_state import JobState
from mirage.slurm.client import SlurmClient
from mirage.slurm.queue_source import ScontrolClient, client_from
from mirage.slurm.rest import RestClient, RestViews
from mirage.slurm.runner import SystemRunner
from tests.support.waiting import until

Answers = dict[str, tuple[int, str]]


@pytest.fixture
def serve() -> Iterator[Callable[[Answers], RestViews]]:
    """A web server with prepared answers, and the views through it."""
    servers = []

    def start(answers: Answers) -> RestViews:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                code, text = answers.get(self.path.partition("?")[0], (404, "{}"))
                if self.headers["X-SLURM-USER-TOKEN"] != "good":
                    code, text = 401, "Authentication failure"
                self.send_response(code)
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return RestViews(
            f"http://127.0.0.1:{server.server_port}/", user="ada", token="good", clock=time.time, timeout_s=5
        )

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def answers(folder: Path, version: str) -> Answers:
    def recorded(name: str) -> tuple[int, str]:
        return 200, (folder / f"rest.{name}.json").read_text()

    paths = {f"/slurm/{version}/jobs": {}, "/slurm/v0.0.36/jobs": {}, f"/slurm/{version}/job/{{job_id}}": {}}
    return {
        "/openapi/v3": (200, json.dumps({"paths": paths})),
        **{f"/slurm/{version}/{name}": recorded(name) for name in ("jobs", "nodes", "partitions")},
        f"/slurmdb/{version}/jobs": recorded("db.jobs"),
    }


@pytest.mark.parametrize(("folder", "version"), [(".", "v0.0.38"), ("25.11", "v0.0.44")])
def test_recorded_answers_of_both_versions(
    folder: str, version: str, serve: Callable[[Answers], RestViews], shared_data: Path
) -> None:
    views = serve(answers(shared_data / "slurm-fixtures" / folder, version))
    assert views.version() == version
    jobs = views.observe().jobs
    assert jobs
    assert {job.state for job in jobs} <= set(JobState) - {JobState.UNKNOWN}
    machine = views.machine()
    assert [node.name for node in machine.nodes][:2] == ["n1", "n2"]
    assert {node.gpus for node in machine.nodes} == {8}
    assert {"train", "infer"} <= {partition.name for partition in machine.partitions}
    assert all(job.id > 0 and job.submit_s > 0 for job in views.accounting(0))


def test_an_update_of_slurm_that_ends_a_version_is_followed(serve: Callable[[Answers], RestViews]) -> None:
    def served(version: str) -> Answers:
        paths = json.dumps({"paths": {f"/slurm/{version}/jobs": {}}})
        return {"/openapi/v3": (200, paths), f"/slurm/{version}/jobs": (200, '{"jobs": [{"job_id": 7}]}')}

    present = served("v0.0.38")
    views = serve(present)
    assert [job.id for job in views.observe().jobs] == [7]
    present.clear()
    present.update(served("v0.0.42"))
    assert [job.id for job in views.observe().jobs] == [7]
    assert views.version() == "v0.0.42"
    del present["/slurm/v0.0.42/jobs"]
    with pytest.raises(SlurmRefused, match="404"):
        views.observe()


def test_errors_name_the_remedy(serve: Callable[[Answers], RestViews]) -> None:
    jobs = "/slurm/v0.0.38/jobs"
    openapi = (200, json.dumps({"paths": {jobs: {}}}))
    refusing = serve({"/openapi/v3": openapi, jobs: (200, json.dumps({"errors": [{"description": "no such thing"}]}))})
    with pytest.raises(SlurmRefused, match="no such thing"):
        refusing.observe()
    with pytest.raises(SlurmUnreachable, match="did not answer with JSON"):
        serve({"/openapi/v3": (200, "<html>")}).observe()
    with pytest.raises(SlurmUnreachable, match="answered 502"):
        serve({"/openapi/v3": (502, "bad gateway")}).observe()
    with pytest.raises(SlurmRefused, match="is it slurmrestd"):
        serve({"/openapi/v3": (200, "{}")}).observe()
    stranger = RestViews(refusing.url, user="ada", token="stale", clock=time.time)
    with pytest.raises(SlurmRefused, match="scontrol token"):
        stranger.observe()
    with pytest.raises(SlurmUnreachable, match="no answer from slurmrestd"):
        RestViews("http://127.0.0.1:9", user="ada", token="good", clock=time.time).observe()


@pytest.fixture
def broken() -> Iterator[Callable[[bytes], RestViews]]:
    """A server that sends some bytes and closes the connection, and the views through it."""
    servers = []

    def start(sent: bytes) -> RestViews:
        class Handler(BaseRequestHandler):
            def handle(self) -> None:
                self.request.recv(65_536)
                self.request.sendall(sent)

        server = ThreadingTCPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        servers.append(server)
        url = f"http://127.0.0.1:{server.server_address[1]}"
        return RestViews(url, user="ada", token="good", clock=time.time, timeout_s=5)

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    "sent",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{",
        b"HTTP/1.1 503 Busy\r\nContent-Length: 500\r\n\r\n{",
        b"?\r\n",
    ],
)
def test_half_an_answer_is_none(broken: Callable[[bytes], RestViews], sent: bytes) -> None:
    with pytest.raises(SlurmUnreachable, match="slurmrestd"):
        broken(sent).observe()


@pytest.fixture
def commands(tmp_path: Path) -> Callable[..., SystemRunner]:
    """A runner of programs that print prepared text."""

    def make(**texts: str) -> SystemRunner:
        for name, text in texts.items():
            (tmp_path / name).write_text(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\n")
            (tmp_path / name).chmod(0o700)
        return SystemRunner({"PATH": f"{tmp_path}:/usr/bin:/bin"})

    return make


@pytest.mark.parametrize("token", ["", "stale", "good"])
def test_a_token_that_is_absent_or_has_run_out_is_made_anew(
    token: str, serve: Callable[[Answers], RestViews], commands: Callable[..., SystemRunner], shared_data: Path
) -> None:
    views = serve(answers(shared_data / "slurm-fixtures", "v0.0.38"))
    runner = commands(scontrol="SLURM_JWT=good")
    client = client_from({"MIRAGE_QUEUE": views.url, "SLURM_JWT": token, "USER": "ada"}, runner, time.time)
    assert isinstance(client, RestClient)
    assert client.observe().jobs == views.observe().jobs
    assert client.machine() == views.machine()
    assert client.accounting(0) == views.accounting(0)
    assert runner.count["scontrol"] == (token != "good")


def test_a_token_that_is_never_valid_is_reported(
    serve: Callable[[Answers], RestViews], commands: Callable[..., SystemRunner]
) -> None:
    url = serve({}).url
    with pytest.raises(SlurmRefused, match="answered 401"):
        RestClient(url, commands(scontrol="SLURM_JWT=bad"), clock=time.time, user="ada").observe()
    with pytest.raises(SlurmRefused, match="which is not a token"):
        RestClient(url, commands(scontrol="nonsense"), clock=time.time, user="ada").observe()


def test_without_accounting_in_slurmrestd_sacct_is_queried(
    serve: Callable[[Answers], RestViews], commands: Callable[..., SystemRunner], shared_data: Path
) -> None:
    prepared = answers(shared_data / "slurm-fixtures", "v0.0.38")
    del prepared["/slurmdb/v0.0.38/jobs"]
    runner = commands(sacct="")
    client = RestClient(serve(prepared).url, runner, clock=time.time, user="ada", token="good")
    assert client.accounting(0) == ()
    assert runner.count["sacct"] == 1


def test_the_queue_is_observed_through_scontrol_on_request(
    commands: Callable[..., SystemRunner], shared_data: Path
) -> None:
    text = (shared_data / "slurm-fixtures/scontrol.show.job.o.txt").read_text()
    client = client_from({"MIRAGE_QUEUE": "scontrol"}, commands(scontrol=text), lambda: 7.0)
    assert isinstance(client, ScontrolClient)
    queue = client.observe()
    assert (queue.time_s, len(queue.jobs)) == (
        7,
        len([line for line in text.splitlines() if line.startswith("JobId=")]),
    )


def test_a_source_that_is_unknown_is_refused(commands: Callable[..., SystemRunner]) -> None:
    assert type(client_from({}, commands(), time.time)) is SlurmClient
    with pytest.raises(UnknownName, match="Did you mean 'squeue'"):
        client_from({"MIRAGE_QUEUE": "squeu"}, commands(), time.time)
    with pytest.raises(UnknownName, match="'http://'"):
        client_from({"MIRAGE_QUEUE": "http://"}, commands(), time.time)


def test_odd_answers_are_skipped_with_a_count_or_refused(
    serve: Callable[[Answers], RestViews], caplog: pytest.LogCaptureFixture
) -> None:
    def answering(**parts: object) -> RestViews:
        openapi = (200, json.dumps({"paths": {"/slurm/v0.0.38/jobs": {}}}))
        served = {f"/slurm/v0.0.38/{name}": (200, json.dumps({name: part})) for name, part in parts.items()}
        return serve({"/openapi/v3": openapi, **served})

    mixed = answering(jobs=[{"job_id": 7, "exit_code": [1], "time_limit": 10**400}, 5, {"job_state": "RUNNING"}, None])
    assert [job.id for job in mixed.observe().jobs] == [7]
    assert [record.count for record in caplog.records] == [3]  # type: ignore[attr-defined]
    with pytest.raises(SlurmUnreachable, match=r"/slurm/…/jobs with 1 record that cannot be read: 'none'"):
        answering(jobs="none").observe()
    assert answering(jobs=[]).observe().jobs == ()
    odd = [{"name": "p", "maximums": 5, "defaults": [], "priority": 3, "nodes": {"configured": "n[1-"}}]
    (partition,) = answering(nodes=[], partitions=odd).machine().partitions
    assert (partition.name, partition.nodes, partition.priority_tier) == ("p", (), 1)
    with pytest.raises(SlurmRefused, match="is it slurmrestd"):
        serve({"/openapi/v3": (200, json.dumps({"paths": 5}))}).observe()
    with pytest.raises(SlurmRefused, match="refused /slurm/…/jobs: no"):
        serve(
            {
                "/openapi/v3": (200, json.dumps({"paths": {"/slurm/v0.0.38/jobs": {}}})),
                "/slurm/v0.0.38/jobs": (200, json.dumps({"errors": "no"})),
            }
        ).observe()


@pytest.mark.parametrize("part", [{}, {"jobs": None}, {"meta": {"Slurm": {}}, "errors": [], "job": []}])
def test_an_answer_without_a_list_of_jobs_is_no_empty_queue(
    serve: Callable[[Answers], RestViews], part: dict[str, object]
) -> None:
    openapi = (200, json.dumps({"paths": {"/slurm/v0.0.38/jobs": {}}}))
    served = {f"/{name}": (200, json.dumps(part)) for name in ("slurm/v0.0.38/jobs", "slurmdb/v0.0.38/jobs")}
    views = serve({"/openapi/v3": openapi, **served})
    with pytest.raises(
        SlurmUnreachable, match="slurmrestd answered /slurm/…/jobs without 'jobs'; it may be overloaded"
    ):
        views.observe()
    with pytest.raises(SlurmUnreachable, match="without 'jobs'"):
        views.accounting(0)


@pytest.mark.parametrize(
    ("pings", "is_up"),
    [
        ([{"hostname": "h1", "ping": "DOWN"}, {"hostname": "h2", "ping": "UP", "mode": "backup1"}], True),
        ([{"hostname": "h1", "pinged": "UP", "responding": True}], True),
        ([{"hostname": "h1", "ping": "DOWN"}], False),
        ([], False),
        ("UP", False),
    ],
)
def test_a_ping_is_answered_where_a_controller_is_up(
    serve: Callable[[Answers], RestViews], pings: object, is_up: bool
) -> None:
    paths = (200, json.dumps({"paths": {"/slurm/v0.0.38/jobs": {}}}))
    views = serve({"/openapi/v3": paths, "/slurm/v0.0.38/ping": (200, json.dumps({"pings": pings}))})
    with nullcontext() if is_up else pytest.raises(SlurmUnreachable, match="no controller that is up"):
        views.ping()


def test_a_ping_without_a_controller_is_no_refusal(serve: Callable[[Answers], RestViews]) -> None:
    """As slurmrestd 22.05.8 answers while slurmctld is dead."""
    paths = (200, json.dumps({"paths": {"/slurm/v0.0.38/jobs": {}}}))
    error = {"description": "slurmctld config is unable to load", "error_number": -1, "source": "slurm_load_ctl_conf"}
    views = serve({"/openapi/v3": paths, "/slurm/v0.0.38/ping": (500, json.dumps({"errors": [error]}))})
    with pytest.raises(SlurmUnreachable, match="unable to load"):
        views.ping()
    views.token = "stale"
    with pytest.raises(SlurmRefused, match="is the token still valid"):
        views.ping()


@pytest.mark.real_slurm
@pytest.mark.slow
def test_a_real_slurmrestd_reports_whether_the_controller_lives(private_cluster: Callable[..., object]) -> None:
    cluster = private_cluster(nodes=1, rest=True)
    environment = {"MIRAGE_QUEUE": cluster.rest_url, "USER": getpass.getuser(), "SLURM_JWT": cluster.token()}
    client = client_from(environment, SystemRunner(cluster.environment), time.time)
    client.probe()
    cluster.kill_controller()
    with pytest.raises(SlurmUnreachable):
        client.probe()
    cluster.start_controller()
    client.probe()


@pytest.mark.real_slurm
@pytest.mark.slow
def test_a_real_slurmrestd_reports_what_squeue_reports(private_cluster: Callable[..., object], tmp_path: Path) -> None:
    cluster = private_cluster(nodes=2, rest=True)
    views = RestViews(cluster.rest_url, user=getpass.getuser(), token=cluster.token(), clock=time.time)
    commands = SlurmClient(SystemRunner(cluster.environment))
    words = ["-N1", "-t7", "--gpus-per-node=8", "--comment=mirage:x:1", "-o", "/dev/null", "--wrap", "sleep 60"]
    first = int(cluster.run("sbatch", "--parsable", *words).strip())
    second = int(cluster.run("sbatch", "--parsable", f"--dependency=afterany:{first}", *words).strip())
    state = lambda: next(job for job in commands.observe().jobs if job.id == first).state  # noqa: E731
    until(lambda: state() is JobState.RUNNING, 20, "the first job runs")
    by_rest = {job.id: job for job in views.observe().jobs}
    by_text = {job.id: job for job in commands.observe().jobs}
    assert by_rest.keys() == by_text.keys() == {first, second}
    for name in (
        "state",
        "name",
        "partition",
        "nodes",
        "gpus",
        "limit_s",
        "submit_s",
        "start_s",
        "comment",
        "nodelist",
    ):
        assert getattr(by_rest[first], name) == getattr(by_text[first], name), name
    assert by_rest[second].dependency.startswith(f"afterany:{first}")
    assert [node.name for node in views.machine().nodes] == [node.name for node in commands.machine().nodes]
    environment = {"MIRAGE_QUEUE": cluster.rest_url, "USER": getpass.getuser()}
    by_token = client_from(environment, SystemRunner(cluster.environment), time.time)
    assert {job.id: job.comment for job in by_token.observe().jobs} == {k: job.comment for k, job in by_text.items()}
    by_scontrol = client_from({"MIRAGE_QUEUE": "scontrol"}, SystemRunner(cluster.environment), time.time)
    for job in by_scontrol.observe().jobs:
        for name in ("state", "name", "partition", "nodes", "gpus", "limit_s", "start_s", "comment", "nodelist"):
            assert getattr(job, name) == getattr(by_text[job.id], name), name
    assert by_scontrol.machine().nodes == commands.machine().nodes
    assert [part.name for part in by_scontrol.machine().partitions] == [p.name for p in commands.machine().partitions]
    for client in (by_token, by_scontrol):
        for numbers in ([first], [first, second], [first, 424_242], [424_242], []):
            found = {job.id: job.state for job in client.observe_jobs(numbers)}
            assert found == {number: by_text[number].state for number in numbers if number != 424_242}
