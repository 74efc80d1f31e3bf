"""Jobs that have ended: what their archive says, over the paths of running ones, and in the same page."""

import asyncio
import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import threading

import pytest
from support.pages.chromium import PROGRAM, chromium
from support.pages.page_pictures import JOB_ID, picture
from support.pages.page_server import with_answers

from flinkbuf.commands.cli import main
from flinkbuf.common import Configuration
from flinkbuf.datastream import StreamExecutionEnvironment
from flinkbuf.runtime.picture.job_archive import archive_job
from flinkbuf.web import history as history_module
from flinkbuf.web.history import JobHistory
from flinkbuf.web.router import Request
from flinkbuf.web.server import JobServer


def ask(history, path):
    answer = history.answer(Request("GET", path))
    return answer.status, answer.body


def run_a_job(directory, name="numbers", fail=False):
    settings = {"execution.target": "embedded", "jobmanager.archive.fs.dir": str(directory), "rest.enabled": "false"}
    environment = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    environment.set_parallelism(1)

    def work(value):
        if fail:
            raise ValueError("that was to be expected")
        return value

    environment.from_collection(list(range(50))).map(work).filter(lambda value: False).print()
    client = environment.execute_async(name)
    with contextlib.suppress(Exception):
        client.get_job_execution_result().result()
    return client


def test_a_jobs_archive_says_what_the_job_said(tmp_path):
    client = run_a_job(tmp_path)
    history, job_id = JobHistory(tmp_path), str(client.get_job_id())
    details = json.loads(json.dumps(client.details()))
    assert ask(history, f"/jobs/{job_id}") == (200, details)
    for name in ("exceptions", "checkpoints", "accumulators"):
        assert ask(history, f"/jobs/{job_id}/{name}") == (200, details[name])
    assert ask(history, f"/jobs/{job_id}/plan") == (200, {"plan": details["plan"]})
    status, made = ask(history, f"/jobs/{job_id}/picture")
    assert (status, made["state"], made["can-command"], made["is-archived"]) == (200, "FINISHED", False, True)
    assert made["vertices"][0]["totals"]["records_out"] == details["vertices"][0]["metrics"]["write-records"]
    assert made["answers"][0]["answer"] == "Finished"
    assert ask(history, "/picture")[1]["jid"] == job_id
    (line,) = ask(history, "/jobs/overview")[1]["jobs"]
    assert (line["name"], line["state"], line["tasks"]["finished"]) == ("numbers", "FINISHED", line["tasks"]["total"])
    vertex = details["vertices"][0]["id"]
    assert ask(history, f"/jobs/{job_id}/vertices/{vertex}/flamegraph") == (200, {"endTimestamp": -1})


def test_a_job_that_failed_is_there_with_its_failure(tmp_path):
    job_id = str(run_a_job(tmp_path, fail=True).get_job_id())
    made = ask(JobHistory(tmp_path), f"/jobs/{job_id}/picture")[1]
    assert made["state"] == "FAILED"
    assert "that was to be expected" in made["exceptions"]["root-exception"]


def archive(directory, number, **more):
    job_id = f"{number:032x}"
    made = picture(jid=job_id, name=f"job {number}", state="FINISHED", **more)
    archive_job(directory, {"jid": job_id, "name": f"job {number}", "state": "FINISHED", "picture": with_answers(made)})
    return job_id


def test_files_that_come_change_or_go_are_seen(tmp_path, monkeypatch):
    monkeypatch.setattr(history_module, "KEPT", 2)
    history = JobHistory(tmp_path)
    assert ask(history, "/jobs") == (200, {"jobs": []})
    assert ask(history, "/picture")[0] == 404
    ids = [archive(tmp_path, number) for number in range(4)]
    assert {each["id"] for each in ask(history, "/jobs")[1]["jobs"]} == set(ids)
    assert len(history._kept) == 2
    (tmp_path / f"{ids[0]}.json").unlink()
    assert ask(history, f"/jobs/{ids[0]}/picture") == (404, {"errors": [f"Job {ids[0]} not found"]})
    assert len(ask(history, "/jobs")[1]["jobs"]) == 3
    archive(tmp_path, 1, restarts=7)
    assert ask(history, f"/jobs/{ids[1]}/picture")[1]["restarts"] == 7


@pytest.mark.parametrize("data", ["", "{", "[]", '{"jid": "x"}', "[" * 100_000])
def test_a_file_that_is_no_archive_is_named_and_the_others_are_shown(tmp_path, data):
    good, bad = archive(tmp_path, 1), "ba" * 16
    (tmp_path / f"{bad}.json").write_text(data)
    history = JobHistory(tmp_path)
    status, body = ask(history, f"/jobs/{bad}/picture")
    assert status == 500 and body["errors"]
    assert [each["id"] for each in ask(history, "/jobs")[1]["jobs"]] == [good]


def test_archives_have_limits_and_paths_stay_inside(tmp_path, monkeypatch):
    job_id = archive(tmp_path, 1)
    history = JobHistory(tmp_path)
    monkeypatch.setattr(history_module, "SIZE_MAX", 10)
    assert ask(history, f"/jobs/{job_id}/picture")[0] == 500
    for path in ("/jobs/..%2f..%2fetc/picture", "/jobs/../picture", f"/jobs/{job_id}/nothing"):
        assert ask(history, path)[0] in (400, 404)
    with pytest.raises(NotADirectoryError, match="is no directory; jobs are archived by jobmanager.archive.fs.dir"):
        JobHistory(tmp_path / "none")


def test_an_archive_without_a_picture_says_so(tmp_path):
    archive_job(tmp_path, {"jid": JOB_ID, "name": "old", "state": "FINISHED"})
    status, body = ask(JobHistory(tmp_path), f"/jobs/{JOB_ID}/picture")
    assert (status, body) == (404, {"errors": [f"The archive of job {JOB_ID} has no picture."]})


def test_the_command_serves_until_it_is_interrupted(tmp_path):
    job_id = archive(tmp_path, 5)
    command = [sys.executable, "-m", "flinkbuf", "history", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        line = process.stdout.readline()
        assert line.startswith(f"{tmp_path} can be looked at: http://127.0.0.1:")
        port = int(line.rstrip().rstrip("/").rpartition(":")[2])
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=20)) as connection:
            connection.request("GET", f"/jobs/{job_id}/picture")
            assert json.loads(connection.getresponse().read())["name"] == "job 5"
            connection.request("PATCH", f"/jobs/{job_id}?mode=cancel")
            assert connection.getresponse().status == 401
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(20) == 0
        assert process.stderr.read() == ""


def test_the_command_ends_when_its_server_does(tmp_path, monkeypatch, capsys, caplog):
    is_told, wait = threading.Event(), JobServer.wait  # one that fails before it is up says so to whoever makes it

    def tell_and_wait(server):
        is_told.set()
        wait(server)

    async def fail(_):
        await asyncio.to_thread(is_told.wait, 20)
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(JobServer, "wait", tell_and_wait)
    monkeypatch.setattr("asyncio.Event.wait", fail)
    assert main(["history", str(tmp_path)]) == 1
    assert "its server has failed" in capsys.readouterr().err and "planted" in caplog.text


def test_the_token_of_tools_comes_from_a_file_of_ones_own(tmp_path, monkeypatch, capsys):
    file = tmp_path / "token"
    file.write_text("a-token-of-a-test\n")
    file.chmod(0o604)
    arguments = ["history", str(tmp_path), "--token-file", str(file)]
    assert main(arguments) == 1
    assert "in a file of your own with mode 600" in capsys.readouterr().err
    file.chmod(0o600)
    given = []

    def served(address, ports, token, respond):
        given.append(token)
        raise OSError("planted")

    monkeypatch.setattr("flinkbuf.web.server.JobServer", served)
    assert main(arguments) == 1 and given == ["a-token-of-a-test"]


def test_a_directory_that_is_not_there_is_named(tmp_path, capsys):
    assert main(["history", str(tmp_path / "none")]) == 1
    assert "is no directory" in capsys.readouterr().err


@pytest.mark.skipif(PROGRAM is None, reason="there is no chromium")
def test_the_page_shows_the_archive(tmp_path):
    job_id = str(run_a_job(tmp_path, "first").get_job_id())
    run_a_job(tmp_path, "second")
    with contextlib.closing(JobServer(respond=JobHistory(tmp_path).answer)) as server, chromium() as browser:
        page = browser.page(server.address + "/")
        page.wait_for("document.querySelector('h1')?.innerText === 'second'")
        page.wait_for("document.querySelectorAll('#jobs option').length === 2")
        assert page.text(".banner") == "The job has finished. This is its last picture, out of the archive."
        page.run(f"location.hash = '#/job/{job_id}'")
        page.wait_for("document.querySelector('h1')?.innerText === 'first'")
        page.wait_for("document.querySelectorAll('#subtasks tbody tr').length === 1")
        assert page.run("document.querySelector('.commands')") is None
        assert page.errors() == []
