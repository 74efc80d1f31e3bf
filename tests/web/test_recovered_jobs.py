"""A job that goes on without its program is looked at as it was before."""

import contextlib
import http.client
import json
import re
import socket
import threading
import time

import pytest

from flinkbuf.commands.cli import main
from flinkbuf.common import Configuration, WatermarkStrategy
from flinkbuf.datastream import StreamExecutionEnvironment
from flinkbuf.datastream.connectors.number_seq import NumberSequenceSource
from flinkbuf.runtime.protocol.failure import JobSuspendedError
from flinkbuf.web.serving import close_servers


@pytest.fixture
def abandoned(tmp_path):
    """Returns a function from settings to the id of a job that its program has left, and waits for `go-on`."""

    def leave(**more):
        settings = {"execution.target": "embedded", "high-availability.storageDir": str(tmp_path / "ha"), **more}
        env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
        env.set_parallelism(1).enable_checkpointing(3_600_000)
        begun, go_on = tmp_path / "begun", tmp_path / "go-on"

        def wait(number):
            begun.touch()
            time.sleep(0 if go_on.exists() else 0.01)
            return number

        numbers = env.from_source(NumberSequenceSource(1, 2_000), WatermarkStrategy.no_watermarks(), "numbers")
        numbers.map(wait).filter(lambda number: False).print()
        job = env.execute_async("counts")._job
        while not begun.exists():
            time.sleep(0.01)
        job.suspend("its program has ended")
        with pytest.raises(JobSuspendedError):
            job.wait(60)
        close_servers()
        return job.job_id

    yield leave
    (tmp_path / "go-on").touch()
    close_servers()


def recover(directory):
    """Begin to recover it; returns the thread, and a list that gets the exit code."""
    codes = []
    thread = threading.Thread(target=lambda: codes.append(main(["recover", str(directory)])))
    thread.start()
    return thread, codes


def ask(port, path, method="GET", token=""):
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=10)) as connection:
        connection.request(method, path, headers={"Authorization": f"Bearer {token}"} if token else {})
        response = connection.getresponse()
        return response.status, json.loads(response.read())


@pytest.mark.filterwarnings("ignore:these settings have no effect")
def test_a_recovered_job_has_its_page_and_its_rest(abandoned, tmp_path, capfd):
    token = tmp_path / "token"
    token.write_text("a-token-of-a-test\n")
    token.chmod(0o600)
    job_id = abandoned(**{"rest.port": "0", "rest.token-file": str(token), "my.password": "12345x"})
    capfd.readouterr()
    thread, codes = recover(tmp_path / "ha")
    said = ""
    while not (
        found := re.search(r"job 'counts' can be looked at: http://127.0.0.1:(\d+)/\?token=\S+#/job/(\w+)", said)
    ):
        assert thread.is_alive(), said
        said += capfd.readouterr().err
        time.sleep(0.02)
    port = int(found[1])
    assert found[2] == job_id
    while ask(port, f"/jobs/{job_id}/status") != (200, {"status": "RUNNING"}):
        time.sleep(0.02)
    entries = {each["key"]: each["value"] for each in ask(port, f"/jobs/{job_id}/jobmanager/config")[1]}
    assert (entries["rest.token-file"], entries["my.password"]) == ("******", "******")
    assert ask(port, f"/jobs/{job_id}", "PATCH")[0] == 401
    assert ask(port, f"/jobs/{job_id}/savepoints", "POST", "a-token-of-a-test")[0] == 400, "it lacks a directory only"
    (tmp_path / "go-on").touch()
    thread.join(60)
    assert codes == [0]
    assert ask(port, f"/jobs/{job_id}/picture")[1]["state"] == "FINISHED"


def test_a_page_that_cannot_be_keeps_no_job_from_going_on(abandoned, tmp_path, capfd, caplog):
    abandoned(**{"rest.port": "0"})
    with socket.create_server(("127.0.0.1", 0)) as taken:
        (tmp_path / "go-on").touch()
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("FLINKBUF_PROPERTIES", f"rest.port: {taken.getsockname()[1]}")
            thread, codes = recover(tmp_path / "ha")
            thread.join(60)
    assert codes == [0]
    assert "counts goes on without a page, unlike before: jobs cannot be served at 127.0.0.1" in caplog.text
