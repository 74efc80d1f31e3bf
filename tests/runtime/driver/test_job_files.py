"""Files that functions need: on one machine, shipped as Spark does, and gone afterwards."""

import dataclasses
import fcntl
import io
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from flinkbuf import owned_directory
from flinkbuf.runtime.driver.archives import unpack
from flinkbuf.runtime.driver.job_directory import PREFIX, JobDirectory
from flinkbuf.runtime.driver.job_files import CachedFile, JobFiles, PythonArchive, ShippedFiles
from flinkbuf.streaming.chain.distributed_cache import DistributedCache
from flinkbuf.streaming.chain.operator_config import ExecutionSettings


@dataclasses.dataclass(frozen=True)
class Bundle:
    settings: ExecutionSettings = dataclasses.field(default_factory=ExecutionSettings)


@pytest.fixture
def archive(tmp_path):
    with zipfile.ZipFile(tmp_path / "data.zip", "w") as zipped:
        zipped.writestr("inside/airports.csv", "JFK")
    return str(tmp_path / "data.zip")


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """Where temporary files of this process go."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    return place


class FakeSpark:
    """Copies what is added to the driver into the directory of an executor, as Spark does."""

    def __init__(self, directory):
        self.driver, self.executor = directory / "driver", directory / "executor"
        self.driver.mkdir()
        self.executor.mkdir()
        self.added = []

    def add_file(self, path):
        self.added.append(path)
        shutil.copy(path, self.executor / Path(path).name)

    def ship(self, files):
        return files.ship(self.add_file, str(self.driver))

    def entered(self, shipped):
        return shipped.entered(Bundle(), str(self.executor))


@pytest.fixture
def spark(tmp_path):
    return FakeSpark(tmp_path)


# --- archives


def test_a_zip_file_keeps_links_and_permissions(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as zipped:
        script = zipfile.ZipInfo("bin/run")
        script.external_attr = 0o100755 << 16
        zipped.writestr(script, "#!/bin/sh\n")
        link = zipfile.ZipInfo("start")
        link.external_attr = 0o120777 << 16
        zipped.writestr(link, "bin/run")
    unpack(str(tmp_path / "a.zip"), tmp_path / "out")
    assert os.access(tmp_path / "out/bin/run", os.X_OK) and os.readlink(tmp_path / "out/start") == "bin/run"


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz", "a.tgz"])
def test_a_tar_file_is_unpacked(tmp_path, name):
    (tmp_path / "x.txt").write_text("here")
    with tarfile.open(tmp_path / name, "w" if name == "a.tar" else "w:gz") as tar:
        tar.add(tmp_path / "x.txt", "deep/x.txt")
    unpack(str(tmp_path / name), tmp_path / "out")
    assert (tmp_path / "out/deep/x.txt").read_text() == "here"


def zip_with(path, name, content, mode=0o100644):
    with zipfile.ZipFile(path, "w") as zipped:
        info = zipfile.ZipInfo(name)
        info.external_attr = mode << 16
        zipped.writestr(info, content)


def tar_with(path, name, *, kind=tarfile.REGTYPE, linked=""):
    with tarfile.open(path, "w") as tar:
        info = tarfile.TarInfo(name)
        info.type, info.linkname = kind, linked
        tar.addfile(info, io.BytesIO())


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("a.zip", lambda path: zip_with(path, "../out.txt", "x")),
        ("a.zip", lambda path: zip_with(path, "/out.txt", "x")),
        ("a.zip", lambda path: zip_with(path, "link", "../../etc", 0o120777)),
        ("a.tar", lambda path: tar_with(path, "../out.txt")),
        ("a.tar", lambda path: tar_with(path, "link", kind=tarfile.SYMTYPE, linked="/etc")),
        ("a.tar", lambda path: tar_with(path, "link", kind=tarfile.LNKTYPE, linked="../secret")),
    ],
)
def test_nothing_is_unpacked_outside_of_the_directory(tmp_path, name, make):
    make(tmp_path / name)
    with pytest.raises(ValueError, match="would lie outside"):
        unpack(str(tmp_path / name), tmp_path / "below" / "out")
    assert list((tmp_path / "below" / "out").iterdir()) == []


def test_a_device_in_an_archive_is_refused(tmp_path):
    tar_with(tmp_path / "a.tar", "pipe", kind=tarfile.FIFOTYPE)
    with pytest.raises(ValueError, match="neither file, directory nor link"):
        unpack(str(tmp_path / "a.tar"), tmp_path / "out")


@pytest.mark.parametrize("name", ["a.zip", "a.tar.gz"])
def test_what_is_no_archive_is_said_to_be_none(tmp_path, name):
    (tmp_path / name).write_text("no archive")
    with pytest.raises(ValueError, match="cannot be unpacked.*it must be a zip file, or a tar file"):
        unpack(str(tmp_path / name), tmp_path / "out")


# --- on one machine


def test_archives_lie_where_task_managers_work_until_the_job_is_over(archive, temporary):
    files = JobFiles(archives=[PythonArchive.of(archive), PythonArchive.of(archive, "data")])
    directory = Path(files.local_directory())
    assert files.local_directory() == str(directory)  # once
    assert (directory / "data.zip/inside/airports.csv").read_text() == "JFK"
    assert DistributedCache(files.local_cache()).get_file("data") == directory / "data"
    files.close()
    files.close()
    assert list(temporary.iterdir()) == []


def test_without_archives_there_is_no_directory(temporary):
    files = JobFiles(["/lib/m.py", "/lib/n.py", "/lib/p.zip"], cached_files=[CachedFile("a", "/data/a.csv")])
    assert files.local_directory() is None and files.sys_path == ("/lib", "/lib/p.zip")
    assert files.local_cache() == {"a": "/data/a.csv"} and list(temporary.iterdir()) == []


def test_an_archive_that_is_none_leaves_nothing(tmp_path, temporary):
    (tmp_path / "a.zip").write_text("no archive")
    with pytest.raises(ValueError, match="cannot be unpacked"):
        JobFiles(archives=[PythonArchive.of(str(tmp_path / "a.zip"))]).local_directory()
    assert list(temporary.iterdir()) == []


def test_archives_that_make_no_sense_are_refused(archive, tmp_path):
    with pytest.raises(FileNotFoundError, match="no such Python archive"):
        PythonArchive.of("nothing.zip")
    with pytest.raises(ValueError, match="is a directory: zip it first"):
        PythonArchive.of(str(tmp_path))
    for target in ("", "..", "/etc", "a/b"):
        with pytest.raises(ValueError, match="must be the name of a directory"):
            PythonArchive.of(archive, target)
    with pytest.raises(ValueError, match="2 archives have the name 'data.zip'"):
        JobFiles(archives=[PythonArchive.of(archive)] * 2)


def test_a_file_that_nobody_registered_is_named_with_those_that_are():
    with pytest.raises(ValueError, match="File with name 'b' is not available.*registered: 'a'"):
        DistributedCache({"a": "/x"}).get_file("b")


# --- directories


def test_a_directory_is_gone_when_nobody_holds_it(temporary):
    directory = JobDirectory()
    assert len(list(temporary.iterdir())) == 1
    del directory
    assert list(temporary.iterdir()) == []


def test_the_directory_of_a_process_that_was_killed_is_swept_by_the_next(temporary):
    program = (
        "import sys, tempfile; tempfile.tempdir = sys.argv[1]\n"
        "from flinkbuf.runtime.driver.job_directory import JobDirectory\n"
        "held = JobDirectory(); print(held.path, flush=True); sys.stdin.read()"
    )
    arguments = [sys.executable, "-c", program, str(temporary)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        path = Path(process.stdout.readline().strip())
        with JobDirectory():
            assert path.is_dir()  # its process lives
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert path.is_dir()
    with JobDirectory() as directory:
        assert list(temporary.iterdir()) == [directory.path]


def test_a_directory_that_is_swept_before_it_is_locked_is_made_again(temporary, monkeypatch):
    lock, swept = fcntl.flock, []

    def flock(file, operation):
        if operation == fcntl.LOCK_EX and not swept:  # between the making of the lock file and its locking
            swept.extend(temporary.iterdir())
            owned_directory.sweep(PREFIX, str(temporary))
        lock(file, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    before = len(os.listdir("/proc/self/fd"))
    with JobDirectory() as directory:
        assert directory.path.is_dir() and [directory.path] != swept
        owned_directory.sweep(PREFIX, str(temporary))
        assert list(temporary.iterdir()) == [directory.path]
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_directory_without_a_lock_is_swept_when_it_is_old(temporary, monkeypatch):
    (temporary / f"{PREFIX}young").mkdir()
    with JobDirectory():
        assert (temporary / f"{PREFIX}young").is_dir()
    monkeypatch.setattr(owned_directory, "UNLOCKED_S", -1.0)
    with JobDirectory():
        assert not (temporary / f"{PREFIX}young").exists()


# --- shipped


def test_functions_find_what_was_shipped_and_nothing_is_left(spark, tmp_path, archive):
    (tmp_path / "shipped_module.py").write_text("ANSWER = 42\n")
    (tmp_path / "library/shipped_package").mkdir(parents=True)
    (tmp_path / "library/shipped_package/__init__.py").write_text("NAME = __name__\n")
    (tmp_path / "run.sh").write_text("#!/bin/sh\n")
    files = JobFiles(
        [str(tmp_path / "shipped_module.py"), str(tmp_path / "library")],
        [PythonArchive.of(archive, "data")],
        [CachedFile("run", str(tmp_path / "run.sh"), True), CachedFile("all", str(tmp_path / "library"))],
    )
    before = (os.getcwd(), list(sys.path))
    with spark.entered(spark.ship(files)) as bundle:
        import shipped_module
        import shipped_package

        assert (shipped_module.ANSWER, shipped_package.NAME) == (42, "shipped_package")
        assert Path("data/inside/airports.csv").read_text() == "JFK"
        cache = DistributedCache(bundle.settings.cached_files)
        assert os.access(cache.get_file("run"), os.X_OK)
        assert (cache.get_file("all") / "shipped_package/__init__.py").is_file()
        assert (cache.get_file("data") / "inside/airports.csv").is_file()
    assert (os.getcwd(), sys.path) == before
    assert not {"shipped_module", "shipped_package"} & set(sys.modules)
    assert not list(spark.executor.glob(f"{PREFIX}*")) and not list(spark.executor.glob("flinkbuf-unpacking-*"))


def test_what_was_shipped_is_undone_after_an_exception_too(spark, archive):
    before = os.getcwd()
    with pytest.raises(ZeroDivisionError), spark.entered(spark.ship(JobFiles(archives=[PythonArchive.of(archive)]))):
        raise ZeroDivisionError
    assert os.getcwd() == before


def test_the_same_content_has_the_same_name_and_another_one_another(spark, tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("first")
    files = JobFiles(cached_files=[CachedFile("a", str(file))])
    assert spark.ship(files) == spark.ship(files) and len(set(spark.added)) == 1
    file.write_text("second")
    shipped = spark.ship(files)
    assert len(set(spark.added)) == 2 and len(list((spark.driver / "flinkbuf-files").iterdir())) == 2
    with spark.entered(shipped) as bundle:
        assert Path(bundle.settings.cached_files["a"]).read_text() == "second"


def test_directories_of_the_same_content_have_the_same_name(spark, tmp_path):
    for name in ("one", "two"):
        (tmp_path / name / "lib").mkdir(parents=True)
        (tmp_path / name / "lib" / "m.py").write_text("A = 1\n")
        os.utime(tmp_path / name / "lib" / "m.py", (1_000_000_000, 1_000_000_000 + len(name)))
    spark.ship(JobFiles([str(tmp_path / name / "lib") for name in ("one", "two")]))
    assert len(set(spark.added)) == 1


def test_a_job_without_files_changes_nothing(spark):
    shipped, bundle = spark.ship(JobFiles()), Bundle()
    with shipped.entered(bundle, "/nowhere") as given:
        assert given is bundle
    assert shipped == ShippedFiles() and spark.added == []
