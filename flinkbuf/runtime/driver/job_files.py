"""Files that a program's functions need where they run: modules, archives, and files registered by a name.

On one machine functions read them where they lie. To Spark's executors they are shipped under names made of their
content: what was shipped once is not shipped again, and files of one name that differ never meet. Flink: BlobServer,
DistributedCache; PyFlink: PythonDependencyInfo.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import shutil
import sys
import tempfile
import threading
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from flinkbuf.private_files import make_private_directories
from flinkbuf.runtime.driver.archives import unpack
from flinkbuf.runtime.driver.job_directory import JobDirectory
from flinkbuf.runtime.manager.job_bundle import JobBundle
from flinkbuf.streaming.sources.file_split import local_path

WORK = "work"  # within the directory of a job: what functions work in
_BLOCK = 1024 * 1024


@dataclass(frozen=True)
class PythonArchive:
    """An archive and the name of the directory, below the working directory, in which functions find it unpacked."""

    path: str
    target: str

    @classmethod
    def of(cls, path: str, target: str | None = None) -> PythonArchive:
        """Return the archive of a file that is there; without a target it is named as its file.

        Raises
        ------
        FileNotFoundError, ValueError
            If there is no such file, or the target is no name below a directory.
        """
        file = existing(path, "Python archive")
        if file.is_dir():
            raise ValueError(f"Python archive {path!r} is a directory: zip it first, or add it by add_python_file")
        target = file.name if target is None else target
        if target in ("", ".", "..") or os.sep in target:
            raise ValueError(f"target_dir must be the name of a directory, got {target!r}")
        return cls(str(file), target)


@dataclass(frozen=True)
class CachedFile:
    """A file, or a directory with all that is in it, that functions ask for by its name."""

    name: str
    path: str
    is_executable: bool = False


def existing(path: str, what: str) -> Path:
    """Return the absolute path of a file that is there, else raise FileNotFoundError."""
    file = Path(local_path(path))
    if not file.exists():
        raise FileNotFoundError(f"no such {what}: {path}")
    return file


def import_place(path: str) -> str:
    """Return what has to be on ``sys.path`` so that a module, a package's directory or a zip file can be imported."""
    return os.path.dirname(path) if path.endswith(".py") else path


def _check_no_two(what: str, names: list[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{names.count(name)} {what} have the name {name!r}: give each another target_dir")


class JobFiles:
    """The files of one job, in the program's process.

    Parameters
    ----------
    python_files : sequence of str
        Absolute paths: modules, directories, zip files.
    archives : sequence of PythonArchive
    cached_files : sequence of CachedFile

    Examples
    --------
    >>> JobFiles().is_empty, JobFiles().local_directory()
    (True, None)
    """

    def __init__(
        self,
        python_files: Sequence[str] = (),
        archives: Sequence[PythonArchive] = (),
        cached_files: Sequence[CachedFile] = (),
    ) -> None:
        self.python_files = tuple(python_files)
        self.archives = tuple(archives)
        self.cached_files = tuple(cached_files)
        _check_no_two("archives", [each.target for each in self.archives])
        self._directory: JobDirectory | None = None
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[object, ...]:
        """Elsewhere it is the same list of files, of which nothing is unpacked yet."""
        return JobFiles, (self.python_files, self.archives, self.cached_files)

    @property
    def is_empty(self) -> bool:
        """Return whether there are no files."""
        return not (self.python_files or self.archives or self.cached_files)

    @property
    def sys_path(self) -> tuple[str, ...]:
        """Places of modules, for ``sys.path`` of a process on this machine."""
        return tuple(dict.fromkeys(map(import_place, self.python_files)))

    def local_directory(self) -> str | None:
        """Return a directory that holds the archives, unpacked: where task managers on this machine work.

        Made at the first call and gone after `close`; None: there are no archives. From any thread.

        Raises
        ------
        ValueError
            A file is no archive.
        """
        with self._lock:
            if self.archives and self._directory is None:
                directory = JobDirectory()
                try:
                    for archive in self.archives:
                        unpack(archive.path, directory.path / WORK / archive.target)
                except BaseException:
                    directory.close()
                    raise
                self._directory = directory
            return None if self._directory is None else str(self._directory.path / WORK)

    def local_cache(self) -> dict[str, str]:
        """Return where a function on this machine finds what it asks for by name, archives by their target, too."""
        cached = {each.name: each.path for each in self.cached_files}
        directory = self.local_directory()
        if directory is not None:
            cached = {**{each.target: os.path.join(directory, each.target) for each in self.archives}, **cached}
        return cached

    def close(self) -> None:
        """Remove what was unpacked; closing again does nothing."""
        with self._lock:
            directory, self._directory = self._directory, None
        if directory is not None:
            directory.close()

    def ship(self, add_file: Callable[[str], object], directory: str) -> ShippedFiles:
        """Give each file to Spark, and return what finds them on an executor.

        Parameters
        ----------
        add_file : callable
            ``SparkContext.addFile``.
        directory : str
            Where copies stay as long as executors may come: ``SparkFiles.getRootDirectory()``.
        """
        place = Path(directory, "flinkbuf-files")  # workers look here for modules: no folder may be called as one
        make_private_directories(place)

        def shipped(path: str) -> str:
            file = _content_named(path, place)
            add_file(str(file))
            return file.name

        return ShippedFiles(
            tuple((shipped(path), Path(path).name, Path(path).is_dir()) for path in self.python_files),
            tuple((shipped(each.path), each.target) for each in self.archives),
            tuple(
                (each.name, shipped(each.path), Path(each.path).is_dir(), each.is_executable)
                for each in self.cached_files
            ),
        )


@dataclass(frozen=True)
class ShippedFiles:
    """Where a job's files are on an executor; it travels with the job."""

    python_files: tuple[tuple[str, str, bool], ...] = ()  # shipped name, name, whether it was a directory
    archives: tuple[tuple[str, str], ...] = ()  # shipped name, target
    cached_files: tuple[tuple[str, str, bool, bool], ...] = ()  # name, shipped name, was a directory, is executable

    @contextlib.contextmanager
    def entered(self, bundle: JobBundle, directory: str) -> Iterator[JobBundle]:
        """Let functions in this process find the files, until the end of the block.

        Modules can be imported, the working directory has the archives (if there are any), and the bundle that is
        given says where cached files are. Spark's workers are used again: all of it is undone.

        Parameters
        ----------
        bundle : JobBundle
        directory : str
            Where Spark has put the files: ``SparkFiles.getRootDirectory()``.
        """
        if not (self.python_files or self.archives or self.cached_files):
            yield bundle
            return
        root = Path(directory)
        with JobDirectory(directory) as work, contextlib.ExitStack() as undone:
            self._make_importable(root, work.path, undone)
            cached = self._cached(root, work.path)
            if self.archives:
                undone.callback(os.chdir, os.getcwd())
                os.chdir(work.path / WORK)
            settings = dataclasses.replace(bundle.settings, cached_files=cached)
            yield dataclasses.replace(bundle, settings=settings)

    def _make_importable(self, root: Path, work: Path, undone: contextlib.ExitStack) -> None:
        """A module is linked by its own name into a place of its own; a directory is unpacked; a zip file will do."""
        places = []
        for number, (shipped, name, was_directory) in enumerate(self.python_files):
            if was_directory:
                places.append(str(_unpacked(root, shipped)))
                continue
            place = work / "modules" / str(number)
            place.mkdir(parents=True)
            (place / name).symlink_to(root / shipped)
            places.append(import_place(str(place / name)))
        before = list(sys.path)
        sys.path[:0] = places
        undone.callback(_restore_path, before, places)

    def _cached(self, root: Path, work: Path) -> dict[str, str]:
        cached = {}
        for shipped, target in self.archives:
            link = work / WORK / target
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(_unpacked(root, shipped))
            cached[target] = str(link)
        for name, shipped, was_directory, is_executable in self.cached_files:
            file = _unpacked(root, shipped) if was_directory else root / shipped
            if is_executable and not was_directory:
                file.chmod(file.stat().st_mode | 0o111)
            cached[name] = str(file)
        return cached


def _restore_path(before: list[str], places: list[str]) -> None:
    """Take the places away again, and the modules that came from them: another job's may have the same names."""
    sys.path[:] = before
    for name, module in sys.modules.copy().items():
        file = getattr(module, "__file__", None)
        if file and any(file.startswith(place + os.sep) for place in places):
            del sys.modules[name]
    for place in places:
        sys.path_importer_cache.pop(place, None)


def _content_named(path: str, directory: Path) -> Path:
    """Copy a file into a directory, a directory as a zip file, under a name that its content makes."""
    source = Path(path)
    with tempfile.NamedTemporaryFile(dir=directory, delete=False) as copy:
        temporary = Path(copy.name)
        try:
            if source.is_dir():
                _zip(source, copy)
            else:
                with source.open("rb") as content:
                    shutil.copyfileobj(content, copy, _BLOCK)
            copy.seek(0)
            digest = hashlib.sha256()
            while block := copy.read(_BLOCK):
                digest.update(block)
        except BaseException:
            temporary.unlink()
            raise
    suffix = ".zip" if source.is_dir() else ""
    named = directory / f"flinkbuf-{digest.hexdigest()[:32]}-{source.name}{suffix}"
    temporary.chmod(0o600)
    temporary.replace(named)
    return named


def _zip(source: Path, file: IO[bytes]) -> None:
    """Zip a directory, the same bytes for the same content: times of files are left out."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as zipped:
        for each in sorted(source.rglob("*")):
            if "__pycache__" in each.parts or not each.is_file():
                continue
            info = zipfile.ZipInfo(str(each.relative_to(source)))
            info.external_attr = each.stat().st_mode << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            zipped.writestr(info, each.read_bytes())


def _unpacked(root: Path, shipped: str) -> Path:
    """Unpack once for all tasks of an executor; a second task takes what the first has made."""
    place = root / f"{shipped}.unpacked"
    if not place.exists():
        temporary = Path(tempfile.mkdtemp(prefix="flinkbuf-unpacking-", dir=root))
        try:
            unpack(str(root / shipped), temporary)
            temporary.rename(place)
        except OSError:
            shutil.rmtree(temporary, ignore_errors=True)
            if not place.exists():
                raise
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
    return place
