"""Jobs on local processes: they run as in the program, whoever dies is named, and nothing stays behind."""

import ctypes
import gc
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
from support.servers.certificates import CAN_MAKE, make_certificates
from support.waiting import wait_until
from support.worlds.task_managers import graph_of

from flinkbuf.config import NetworkConfig
from flinkbuf.runtime.driver.running_job import RunningJob
from flinkbuf.runtime.driver.target import target_named
from flinkbuf.runtime.master.restart_strategy import FixedDelayRestart
from flinkbuf.runtime.protocol.failure import JobCanceledError, JobFailedError
from flinkbuf.runtime.protocol.job_status import JobStatus
from flinkbuf.runtime.protocol.messages import RegisterManager
from flinkbuf.runtime.scheduler.job_master_config import JobMasterConfig
from flinkbuf.targets import launcher_process, local_processes
from flinkbuf.targets.launcher_process import ProcessEnd, end_launcher, the_launcher

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60  # of a busy machine


@pytest.fixture(scope="module", autouse=True)
def _no_launcher_stays():
    yield
    end_launcher()


def local_job(function, elements=range(100), parallelism=2, restarts=0, **options):
    """elements -> function -> by key -> + 1 -> a list of the program; the job and that list."""
    out = []
    graph = graph_of(elements, function, out.append, parallelism=parallelism, runs_in_program=False)
    strategy = FixedDelayRestart(attempts=restarts, delay_ms=0) if restarts else None
    return RunningJob(graph, target=target_named("local"), restart_strategy=strategy, **options), out


def children_of(pid):
    """The task managers of a launcher."""
    try:
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


def is_alive(pid):
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_for_file(path, seconds=PATIENCE_S):
    """What somebody has written to a file as a whole."""
    return wait_until(lambda: path.exists() and path.read_text(), seconds)


def write_whole(path, text):
    Path(f"{path}.part").write_text(str(text))
    os.replace(f"{path}.part", path)


# ---- a job runs


def identity(value):
    return value


def at_leisure(value):
    time.sleep(0.05)
    return value


def test_records_go_through_eight_processes_and_back():
    def name_process(value):
        return value * 10

    job, out = local_job(name_process, parallelism=8)
    job.run()
    assert job.status is JobStatus.FINISHED
    assert sorted(out) == [value * 10 + 1 for value in range(100)]


def test_each_slot_is_a_process_of_its_own_session_away_from_the_terminal(tmp_path):
    def write_process(value):
        (tmp_path / str(os.getpid())).write_text(f"{os.getsid(0)} {os.getpgid(0)}")
        return value

    local_job(write_process, parallelism=3)[0].run()
    launcher = the_launcher().pid
    processes = {int(path.name): path.read_text().split() for path in tmp_path.iterdir()}
    assert len(processes) == 3
    for pid, (session, group) in processes.items():
        assert int(session) == launcher != os.getsid(0)
        assert int(group) == pid
        assert not is_alive(pid)


def test_an_error_of_a_function_arrives_with_its_traceback():
    def divide(value):
        return 1 // (value - 50)

    job, _ = local_job(divide)
    with pytest.raises(ZeroDivisionError) as caught:
        job.run()
    assert isinstance(caught.value, JobFailedError)
    cause = str(caught.value.__cause__)
    assert "in divide" in cause and "return 1 // (value - 50)" in cause
    assert job.status is JobStatus.FAILED


def test_a_job_that_is_canceled_ends_with_its_processes():
    def slow(value):
        time.sleep(0.05)
        return value

    job, _ = local_job(slow, range(100_000))
    job.start()
    wait_until(lambda: job.status is JobStatus.RUNNING and len(children_of(the_launcher().pid)) == 2)
    job.cancel()
    with pytest.raises(JobCanceledError):
        job.wait(PATIENCE_S)
    assert children_of(the_launcher().pid) == []


def test_a_job_that_is_canceled_while_it_starts_ends():
    for delay_s in (0, 0.005, 0.02, 0.05, 0.1):
        job, _ = local_job(at_leisure, parallelism=3)
        job.start()
        time.sleep(delay_s)
        job.cancel()
        with pytest.raises(JobCanceledError):
            job.wait(PATIENCE_S)
    assert children_of(the_launcher().pid) == []


def test_what_functions_print_appears_where_the_program_prints(capfd):
    def speak(value):
        print(f"value {value}")
        print(f"error {value}", file=sys.stderr)
        return value

    local_job(speak, range(5), parallelism=1)[0].run()
    written = capfd.readouterr()
    assert re.findall(r"value \d", written.out) == [f"value {n}" for n in range(5)]
    assert re.findall(r"error \d", written.err) == [f"error {n}" for n in range(5)]


def test_processes_are_like_the_program(monkeypatch, tmp_path):
    (tmp_path / "beside.py").write_text("WHO = 'a module beside the program'\n")
    the_launcher()  # is there before all this is set
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    monkeypatch.setenv("FLINKBUF_TEST_VALUE", "of the program")

    def look(value):
        import random

        import beside

        found = [beside.WHO, os.environ["FLINKBUF_TEST_VALUE"], os.getcwd(), str(random.random())]
        write_whole(tmp_path / f"found-{os.getpid()}", "\n".join(found))
        return value

    local_job(look)[0].run()
    found = [path.read_text().split("\n") for path in tmp_path.glob("found-*")]
    assert len(found) == 2
    assert {tuple(each[:3]) for each in found} == {("a module beside the program", "of the program", str(tmp_path))}
    assert len({each[3] for each in found}) == 2, "both draw the same numbers"


def run_program(tmp_path, code, **options):
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(code))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
    return subprocess.Popen(
        [sys.executable, str(path)],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


JOB = """
    import os, sys, time
    from pathlib import Path
    from support.worlds.task_managers import graph_of
    from flinkbuf.targets.launcher_process import the_launcher
    from flinkbuf.runtime.driver.running_job import RunningJob
    from flinkbuf.runtime.driver.target import target_named

    def run(function, elements=range(10), parallelism=2):
        out = []
        graph = graph_of(elements, function, out.append, parallelism=parallelism, runs_in_program=False)
        RunningJob(graph, target=target_named("local")).run()
        return out
"""


def test_a_program_needs_no_guard_and_its_modules_are_found(tmp_path):
    (tmp_path / "mine.py").write_text("def triple(value):\n    return value * 3\n")
    code = f"""
    {JOB}
    import mine
    print("begin")
    FACTOR = 2

    class Thing:
        def double(self, value):
            return mine.triple(value) * FACTOR

    print(sorted(run(Thing().double)))
    print(sorted(run(mine.triple)))
    """
    program = run_program(tmp_path, code)
    out, errors = program.communicate(timeout=PATIENCE_S)
    assert program.returncode == 0, errors
    assert out.splitlines() == ["begin", str([n * 6 + 1 for n in range(10)]), str([n * 3 + 1 for n in range(10)])]
    assert errors == ""


# ---- whoever dies


def hold(value):
    """Goes on until it is killed."""
    time.sleep(0.02)
    return value


def start_and_wait(job, count=2):
    """Start a job that goes on; its task managers when they run tasks."""
    job.start()
    wait_until(lambda: job.status is JobStatus.RUNNING)

    def running():
        states = job._ask(lambda: [each.state.name for each in job._master.graph.executions()])
        return set(states) <= {"RUNNING", "FINISHED"}  # a source may be done before all have begun

    wait_until(running)
    managers = children_of(the_launcher().pid)
    assert len(managers) == count
    return managers


def test_a_task_manager_that_is_killed_is_named():
    job, _ = local_job(hold, range(100_000))
    managers = start_and_wait(job)
    killed = time.monotonic()
    os.kill(managers[1], signal.SIGKILL)
    with pytest.raises(JobFailedError) as caught:
        job.wait(PATIENCE_S)
    says = str(caught.value)
    assert re.search(rf"task manager \d \(process {managers[1]}\) was killed by SIGKILL", says), says
    assert re.search(r"it had \d+ MiB at most", says)
    assert time.monotonic() - killed < 10
    assert children_of(the_launcher().pid) == []


def test_a_job_goes_on_when_a_task_manager_is_killed(tmp_path):
    def die_once(value):
        mark = tmp_path / "died"
        if value == 50 and not mark.exists():
            write_whole(mark, time.monotonic())
            os.kill(os.getpid(), signal.SIGKILL)
        if mark.exists() and not (tmp_path / "again").exists():
            write_whole(tmp_path / "again", time.monotonic())
        return value

    job, out = local_job(die_once, restarts=1, elements=range(100))
    job.run()
    took = float((tmp_path / "again").read_text()) - float((tmp_path / "died").read_text())
    assert took < 20  # a process that is silent is given up after 50 s
    assert set(out) == {value + 1 for value in range(100)}
    assert job._master.restart_count == 1


def load_factor():
    """How many others want each core: a busy machine is no failure."""
    return 1 + 2 * os.getloadavg()[0] / os.cpu_count()


@pytest.mark.parametrize("restarts", [0, 1])
def test_the_launcher_is_killed(restarts):
    def slow(value):
        time.sleep(0.01)
        return value

    job, out = local_job(slow, range(300) if restarts else range(100_000), restarts=restarts)
    managers = start_and_wait(job)
    first = the_launcher().pid
    os.kill(first, signal.SIGKILL)
    if restarts:
        job.wait(PATIENCE_S)
        assert set(out) == {value + 1 for value in range(300)}
        assert the_launcher().pid != first
    else:
        with pytest.raises(JobFailedError, match="the process that starts task managers, their launcher, has ended"):
            job.wait(PATIENCE_S)
    wait_until(lambda: not any(map(is_alive, managers)))
    assert not is_alive(first)


def test_a_launcher_that_ended_between_two_jobs_is_replaced():
    local_job(identity)[0].run()
    os.kill(the_launcher().pid, signal.SIGKILL)
    job, out = local_job(identity, restarts=1)
    job.run()
    assert len(out) >= 100


@pytest.mark.parametrize("how", ["SIGKILL", "SIGTERM"])
def test_a_program_that_is_killed_leaves_nothing_behind(tmp_path, how):
    code = f"""
    {JOB}
    def hold(value):
        import subprocess
        if value == 0:
            started = subprocess.Popen(["sleep", "1000"])
            Path("function").write_text(str(started.pid))
        time.sleep(0.02)
        return value

    Path("launcher").write_text(str(the_launcher().pid))
    child = os.fork()
    if child == 0:  # holds every socket of the program, and lives on
        time.sleep(60)
        os._exit(0)
    Path("child").write_text(str(child))
    run(hold, range(1_000_000))
    """
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    os.environ["TMPDIR"], before = str(temporary), os.environ.get("TMPDIR")
    try:
        program = run_program(tmp_path, code)
    finally:
        os.environ.pop("TMPDIR")
        if before is not None:
            os.environ["TMPDIR"] = before
    launcher = int(wait_for_file(tmp_path / "launcher"))
    started = int(wait_for_file(tmp_path / "function"))
    managers = children_of(launcher)
    assert len(managers) == 2
    program.send_signal(getattr(signal, how))
    killed = time.monotonic()
    program.wait(PATIENCE_S)
    wait_until(lambda: not any(map(is_alive, [launcher, started, *managers])), 2 * load_factor())
    assert time.monotonic() - killed < 2 * load_factor()
    assert list(temporary.iterdir()) == []
    os.kill(int((tmp_path / "child").read_text()), signal.SIGKILL)
    program.communicate(timeout=PATIENCE_S)


def test_ctrl_c_cancels_the_job(tmp_path):
    code = f"""
    {JOB}
    def hold(value):
        if value == 5:
            Path("runs").write_text("1")
        time.sleep(0.02)
        return value

    import signal
    signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever started the tests may ignore it
    Path("launcher").write_text(str(the_launcher().pid))
    try:
        run(hold, range(1_000_000))
    except KeyboardInterrupt:
        print("interrupted")
    """
    program = run_program(tmp_path, code, start_new_session=True)
    wait_for_file(tmp_path / "runs")
    launcher = int((tmp_path / "launcher").read_text())
    os.killpg(program.pid, signal.SIGINT)  # as a terminal does
    out, errors = program.communicate(timeout=PATIENCE_S)
    assert (out, errors, program.returncode) == ("interrupted\n", "", 0)
    assert not is_alive(launcher)


def test_a_program_that_ends_without_waiting_leaves_nothing_behind(tmp_path):
    code = f"""
    {JOB}
    def hold(value):
        time.sleep(0.02)
        return value

    graph = graph_of(range(1_000_000), hold, print, parallelism=2, runs_in_program=False)
    RunningJob(graph, target=target_named("local")).start()
    Path("launcher").write_text(str(the_launcher().pid))
    """
    program = run_program(tmp_path, code)
    _, errors = program.communicate(timeout=PATIENCE_S)
    assert (errors, program.returncode) == ("", 0)
    assert not is_alive(int((tmp_path / "launcher").read_text()))


@pytest.mark.parametrize(
    ("end", "says"),
    [
        (lambda: os._exit(3), "ended with exit code 3 while tasks ran in it: a function has ended the process"),
        (lambda: os.kill(os.getpid(), signal.SIGSEGV), "was killed by SIGSEGV"),
        (lambda: os.abort(), "was killed by SIGABRT"),
    ],
    ids=["exit", "segfault", "abort"],
)
def test_a_function_that_ends_its_process_is_named(end, says, capfd):
    def die(value):
        if value == 50:
            end()
        return value

    job, _ = local_job(die)
    with pytest.raises(JobFailedError, match=re.escape(says)):
        job.run()


class Poison:
    """What ends whoever unpickles it."""

    def __reduce__(self):
        return explode, ()


def explode():
    raise RuntimeError("this bundle explodes")


def test_a_process_that_cannot_start_says_why():
    job, _ = local_job(identity, bundle_fields={"managed_memory_bytes": Poison()})
    with pytest.raises(JobFailedError) as caught:
        job.run()
    says = str(caught.value)
    assert re.search(r"task manager \d \(process \d+\) ended with exit code 1 before it had registered", says)
    assert "RuntimeError: this bundle explodes" in says
    assert children_of(the_launcher().pid) == []


def test_no_process_can_be_started(monkeypatch):
    monkeypatch.setattr(launcher_process.LauncherProcess, "start", refuse)
    job, _ = local_job(identity)
    with pytest.raises(JobFailedError, match="could not be started: the launcher of task managers has ended: planted"):
        job.run()


def refuse(self, job, order, on_started, on_ended):
    raise OSError("planted")


def test_a_process_that_the_system_killed_for_memory_is_said_to_be(monkeypatch):
    provider = local_processes.LocalProcesses.__new__(local_processes.LocalProcesses)
    provider._oom_kills = 3
    manager = local_processes._Manager("m", 1, 2)
    manager.pid, manager.process_end = 77, ProcessEnd(77, None, 9, 5 * 1024 * 1024)
    monkeypatch.setattr(local_processes, "_oom_kills", lambda: 4)
    says = "was killed by SIGKILL by the system, which was out of memory; it had 5120 MiB at most"
    assert f"task manager 2 (process 77) {says}" in provider._reason(manager)
    assert "was killed by SIGKILL by another process; it had 5120 MiB" in provider._reason(manager)


def test_a_function_that_holds_the_interpreter_is_not_taken_for_dead():
    def hold_interpreter(value):
        if value == 5:
            ctypes.PyDLL(None).sleep(7)
        return value

    job, out = local_job(hold_interpreter, range(20))
    job.run()
    assert len(out) == 20


def test_a_process_that_does_not_end_is_killed():
    def hang(value):
        if value == 5:
            ctypes.PyDLL(None).sleep(1000)  # holds the interpreter, so that no thread of the process does anything
        return value

    job, _ = local_job(hang, config=JobMasterConfig(cancel_attempts=2, cancel_retry_ms=100))
    job.start()
    wait_until(lambda: job.status is JobStatus.RUNNING)
    time.sleep(0.5)
    job.cancel()
    with pytest.raises(JobCanceledError):
        job.wait(PATIENCE_S)
    assert children_of(the_launcher().pid) == []


@pytest.mark.skipif(not CAN_MAKE, reason="the command openssl makes the certificates")
def test_connections_are_encrypted_where_that_is_set(tmp_path):
    tls = make_certificates(tmp_path).worker
    job, out = local_job(identity, bundle_fields={"network": NetworkConfig(tls=tls)})
    job.run()
    assert len(out) == 100


# ---- many


def held():
    gc.collect()
    return threading.active_count(), len(os.listdir("/proc/self/fd"))


def launcher_holds():
    pid = the_launcher().pid
    return len(os.listdir(f"/proc/{pid}/fd")), len(children_of(pid))


@pytest.mark.long
def test_eighty_jobs_leave_what_the_first_left():
    local_job(identity, range(3), parallelism=1)[0].run()
    first, of_launcher = held(), launcher_holds()
    for _ in range(80):
        job, out = local_job(identity, range(3), parallelism=1)
        job.run()
        assert sorted(out) == [1, 2, 3]
    assert held() == first
    assert launcher_holds() == of_launcher


def test_twenty_jobs_at_once():
    local_job(identity)[0].run()
    first = held()
    jobs = [local_job(lambda value, factor=factor: value * factor, range(50)) for factor in range(20)]
    for job, _ in jobs:
        job.start()
    for factor, (job, out) in enumerate(jobs):
        job.wait(PATIENCE_S)
        assert sorted(out) == sorted(value * factor + 1 for value in range(50))
    assert held() == first
    assert children_of(the_launcher().pid) == []


def test_at_the_end_of_the_interpreter_functions_of_a_job_that_runs_are_closed(tmp_path):
    program = """
        import pathlib, sys, time
        from flinkbuf.common import Configuration
        from flinkbuf.datastream import MapFunction, StreamExecutionEnvironment

        here = pathlib.Path(sys.argv[1])

        class Slow(MapFunction):
            def open(self, context):
                (here / "opened").touch()
            def map(self, value):
                time.sleep(0.01)
                return value
            def close(self):
                (here / "closed").touch()

        env = StreamExecutionEnvironment.get_execution_environment(
            Configuration().set_string("execution.target", "local")
        ).set_parallelism(1)
        env.from_collection(range(100_000)).map(Slow()).print()
        env.execute_async()
        while not (here / "opened").exists():
            time.sleep(0.01)
    """
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(program))
    ended = subprocess.run([sys.executable, script, tmp_path], capture_output=True, text=True, timeout=20)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert (tmp_path / "closed").exists()


def test_a_launcher_that_was_killed_unseen_is_replaced(monkeypatch):
    launcher = the_launcher()
    os.kill(launcher.pid, signal.SIGKILL)
    launcher._thread.join(PATIENCE_S)
    monkeypatch.setattr(launcher, "_has_ended", False)  # as before its thread has heard of it
    end_launcher()
    launchers = iter([launcher, launcher, the_launcher()])  # for the check, for the start, and then
    monkeypatch.setattr(local_processes, "the_launcher", launchers.__next__)
    job, out = local_job(identity)
    job.run()
    assert len(out) == 100


def test_a_connection_that_ends_alone_is_the_reason():
    def close_all(value):
        if value == 30:
            os.closerange(3, 256)
            time.sleep(60)
        return value

    job, _ = local_job(close_all)
    with pytest.raises(JobFailedError, match=r"task manager \d \(process \d+\) is lost: its connection"):
        job.run()


def test_who_registers_after_its_process_has_ended_is_let_go_quietly(caplog):
    class Closed:
        number, is_closed = 1, False

        def close(self):
            self.is_closed = True

    job, _ = local_job(identity)
    processes, connection = object.__new__(local_processes.LocalProcesses), Closed()
    processes._managers, processes._by_connection, processes._job = {}, {}, job
    message = RegisterManager("local-1-0", 1, 0, "127.0.0.1", 4000, 1, 1)
    processes.received(connection, local_processes.CODEC.encode(message))
    assert connection.is_closed and not caplog.records
