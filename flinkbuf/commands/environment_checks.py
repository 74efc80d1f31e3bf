"""Checks of the environment that jobs run in: each looks at one thing, and says what it found and what to do.

Nothing is changed: what is written is deleted again. A check that cannot be made is a warning, not a fault.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import re
import resource
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from flinkbuf._version import build_version
from flinkbuf.checkpoints.handles import StateHandle
from flinkbuf.checkpoints.locations import normalized, scheme_of
from flinkbuf.checkpoints.storage import storage_of
from flinkbuf.common.configuration import PROPERTIES_VARIABLE, default_configuration
from flinkbuf.common.options import keys_without_effect
from flinkbuf.datastream.stream_execution_environment import StreamExecutionEnvironment
from flinkbuf.network.ports import parse_ports
from flinkbuf.runtime.manager.process_figures import memory_limit
from flinkbuf.runtime.picture.plain_words import plural, size_text

if TYPE_CHECKING:
    from pyspark import SparkContext

OK, WARNING, FAULT = "ok", "warning", "fault"
OLDEST_PYTHON: Final = (3, 10)
EXTRAS: Final = ("spark", "web")  # whose packages are looked at, beside those that flinkbuf always needs
CONNECT_TIMEOUT_S: Final = 3.0
FILES_NEEDED, FILES_ENOUGH = 256, 4096  # open files: of a small job, and of one with some hundred channels
PROCESSES_ENOUGH = 1024
FILES_LEFT = 10_000  # of a disk that has a table of them
SPACE_NEEDED, SPACE_ENOUGH = 64 << 20, 1 << 30
MEMORY_ENOUGH = 1 << 30
SHARED_MEMORY_ENOUGH = 64 << 20
CLOCK_SKEW_S = 1.0
_VERSION = re.compile(r"\d+(?:\.\d+)*")
_LIMIT = re.compile(r"(>=|<=|==|<|>|~=|!=)\s*(\d+(?:\.\d+)*)")


@dataclass(frozen=True)
class Finding:
    """What one check found.

    Attributes
    ----------
    subject : str
    state : str
        `OK`, `WARNING` or `FAULT`.
    text : str
    advice : str
        What to do; empty where nothing is to be done.
    """

    subject: str
    state: str
    text: str
    advice: str = ""


@dataclass(frozen=True)
class Surroundings:
    """What is to be looked at.

    Attributes
    ----------
    bind_address : str
        Address that the driver listens at.
    advertised_address : str
        Name or address that task managers are told; empty: as `bind_address`.
    ports : str
        Ports of the driver, as ``spark.flinkbuf.driver.port`` has them; ``0``: any.
    data_ports : str
        Ports of task managers, as ``taskmanager.data.port`` has them.
    temporary : str
        Directory of temporary files; empty: Python's own.
    checkpoints : str
        Directory or URI of checkpoints; empty: none.
    """

    bind_address: str = "127.0.0.1"
    advertised_address: str = ""
    ports: str = "0"
    data_ports: str = "0"
    temporary: str = ""
    checkpoints: str = ""


Check = Callable[[Surroundings], Iterable[Finding]]


def findings_of(surroundings: Surroundings) -> Iterator[Finding]:
    """Make all checks of this machine, one after the other."""
    for subject, check in CHECKS.items():
        yield from _guarded(subject, check, surroundings)


def _guarded(subject: str, check: Check, surroundings: Surroundings) -> Iterator[Finding]:
    try:
        yield from check(surroundings)
    except Exception as error:
        yield Finding(subject, WARNING, f"could not be checked: {type(error).__name__}: {error}")


# ---- Python and what is installed


def python_version(_: Surroundings) -> Iterator[Finding]:
    """Check the interpreter."""
    found = ".".join(map(str, sys.version_info[:3]))
    text = f"{sys.implementation.name} {found}, {sys.executable}"
    oldest = ".".join(map(str, OLDEST_PYTHON))
    if sys.version_info < OLDEST_PYTHON:
        yield Finding("python", FAULT, text, f"flinkbuf needs Python {oldest} or later")
    elif sys.implementation.name != "cpython":
        yield Finding("python", FAULT, text, "the compiled modules are for CPython")
    else:
        yield Finding("python", OK, text)


def settings(_: Surroundings) -> Iterator[Finding]:
    """Check what the environment variable sets for all programs, one key with the other."""
    if not os.environ.get(PROPERTIES_VARIABLE, "").strip():
        return
    try:
        configuration = default_configuration()
        StreamExecutionEnvironment(configuration)
    except (ValueError, NotImplementedError) as error:
        yield Finding("settings", FAULT, f"{PROPERTIES_VARIABLE}: {error}", "each program would end with this error")
        return
    keys = configuration.key_set()
    text = f"{PROPERTIES_VARIABLE} sets {plural(len(keys), 'key')}"
    if without_effect := keys_without_effect(keys):
        text = f"{text}; these have no effect: {', '.join(without_effect)}"
        yield Finding("settings", WARNING, text, "see whether they are written as the guide has them")
    else:
        yield Finding("settings", OK, text)


def compiled_modules(_: Surroundings) -> Iterator[Finding]:
    """Check that each compiled module can be loaded."""
    core = importlib.import_module("flinkbuf._core")
    loaded = 0
    failed: dict[str, str] = {}
    for module in pkgutil.walk_packages(core.__path__, "flinkbuf._core."):
        try:
            importlib.import_module(module.name)
            loaded += not module.ispkg
        except Exception as error:
            failed[module.name] = str(error)
    build = f"flinkbuf {build_version()}, {os.path.dirname(os.path.dirname(str(core.__file__)))}"
    missing = sorted(_sources_without_modules(list(core.__path__)))
    if failed:
        name, why = next(iter(failed.items()))
        yield Finding(
            "compiled modules",
            FAULT,
            f"{build}: {len(failed)} of {loaded + len(failed)} cannot be loaded, such as {name}: {why}",
            "install flinkbuf anew for this interpreter; a build for another Python or an older glibc does not load",
        )
    elif missing or not loaded:
        yield Finding(
            "compiled modules",
            FAULT,
            f"{build}: {len(missing)} are not built for this interpreter{f', such as {missing[0]}' if missing else ''}",
            "run `pip install -e .` in this directory, or start Python elsewhere if flinkbuf is installed",
        )
    else:
        yield Finding("compiled modules", OK, f"{build}: {loaded} are loaded")


def _sources_without_modules(folders: list[str]) -> Iterator[str]:
    import importlib.machinery

    for folder in folders:
        for source in Path(folder).rglob("*.pyx"):
            if not any(source.with_suffix(each).exists() for each in importlib.machinery.EXTENSION_SUFFIXES):
                yield source.stem


_MODULES = {"protobuf": "google.protobuf"}  # packages that are imported by another name


def packages(_: Surroundings) -> Iterator[Finding]:
    """Check the versions of what flinkbuf uses, and that each of it can be imported."""
    try:
        requirements = metadata.requires("flinkbuf") or []
    except metadata.PackageNotFoundError:
        text = "flinkbuf is on the path, but not installed: which versions it needs is not known"
        yield Finding("packages", WARNING, text, "install it: pip install 'flinkbuf[spark]'")
        return
    for line in requirements:
        extra = re.search(r"extra\s*==\s*[\"']([^\"']+)", line)
        if extra is None or extra[1] in EXTRAS:
            name = re.split(r"[^\w.-]", line, maxsplit=1)[0]
            yield _package(name, line.partition(";")[0], None if extra is None else extra[1])


def _package(name: str, requirement: str, extra: str | None) -> Finding:
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        if extra is None:
            return Finding(name, FAULT, "is not installed", f"pip install '{requirement.strip()}'")
        return Finding(name, WARNING, "is not installed", f"what needs it is refused: pip install 'flinkbuf[{extra}]'")
    if not fits(version, requirement):
        text = f"{version} is installed, and flinkbuf needs {requirement.strip()}"
        return Finding(name, FAULT, text, f"pip install '{requirement.strip()}'")
    try:
        importlib.import_module(_MODULES.get(name, name))
    except Exception as error:
        text = f"{version} cannot be imported: {type(error).__name__}: {error}"
        return Finding(name, FAULT, text, f"install {name} anew beside numpy and Python as they are")
    return Finding(name, OK, version)


def fits(version: str, requirement: str) -> bool:
    """Return whether a version is one that a requirement allows, by its numbers alone.

    Examples
    --------
    >>> fits("2.3.1", "pandas<3,>=2.2"), fits("3.0", "pandas<3,>=2.2"), fits("4.1.0.dev1", "pyspark>=4.0")
    (True, False, True)
    """
    found = _numbers(version)
    for sign, limit in _LIMIT.findall(requirement):
        bound = _numbers(limit)
        width = max(len(found), len(bound))
        left, right = (each + (0,) * (width - len(each)) for each in (found, bound))
        holds = {"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}
        if not holds.get(sign, (left == right) != (sign == "!=") or sign == "~="):
            return False
    return True


def _numbers(version: str) -> tuple[int, ...]:
    match = _VERSION.match(version)
    return tuple(map(int, match[0].split("."))) if match else ()


def spark_and_java(_: Surroundings) -> Iterator[Finding]:
    """Check the Java that Spark would run on, and what PySpark asks of other packages."""
    if not _is_there("pyspark"):
        yield Finding("java", OK, "is not needed: pyspark is not installed")
        return
    from flinkbuf.spark.java import TESTED_JAVA, find_java, java_version

    try:
        home = find_java()
    except FileNotFoundError as error:
        lines = str(error).split("\n", 1)
        yield Finding("java", FAULT, lines[0], "".join(lines[1:]))
    else:
        version = java_version(home)
        text = f"version {version}, {home}"
        if version in TESTED_JAVA:
            yield Finding("java", OK, text)
        else:
            tested = " and ".join(map(str, TESTED_JAVA))
            yield Finding("java", WARNING, text, f"Spark is tested on {tested}: set JAVA_HOME to one of these")
    from pyspark.sql.pandas.utils import require_minimum_pandas_version, require_minimum_pyarrow_version

    try:
        require_minimum_pandas_version()
        require_minimum_pyarrow_version()
    except Exception as error:
        yield Finding("pyspark", FAULT, f"does not take what is installed: {error}", "pip install 'flinkbuf[spark]'")


def _is_there(name: str) -> bool:
    with suppress(metadata.PackageNotFoundError):
        return bool(metadata.version(name))
    return False


# ---- addresses and ports


def addresses(surroundings: Surroundings) -> Iterator[Finding]:
    """Check that the driver can listen, and be reached from here by the name that others are told."""
    bind, told = surroundings.bind_address, surroundings.advertised_address or surroundings.bind_address
    try:
        with _listening(bind, 0) as listener:
            yield _reached(told, listener.getsockname()[1])
    except OSError as error:
        text = f"{bind} cannot be listened at: {error}"
        yield Finding("address", FAULT, text, "give an address of this machine, or 0.0.0.0 for all of them")
    name = socket.gethostname()
    try:
        found = socket.gethostbyname(name)
    except OSError as error:
        advice = "add it to /etc/hosts or DNS: Spark starts with it unless spark.driver.host is set"
        yield Finding("host name", WARNING, f"{name} does not resolve: {error}", advice)
    else:
        if found.startswith("127."):
            advice = "Spark on several machines needs spark.driver.host, or another line in /etc/hosts"
            yield Finding("host name", WARNING, f"{name} is {found}, which other machines cannot reach", advice)
        else:
            yield Finding("host name", OK, f"{name} is {found}")


def _listening(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(1)
    except BaseException:
        listener.close()
        raise
    return listener


def _reached(host: str, port: int) -> Finding:
    advice = "name another one by spark.flinkbuf.driver.host, or let a firewall pass connections to it"
    try:
        found = sorted({str(each[4][0]) for each in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)})
    except OSError as error:
        return Finding("address", FAULT, f"{host} does not resolve: {error}", advice)
    try:
        socket.create_connection((host, port), CONNECT_TIMEOUT_S).close()
    except OSError as error:
        text = f"{host} ({', '.join(found)}) does not lead back here: {error}"
        return Finding("address", FAULT, text, advice)
    return Finding("address", OK, f"{host} ({', '.join(found)}) leads back here")


def free_ports(surroundings: Surroundings) -> Iterator[Finding]:
    """Check how many ports of those given are free."""
    asked = (("driver port", surroundings.ports, 1), ("data ports", surroundings.data_ports, 2))
    for subject, text, needed in asked:
        try:
            ports = list(parse_ports(text))
        except ValueError as error:
            yield Finding(subject, FAULT, str(error), "such as 7000-7010")
            continue
        if 0 in ports:
            yield Finding(subject, OK, "any that is free")
            continue
        taken = [port for port in ports if not _is_free(surroundings.bind_address, port)]
        free = len(ports) - len(taken)
        found = f"{free} of {len(ports)} in {text} are free"
        if free >= needed:
            yield Finding(subject, OK, found)
        else:
            advice = "give more ports: a program takes one, a task manager one of the data ports on its machine"
            yield Finding(subject, WARNING if free else FAULT, found, advice)


def _is_free(host: str, port: int) -> bool:
    try:
        _listening(host, port).close()
    except OSError:
        return False
    return True


# ---- directories


def temporary_directory(surroundings: Surroundings) -> Iterator[Finding]:
    """Check the directory of temporary files: spilled data, blocking partitions, checkpoints of jobs that name none."""
    yield from _directory("temporary directory", surroundings.temporary or tempfile.gettempdir())


def checkpoint_directory(surroundings: Surroundings) -> Iterator[Finding]:
    """Check the directory of checkpoints, on whatever file system it is."""
    directory = surroundings.checkpoints
    if not directory:
        yield Finding("checkpoints", OK, "no directory was given")
        return
    location = normalized(directory)
    if not scheme_of(location):
        yield from _directory("checkpoints", _nearest(location), named=location)
        return
    storage, read = storage_of(location), b""
    try:
        with storage.open_output(storage.directory) as output:
            offset = output.write(b"flinkbuf")
            handle = StateHandle(8, path=output.finish(), offset=offset)
        try:
            read = storage.read(handle)
        finally:
            storage.delete([handle])
    except Exception as error:
        text = f"{directory} cannot be written and read: {type(error).__name__}: {error}"
        advice = "look at credentials, region and endpoint in the URI, and at the right to write and delete"
        yield Finding("checkpoints", FAULT, text, advice)
    else:
        yield Finding("checkpoints", OK, f"{directory}: {len(read)} bytes written, read and deleted")


def _nearest(directory: str) -> str:
    """Return a directory, or the one that exists above it: a job makes what is missing."""
    while not os.path.lexists(directory) and os.path.dirname(directory) != directory:
        directory = os.path.dirname(directory)
    return directory


def _directory(subject: str, directory: str, named: str = "") -> Iterator[Finding]:
    try:
        skew_s = _write_in(directory)
    except OSError as error:
        text = f"{directory} cannot be used: {error.strerror or error}"
        yield Finding(subject, FAULT, text, "make the directory, or give another one, that this user may write to")
        return
    disk = os.statvfs(directory)
    free = disk.f_bavail * disk.f_frsize
    where = f"{named} (to be made in {directory})" if named not in ("", directory) else directory
    text = f"{where}: {size_text(free)} are free; written, synced and renamed"
    if free < SPACE_ENOUGH:
        state = FAULT if free < SPACE_NEEDED else WARNING
        yield Finding(subject, state, text, "free some space, or give a directory on another disk")
    elif disk.f_files and disk.f_favail < FILES_LEFT:
        yield Finding(subject, WARNING, f"{text}; only {disk.f_favail} more files fit", "delete files there")
    else:
        yield Finding(subject, OK, text)
    if abs(skew_s) > CLOCK_SKEW_S:
        text = f"files in {directory} are {abs(skew_s):.1f} s {'ahead of' if skew_s > 0 else 'behind'} this clock"
        yield Finding("clock", WARNING, text, "let both machines follow one time server")


def _write_in(directory: str) -> float:
    """Write, sync and rename a file, as checkpoints do; return how far its time is ahead of this machine's clock."""
    name = os.path.join(directory, f".flinkbuf-doctor-{os.getpid()}-{time.time_ns()}")
    path, final, step = name + ".part", name, "write"
    try:
        started = time.time()
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        try:
            os.write(descriptor, b"flinkbuf")
            step = "fsync"
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        step = "rename"
        os.rename(path, final)
        changed, ended = os.stat(final).st_mtime, time.time()
    except OSError as error:
        raise OSError(error.errno, f"{error.strerror} ({step})") from error
    finally:
        for each in (path, final):
            with suppress(OSError):
                os.unlink(each)
    return changed - ended if changed > ended else min(0.0, changed - started)


def shared_memory(_: Surroundings) -> Iterator[Finding]:
    """Check /dev/shm, which flinkbuf does not use and libraries of user functions do."""
    path = "/dev/shm"
    if not os.path.isdir(path):
        if sys.platform == "linux":
            yield Finding("shared memory", WARNING, f"there is no {path}", "mount it: multiprocessing needs it")
        return
    size = os.statvfs(path).f_blocks * os.statvfs(path).f_frsize
    text = f"{path} has {size_text(size)}"
    if not os.access(path, os.W_OK):
        yield Finding("shared memory", WARNING, f"{text} and cannot be written to", "functions that share memory fail")
    elif size <= SHARED_MEMORY_ENOUGH:
        advice = "functions that share memory between processes want more: docker run --shm-size=1g"
        yield Finding("shared memory", WARNING, text, advice)
    else:
        yield Finding("shared memory", OK, text)


# ---- limits and clock


def limits(_: Surroundings) -> Iterator[Finding]:
    """Check how many files and processes this user may have."""
    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    text = f"{_limit(files)} (ulimit -n; at most {_limit(most)})"
    advice = "raise it (ulimit -n 65536): a task manager has a socket for each other one, and files of its state"
    if files == resource.RLIM_INFINITY or files >= FILES_ENOUGH:
        yield Finding("open files", OK, text)
    else:
        yield Finding("open files", WARNING if files >= FILES_NEEDED else FAULT, text, advice)
    processes = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    group = _cgroup_number("pids.max")
    least = min((each for each in (processes, group) if each is not None and each >= 0), default=-1)
    text = f"{_limit(least)} (ulimit -u, pids.max of the cgroup)"
    if 0 <= least < PROCESSES_ENOUGH:
        advice = "raise it (ulimit -u, docker run --pids-limit): threads count, and each task has one"
        yield Finding("processes", WARNING, text, advice)
    else:
        yield Finding("processes", OK, text)


def _limit(number: int) -> str:
    return "no limit" if number < 0 else str(number)


def _cgroup_number(name: str, root: str = "/sys/fs/cgroup") -> int | None:
    with suppress(OSError, ValueError), open(os.path.join(root, name)) as file:
        return int(file.read().split()[0])
    return None


def memory(_: Surroundings) -> Iterator[Finding]:
    """Check how much memory this process may take."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = memory_limit()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    text = f"{size_text(min(limit or machine, machine))} for {cores} cores"
    is_machine = limit is None or limit >= machine
    text += " (the machine's)" if is_machine else f" (the limit here; the machine has {size_text(machine)})"
    if min(limit or machine, machine) < MEMORY_ENOUGH:
        advice = "give the container more, or lower taskmanager.memory.managed.size and the parallelism"
        yield Finding("memory", WARNING, text, advice)
    else:
        yield Finding("memory", OK, text)


def clock(_: Surroundings) -> Iterator[Finding]:
    """Check that the clock is set."""
    now = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
    if time.gmtime().tm_year < 2025:
        yield Finding("clock", FAULT, now, "set it: timestamps, leases and certificates go by it")
    else:
        yield Finding("clock", OK, now)


CHECKS: Final[dict[str, Check]] = {
    "python": python_version,
    "settings": settings,
    "compiled modules": compiled_modules,
    "packages": packages,
    "java": spark_and_java,
    "address": addresses,
    "ports": free_ports,
    "temporary directory": temporary_directory,
    "checkpoints": checkpoint_directory,
    "shared memory": shared_memory,
    "limits": limits,
    "memory": memory,
    "clock": clock,
}


# ---- workers of Spark


@dataclass(frozen=True)
class Worker:
    """What a worker of Spark told.

    Attributes
    ----------
    host, python, executable : str
    flinkbuf : str
        Version and build; or, behind ``!``, why it cannot be imported.
    packages : dict
        Versions of what both ends must have alike.
    time_s : float
        Its clock, between two looks at the driver's.
    reach : str
        Why it does not reach the driver; empty if it does.
    """

    host: str
    python: str
    executable: str
    flinkbuf: str
    time_s: float = 0.0
    reach: str = ""
    packages: dict[str, str] = field(default_factory=dict)


def look_at_worker(address: tuple[str, int]) -> dict[str, Any]:
    """Return the fields of a `Worker`; runs in workers, where it knows nothing but what it imports itself."""
    import importlib
    import socket
    import sys
    import time
    from importlib import metadata

    try:
        importlib.import_module("flinkbuf._core.memory.buffer")
        found = importlib.import_module("flinkbuf._version").build_version()
    except Exception as error:
        found = f"!{type(error).__name__}: {error}"
    versions, reach = {}, ""
    for name in ("numpy", "cloudpickle", "pyarrow", "pyspark"):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "none"
    try:
        socket.create_connection(address, 3.0).close()
    except OSError as error:
        reach = str(error)
    version = ".".join(map(str, sys.version_info[:3]))
    return {
        "host": socket.gethostname(),
        "python": version,
        "executable": sys.executable,
        "flinkbuf": found,
        "time_s": time.time(),
        "reach": reach,
        "packages": versions,
    }


# Cloudpickle sends a function of the main module whole, and any other one as the name of its module.
look_at_worker.__module__ = "__main__"


def workers_of(context: SparkContext) -> list[Finding]:
    """Run a small job of Spark's, and compare the Python of its workers with this one's."""
    from flinkbuf.spark.stage.driver_address import driver_hosts

    bind, host = driver_hosts(context.getConf())
    count = max(2, context.defaultParallelism)
    look = look_at_worker
    try:
        listener = _listening(bind, 0)
    except OSError as error:
        advice = "set spark.flinkbuf.driver.bindAddress to an address of this machine"
        return [Finding("spark driver", FAULT, f"{bind} cannot be listened at: {error}", advice)]
    with listener:
        listener.listen(count)
        address = (host, listener.getsockname()[1])
        started = time.time()
        told = context.parallelize(range(count), count).map(lambda _: look(address)).collect()
        ended = time.time()
    return compared([Worker(**each) for each in told], started, ended, f"{host}:{address[1]}")


def compared(workers: list[Worker], started_s: float, ended_s: float, address: str) -> list[Finding]:
    """Return what differs between this process and workers of Spark that were looked at between two times."""
    found: list[Finding] = []
    for worker in {(each.host, each.executable): each for each in workers}.values():
        found += _differences(worker, started_s, ended_s, address)
    if not found:
        hosts = sorted({each.host for each in workers})
        text = f"{plural(len(hosts), 'host')} have this Python and these versions, and reach {address}"
        return [Finding("spark workers", OK, text)]
    return found


def _differences(worker: Worker, started_s: float, ended_s: float, address: str) -> Iterator[Finding]:
    subject = f"spark worker on {worker.host}"
    here = ".".join(map(str, sys.version_info[:3]))
    advice = "set PYSPARK_PYTHON, or spark.pyspark.python, to an interpreter with the same versions as the driver's"
    if worker.python.split(".")[:2] != here.split(".")[:2]:
        yield Finding(subject, FAULT, f"runs Python {worker.python} ({worker.executable}), the driver {here}", advice)
    if worker.flinkbuf.startswith("!"):
        text = f"{worker.executable} cannot import flinkbuf: {worker.flinkbuf[1:]}"
        yield Finding(subject, FAULT, text, f"install flinkbuf {build_version()} there, or {advice}")
    elif worker.flinkbuf != build_version():
        text = f"has flinkbuf {worker.flinkbuf}, the driver {build_version()}"
        yield Finding(subject, FAULT, text, f"install the driver's wheel there, or {advice}")
    for name, version in worker.packages.items():
        mine = metadata.version(name) if _is_there(name) else "none"
        if version != mine:
            yield Finding(subject, WARNING, f"has {name} {version}, the driver {mine}", advice)
    if worker.reach:
        text = f"does not reach the driver at {address}: {worker.reach}"
        yield Finding(subject, FAULT, text, "set spark.flinkbuf.driver.host, and open the ports that the guide lists")
    behind_s, ahead_s = started_s - worker.time_s, worker.time_s - ended_s
    if max(behind_s, ahead_s) > CLOCK_SKEW_S:
        text = f"its clock is {max(behind_s, ahead_s):.1f} s {'behind' if behind_s > ahead_s else 'ahead'}"
        yield Finding(subject, WARNING, text, "let all machines follow one time server")
