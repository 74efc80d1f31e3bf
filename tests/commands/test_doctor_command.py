"""`python -m flinkbuf doctor`: every fault that can be planted is found, with what to do."""

import errno
import importlib
import json
import os
import resource
import socket
import sys
import time
from importlib import metadata
from itertools import pairwise
from types import SimpleNamespace

import pytest

from flinkbuf._version import build_version
from flinkbuf.commands import environment_checks as checks
from flinkbuf.commands.cli import main
from flinkbuf.commands.environment_checks import FAULT, OK, WARNING, Surroundings, Worker, compared

HERE = Surroundings()


def one(check, surroundings=HERE, subject=None):
    """What a check found, of one subject."""
    found = [each for each in check(surroundings) if subject in (None, each.subject)]
    assert len(found) == 1, found
    return found[0]


def test_this_environment_has_no_fault_and_says_so(capsys, tmp_path):
    assert main(["doctor", "--checkpoint-dir", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith("no faults, ")
    assert f"flinkbuf {build_version()}" in next(
        line for line in lines if line.startswith("ok       compiled modules: ")
    )
    assert list(tmp_path.iterdir()) == [], "nothing is left"


def test_json_has_all_findings_and_the_exit_code_tells_of_faults(capsys):
    code = main(["doctor", "--json", "--temporary-dir", "/no/such/place", "--port", "x"])
    told = json.loads(capsys.readouterr().out)
    assert code == 1 and told["faults"] == 2
    faults = [each for each in told["findings"] if each["state"] == "fault"]
    assert [each["subject"] for each in faults] == ["driver port", "temporary directory"]
    assert all(each["advice"] for each in faults)


def test_every_fault_and_warning_says_what_to_do(capsys):
    main(["doctor", "--temporary-dir", "/no/such/place", "--advertised-address", "no-such-host.invalid"])
    lines = capsys.readouterr().out.splitlines()
    for line, after in pairwise(lines):
        assert not line.startswith(("fault", "warning")) or after.startswith("         → "), line


def test_a_check_that_fails_by_itself_is_a_warning(monkeypatch):
    def broken(_):
        raise KeyError("x")
        yield

    monkeypatch.setattr(checks, "CHECKS", {"this": broken})
    [found] = checks.findings_of(HERE)
    assert (found.state, found.text) == (WARNING, "could not be checked: KeyError: 'x'")


# ---- Python and packages


@pytest.mark.parametrize(
    ("version", "name", "state"),
    [((3, 9, 18), "cpython", FAULT), ((3, 11, 7), "pypy", FAULT), ((3, 13, 0), "cpython", OK)],
)
def test_an_interpreter_that_does_not_do(monkeypatch, version, name, state):
    monkeypatch.setattr(sys, "version_info", version)
    monkeypatch.setattr(sys, "implementation", SimpleNamespace(name=name))
    assert one(checks.python_version).state == state


def test_compiled_modules_that_do_not_load_are_counted_and_one_is_named(monkeypatch):
    real = importlib.import_module

    def failing(name, *more):
        if name == "flinkbuf._core.memory.buffer":
            raise ImportError("GLIBC_2.99 not found")
        return real(name, *more)

    monkeypatch.setattr(importlib, "import_module", failing)
    found = one(checks.compiled_modules)
    assert found.state == FAULT
    assert "1 of " in found.text and "flinkbuf._core.memory.buffer: GLIBC_2.99 not found" in found.text


def test_sources_that_are_not_built_are_a_fault(monkeypatch, tmp_path):
    (tmp_path / "buffer.pyx").touch()
    (tmp_path / "__init__.py").touch()
    core = SimpleNamespace(__path__=[str(tmp_path)], __file__=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(importlib, "import_module", lambda name: core)
    found = one(checks.compiled_modules)
    assert found.state == FAULT and "1 are not built for this interpreter, such as buffer" in found.text


def with_versions(monkeypatch, **versions):
    """Installed are these; None: is not."""
    real = metadata.version

    def version(name):
        if name in versions and versions[name] is None:
            raise metadata.PackageNotFoundError(name)
        return versions.get(name) or real(name)

    monkeypatch.setattr(metadata, "version", version)


@pytest.mark.parametrize(
    ("name", "version", "state", "text"),
    [
        ("numpy", "1.20.3", FAULT, "1.20.3 is installed, and flinkbuf needs numpy>="),
        ("numpy", None, FAULT, "is not installed"),
        ("pyspark", "3.5.1", FAULT, "3.5.1 is installed, and flinkbuf needs pyspark>="),
        ("pandas", "3.0.0", FAULT, "3.0.0 is installed, and flinkbuf needs pandas"),
        ("pyarrow", None, WARNING, "is not installed"),
    ],
)
def test_packages_that_are_missing_or_do_not_fit(monkeypatch, name, version, state, text):
    with_versions(monkeypatch, **{name: version})
    found = one(checks.packages, subject=name)
    assert found.state == state and found.text.startswith(text)
    assert "pip install" in found.advice


def test_a_package_that_cannot_be_imported_beside_the_others(monkeypatch):
    real = importlib.import_module

    def failing(name):
        if name == "pyarrow":
            raise ImportError("numpy.core.multiarray failed to import")
        return real(name)

    monkeypatch.setattr(importlib, "import_module", failing)
    found = one(checks.packages, subject="pyarrow")
    assert found.state == FAULT and "numpy.core.multiarray failed to import" in found.text


def test_a_flinkbuf_that_is_not_installed_is_said(monkeypatch):
    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", missing)
    assert one(checks.packages).state == WARNING


def test_no_java_and_one_that_spark_is_not_tested_on(monkeypatch):
    pytest.importorskip("pyspark")
    from flinkbuf.spark import java

    monkeypatch.setattr(java, "find_java", lambda: "/opt/java")
    monkeypatch.setattr(java, "java_version", lambda home: 25)
    assert one(checks.spark_and_java, subject="java").state == WARNING

    def none():
        raise FileNotFoundError("no Java 17 or later\ninstall it")

    monkeypatch.setattr(java, "find_java", none)
    found = one(checks.spark_and_java, subject="java")
    assert (found.state, found.text, found.advice) == (FAULT, "no Java 17 or later", "install it")
    with_versions(monkeypatch, pyspark=None)
    assert one(checks.spark_and_java).state == OK


# ---- addresses and ports


def test_an_address_of_another_machine_cannot_be_listened_at():
    found = one(checks.addresses, Surroundings(bind_address="203.0.113.7"), "address")
    assert found.state == FAULT and "203.0.113.7 cannot be listened at" in found.text


def test_a_name_that_does_not_resolve_and_one_that_leads_elsewhere(monkeypatch):
    found = one(checks.addresses, Surroundings(advertised_address="no-such-host.invalid"), "address")
    assert found.state == FAULT and "does not resolve" in found.text

    def refused(address, timeout):
        raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")

    monkeypatch.setattr(socket, "create_connection", refused)
    found = one(checks.addresses, Surroundings(advertised_address="localhost"), "address")
    assert found.state == FAULT and "does not lead back here" in found.text


@pytest.mark.parametrize(("address", "state"), [("127.0.1.1", WARNING), ("10.0.0.7", OK), (None, WARNING)])
def test_the_name_of_this_host(monkeypatch, address, state):
    def resolved(name):
        if address is None:
            raise socket.gaierror("unknown")
        return address

    monkeypatch.setattr(socket, "gethostbyname", resolved)
    assert one(checks.addresses, subject="host name").state == state


def test_ports_that_are_taken_are_counted():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        found = one(checks.free_ports, Surroundings(ports=str(port)), "driver port")
        assert (found.state, found.text) == (FAULT, f"0 of 1 in {port} are free")
        assert one(checks.free_ports, Surroundings(data_ports=str(port)), "data ports").state == FAULT
    assert one(checks.free_ports, Surroundings(ports=str(port)), "driver port").state == OK
    assert one(checks.free_ports, Surroundings(data_ports=str(port)), "data ports").state == WARNING, "two are needed"


# ---- directories


def temporary(path):
    return list(checks.temporary_directory(Surroundings(temporary=str(path))))


@pytest.mark.parametrize("step", ["open", "fsync", "rename"])
def test_a_directory_in_which_a_step_of_a_checkpoint_fails(monkeypatch, tmp_path, step):
    def fails(*arguments):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, step, fails)
    [found] = temporary(tmp_path)
    monkeypatch.undo()
    assert found.state == FAULT
    assert f"Input/output error ({'write' if step == 'open' else step})" in found.text
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("free", "state"), [(1 << 20, FAULT), (1 << 29, WARNING), (1 << 40, OK)])
def test_a_disk_that_is_nearly_full(monkeypatch, tmp_path, free, state):
    disk = SimpleNamespace(f_bavail=free // 4096, f_frsize=4096, f_files=0, f_favail=0)
    monkeypatch.setattr(os, "statvfs", lambda path: disk)
    assert temporary(tmp_path)[0].state == state


def test_a_disk_without_room_for_more_files(monkeypatch, tmp_path):
    disk = SimpleNamespace(f_bavail=1 << 30, f_frsize=4096, f_files=100_000, f_favail=7)
    monkeypatch.setattr(os, "statvfs", lambda path: disk)
    [found] = temporary(tmp_path)
    assert found.state == WARNING and "only 7 more files fit" in found.text


@pytest.mark.parametrize(("seconds", "word"), [(100, "ahead of"), (-100, "behind")])
def test_a_disk_whose_machine_has_another_time(monkeypatch, tmp_path, seconds, word):
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() - seconds)
    found = temporary(tmp_path)[-1]
    assert (found.subject, found.state) == ("clock", WARNING) and word in found.text


def test_a_checkpoint_directory_may_be_made_by_the_job_and_may_not_be_a_file(tmp_path):
    place = tmp_path / "not" / "yet"
    found = one(checks.checkpoint_directory, Surroundings(checkpoints=str(place)))
    assert found.state == OK and f"{place} (to be made in {tmp_path})" in found.text
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("")
    assert one(checks.checkpoint_directory, Surroundings(checkpoints=str(tmp_path / "file"))).state == FAULT
    assert one(checks.checkpoint_directory).text == "no directory was given"


def test_an_object_store_is_written_read_and_deleted_from(tmp_path):
    pytest.importorskip("pyarrow")
    found = one(checks.checkpoint_directory, Surroundings(checkpoints="no-such-scheme://bucket/checkpoints"))
    assert found.state == FAULT and "credentials" in found.advice


@pytest.mark.parametrize(("blocks", "state"), [(1 << 14, WARNING), (1 << 20, OK)])
def test_little_shared_memory(monkeypatch, blocks, state):
    if not os.path.isdir("/dev/shm"):
        pytest.skip("there is no /dev/shm")
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_blocks=blocks, f_frsize=4096))
    assert one(checks.shared_memory).state == state


# ---- limits and clock


@pytest.mark.parametrize(("files", "state"), [(128, FAULT), (1024, WARNING), (65536, OK), (resource.RLIM_INFINITY, OK)])
def test_few_open_files(monkeypatch, files, state):
    monkeypatch.setattr(resource, "getrlimit", lambda which: (files, files))
    found = one(checks.limits, subject="open files")
    assert found.state == state and ("ulimit -n 65536" in found.advice) == (state != OK)


def test_few_processes_by_the_user_or_by_the_container(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda which: (500, 500))
    assert one(checks.limits, subject="processes").state == WARNING
    monkeypatch.setattr(resource, "getrlimit", lambda which: (-1, -1))
    monkeypatch.setattr(checks, "_cgroup_number", lambda name: None)
    assert one(checks.limits, subject="processes").state == OK
    monkeypatch.setattr(checks, "_cgroup_number", lambda name: 100)
    assert one(checks.limits, subject="processes").state == WARNING


@pytest.mark.parametrize(("limit", "state"), [(256 << 20, WARNING), (4 << 30, OK), (None, OK)])
def test_little_memory_in_a_container(monkeypatch, limit, state):
    monkeypatch.setattr(checks, "memory_limit", lambda: limit)
    assert one(checks.memory).state == state


def test_a_clock_that_was_never_set(monkeypatch):
    real = time.gmtime
    monkeypatch.setattr(time, "gmtime", lambda *given: real(0))
    assert one(checks.clock).state == FAULT


# ---- workers of Spark


def worker(**changes):
    here = {name: metadata.version(name) for name in ("numpy", "cloudpickle")}
    python = ".".join(map(str, sys.version_info[:3]))
    return Worker(**{"host": "h1", "python": python, "executable": "/usr/bin/python3", "flinkbuf": build_version(),
                     "time_s": 10.0, "packages": here, **changes})  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "state", "text"),
    [
        ({"python": "3.9.2"}, FAULT, "runs Python 3.9.2 (/usr/bin/python3), the driver"),
        ({"flinkbuf": "!ModuleNotFoundError: No module named 'flinkbuf'"}, FAULT, "cannot import flinkbuf: ModuleNot"),
        ({"flinkbuf": "0.1.0+00000000"}, FAULT, "has flinkbuf 0.1.0+00000000, the driver"),
        ({"packages": {"numpy": "1.0"}}, WARNING, "has numpy 1.0, the driver"),
        ({"reach": "timed out"}, FAULT, "does not reach the driver at d:7000: timed out"),
        ({"time_s": 15.5}, WARNING, "its clock is 5.0 s ahead"),
        ({"time_s": 2.0}, WARNING, "its clock is 7.0 s behind"),
    ],
)
def test_what_differs_at_a_worker_is_named_with_its_host(changes, state, text):
    [found] = compared([worker(), worker(host="h2", **changes)], 9.0, 10.5, "d:7000")
    assert (found.subject, found.state) == ("spark worker on h2", state)
    assert text in found.text and found.advice


def test_workers_that_are_alike_are_one_line():
    [found] = compared([worker(), worker(), worker(host="h2")], 9.0, 10.5, "d:7000")
    assert (found.state, found.text) == (OK, "2 hosts have this Python and these versions, and reach d:7000")


@pytest.mark.parametrize(
    ("properties", "state", "says"),
    [
        ("parallelism.default: 4", OK, "sets 1 key"),
        ("execution.termination.mode: LATER", FAULT, "execution.termination.mode"),
        ("execution.termination.mode: SAVEPOINT", FAULT, "needs execution.checkpointing.savepoint-dir"),
        ("execution.termination.drain: true", FAULT, "drain nothing"),
        ("log.format: XML", FAULT, "log.format"),
        ("heartbeat.interval: 60 s", FAULT, "heartbeat.timeout"),
        ("paralelism.default: 4", WARNING, "did you mean parallelism.default?"),
        ("no colon", FAULT, "FLINKBUF_PROPERTIES"),
    ],
)
def test_settings_of_the_environment_are_read_before_a_program_reads_them(properties, state, says, monkeypatch):
    monkeypatch.setenv("FLINKBUF_PROPERTIES", properties)
    found = one(checks.settings)
    assert found.state == state and says in found.text


def test_without_settings_nothing_is_said_of_them(monkeypatch):
    monkeypatch.delenv("FLINKBUF_PROPERTIES")
    assert list(checks.settings(HERE)) == []
