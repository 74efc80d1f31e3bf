"""A data set of partition files in a directory: versions, commits that are all or nothing, and what is cleared away.

=========================  ============================================================================================
``_manifests/<n>.json``    Version n: which files are the data set. The highest one counts.
``data/part-….shuffle.*``  Partition files, one for each task that wrote rows.
``_jobs/<job>.<owner>``    Who is writing; gone after the commit. Not empty: the job was aborted, tasks shall stop.
=========================  ============================================================================================

A commit writes its manifest under another name, makes it last (fsync), and links it to the next free number: that
either works or somebody else was first. Then the commit looks again at what it builds upon, so of two overwrites the
later one stands, and of two appends both do. Whoever is killed before the link has changed nothing.

The link decides. What fails behind it does not undo the commit, and no abort does: Spark aborts a job as well whose
committing process died or was too slow, so an abort first takes the manifest's other name away, without which there is
no link any more, and then looks whether a version is of its job. A number that was free because its version has been
cleared away meanwhile is left again.

A writer that numbers its commits, as a streaming query does, may repeat one whose outcome it does not know: the
manifest tells the last number of each such writer, and that one is not committed again. Whoever comes with a lower
number has forgotten where he was, so nobody knows whether his rows are there: he is refused.

A compaction puts one file into the place of several that lie behind each other, if they still do: see `compaction`.

Files of a version that was replaced stay for a while (the retention), for readers that began before. What killed jobs
have left is removed by the next commit: at once where their driver is known to be gone (same machine), else a day
after it was last written.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import re
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import unquote, urlsplit

from flinkbuf.checkpoints.local_files import sync_directory
from flinkbuf.errors import CorruptDataError
from flinkbuf.log import logger
from flinkbuf.partition_files.job_owner import JobOwner
from flinkbuf.partition_files.manifest import (
    DataFile,
    Layout,
    Manifest,
    file_name,
    job_of,
    layout_difference,
    names_of_files,
)
from flinkbuf.partition_files.schema_merge import merged_schema
from flinkbuf.private_files import make_private_directories, private_opener

MANIFESTS, DATA, JOBS = "_manifests", "data", "_jobs"
RETENTION_S = 3600.0  # so long a reader may take that began before an overwrite
LEFTOVER_S = 24 * 3600.0  # so long a job of another machine may take
DATA_SUFFIX, INDEX_SUFFIX = ".shuffle.data", ".shuffle.index"
_THOROUGH = 64  # one of so many appends looks at the age of all files
_ATTEMPTS = 10_000  # to be the first with a number; each failure is a commit of somebody else's
_MANIFEST_NAME = re.compile(r"([1-9][0-9]{0,17})\.json", re.ASCII)
_JOB_IN_NAME = re.compile(r"[0-9a-f]{16}", re.ASCII)
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


def local_path(path: str) -> str:
    """The directory that a path, or a URI such as ``file:/data``, means.

    Raises
    ------
    ValueError
        If it lies in another file system than one that is mounted here.

    Examples
    --------
    >>> local_path("file:///data/flights"), local_path("/data/flights/")
    ('/data/flights', '/data/flights')
    """
    parts = urlsplit(path) if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", path) else None
    if parts is None:
        return os.path.abspath(path)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        raise ValueError(
            f"{path!r} is not in a file system of this machine: partition files need one that all workers have "
            "mounted at the same path; give that path, such as /mnt/data/flights"
        )
    return os.path.abspath(unquote(parts.path))


@dataclass(frozen=True)
class _Change:
    """What a commit makes of the version before it."""

    job: str
    layout: Layout
    files: tuple[DataFile, ...]
    operation: str
    batch: tuple[str, int] | None
    replaced: tuple[str, ...]  # names of files

    def is_wanted(self, manifest: Manifest) -> bool:
        """Whether a version lacks the change's batch, and has the files that it replaces.

        Raises
        ------
        ValueError
            If it has a later batch of the same writer.
        """
        if self.batch is not None:
            writer, number = self.batch
            last = manifest.batches.get(writer, -1)
            if number < last:
                raise ValueError(
                    f"batch {number} of writer {writer!r} comes after batch {last}, which is in the data set; whether "
                    "its rows are, nobody knows: numbers grow. So it is when the checkpoint of a query was removed or "
                    "put back: begin it with another checkpointLocation, and in foreachBatch with another writer"
                )
            if number == last:
                logger.warning(
                    "batch %d of writer %r is in the data set already, and is not written again", number, writer
                )
                return False
        return self.operation != "compact" or self._place(manifest) is not None

    def in_place(self, manifest: Manifest) -> tuple[DataFile, ...]:
        """The files of a version, with those of the change instead of those that it replaces."""
        place = self._place(manifest)
        assert place is not None, "the change is wanted"
        return (*manifest.files[:place], *self.files, *manifest.files[place + len(self.replaced) :])

    def _place(self, manifest: Manifest) -> int | None:
        names = [each.name for each in manifest.files]
        place = names.index(self.replaced[0]) if self.replaced and self.replaced[0] in names else None
        is_there = place is not None and tuple(names[place : place + len(self.replaced)]) == self.replaced
        return place if is_there else None


def new_job() -> str:
    """The name of a writing job: 16 random hexadecimal digits."""
    return uuid.uuid4().hex[:16]


class PartitionDataSet:
    """A directory of partition files.

    Parameters
    ----------
    path : str
        The directory, or its ``file:`` URI; it need not exist yet.
    now : callable, optional
        Gives seconds since 1970.

    Examples
    --------
    >>> import tempfile
    >>> data_set = PartitionDataSet(tempfile.mkdtemp())
    >>> layout = Layout({"type": "struct", "fields": []}, "Types.ROW([])", (), 4, 128)
    >>> data_set.commit(new_job(), layout, [], "append").version
    1
    """

    def __init__(self, path: str, now: Callable[[], float] = time.time) -> None:
        self.path = local_path(path)
        self._now = now

    def __repr__(self) -> str:
        return f"PartitionDataSet({self.path!r})"

    def directory(self, name: str) -> str:
        """One of the three directories in it."""
        return os.path.join(self.path, name)

    def base_path(self, file: DataFile | str) -> str:
        """Path of a data file, without the ending that says which of the two it is."""
        return os.path.join(self.path, DATA, file if isinstance(file, str) else file.name)

    # ---- versions

    def versions(self) -> list[int]:
        """Numbers of the manifests that are there, ascending."""
        names = (name for name in _names(self.directory(MANIFESTS)) if name.endswith(".json"))
        return sorted(int(found[1]) for found in map(_MANIFEST_NAME.fullmatch, names) if found)

    def exists(self) -> bool:
        """Whether anything was ever committed."""
        return bool(self.versions())

    def manifest(self, version: int | None = None) -> Manifest:
        """A version of the data set, without a number the last one.

        Raises
        ------
        FileNotFoundError
            If there is none.
        CorruptDataError
            If it cannot be read; an older version is no substitute.
        """
        try:
            found = self._latest() if version is None else self._read(version)
        except FileNotFoundError as error:
            text = (
                f"version {version} of the data set is gone: a later one replaced it longer ago than the retention; "
                "load the data set again"
            )
            raise FileNotFoundError(errno.ENOENT, text, error.filename) from None
        if found is None:
            raise FileNotFoundError(f"{self.path} holds no data set of partition files (no {MANIFESTS}/<number>.json)")
        return found

    def _latest(self) -> Manifest | None:
        for _ in range(_ATTEMPTS):
            versions = self.versions()
            if not versions:
                return None
            with contextlib.suppress(FileNotFoundError):  # replaced and cleared away since
                return self._read(versions[-1])
        raise TimeoutError(f"{self.path}: each version was gone before it could be read")

    def _read(self, version: int) -> Manifest:
        path = self._manifest_path(version)
        with open(path, "rb") as file:
            return Manifest.parse(file.read(), path)

    def _manifest_path(self, version: int) -> str:
        return os.path.join(self.path, MANIFESTS, f"{version}.json")

    # ---- writing

    def check_new_rows(self, layout: Layout, operation: str) -> None:
        """Say before any row is written what would keep them out.

        Raises
        ------
        ValueError
            If they do not fit the rows to which they would be appended.
        FileExistsError
            If something else lies in the directory.
        NotADirectoryError
            If it is a file.
        """
        if os.path.lexists(self.path) and not os.path.isdir(self.path):
            raise NotADirectoryError(f"{self.path} is no directory: a data set needs one of its own")
        strange = sorted(set(_names(self.path)) - {MANIFESTS, DATA, JOBS})
        if strange and not self.exists():
            raise FileExistsError(
                f"{self.path} holds {strange[0]!r}, which is no part of a data set of partition files; "
                "save to a directory of its own"
            )
        before = self._latest() if operation == "append" else None
        if before is not None:
            self._appended(before, layout, ())

    def begin_part(self, job: str, owner: JobOwner, task: int) -> str:
        """Name a new data file and make the directories; returns its base path.

        Raises
        ------
        InterruptedError
            If the job was aborted.
        """
        for name in (MANIFESTS, JOBS, DATA):
            make_private_directories(self.directory(name))
        os.close(private_opener(self._record(job, owner), os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC))
        self.check_job(job, owner)
        return self.base_path(file_name(job, task, uuid.uuid4().hex[:8]))

    def check_job(self, job: str, owner: JobOwner) -> None:
        """See whether the job was aborted; a task looks before its file is there and after it is whole.

        Raises
        ------
        InterruptedError
            If it was. From then on a file of the task is its own to remove.
        """
        self._check_record(self._record(job, owner))

    def _check_record(self, record: str) -> None:
        with contextlib.suppress(FileNotFoundError):  # committed: of tasks that ran twice this is the one too many
            if os.stat(record).st_size:
                raise InterruptedError(errno.EINTR, "the job that writes this data set was aborted", record)

    def _record(self, job: str, owner: JobOwner) -> str:
        return os.path.join(self.path, JOBS, f"{job}.{owner.to_name()}")

    def commit(
        self,
        job: str,
        layout: Layout,
        files: Sequence[DataFile],
        operation: str,
        *,
        retention_s: float = RETENTION_S,
        must_be_new: bool = False,
        batch: tuple[str, int] | None = None,
        replaced: Sequence[DataFile] = (),
    ) -> Manifest:
        """Make the files of a job the data set, or part of it: all of them at once, or none.

        Parameters
        ----------
        job : str
            Files that it wrote and does not name here are removed.
        layout : Layout
            Of the files.
        files : sequence of DataFile
            What its tasks wrote; finished and synced.
        operation : {"overwrite", "append", "compact"}
        retention_s : float, default 3600
            Seconds for which the files of a replaced version stay.
        must_be_new : bool
            Refuse if there is a data set already.
        batch : tuple of (str, int), optional
            A writer's name and the number of its commit, which grows. If this one is the last that is committed, the
            files are removed and nothing is changed.
        replaced : sequence of DataFile
            For "compact": the files whose rows the new ones have, and whose place they take. If they do not lie behind
            each other any more, since others have replaced one, the new files are removed and nothing is changed.

        Returns
        -------
        Manifest
            The new version; the last one if nothing was changed.

        Raises
        ------
        FileExistsError
            If it must be new and is not.
        ValueError
            If the files do not fit those of the data set, which somebody else has overwritten meanwhile, or a later
            batch of the writer is committed.
        FileNotFoundError
            If a file of the job is gone.
        """
        for name in (MANIFESTS, JOBS, DATA):
            make_private_directories(self.directory(name))
        self._check_files(files)
        sync_directory(self.directory(DATA))
        change = _Change(job, layout, tuple(files), operation, batch, tuple(each.name for each in replaced))
        manifest = self._link_next(change, must_be_new)
        try:
            self._remove_files(job, kept={each.name for each in files} if manifest.job == job else set())
            self._remove_records(job)
            self.sweep(retention_s, is_thorough=operation == "overwrite" or manifest.version % _THOROUGH == 0)
        except (OSError, CorruptDataError) as error:  # the commit stands; the next one clears away
            logger.warning(
                "data set %s: version %d is there, but leftovers stay: %s", self.path, manifest.version, error
            )
        return manifest

    def abort(self, job: str, owner: JobOwner) -> None:
        """Remove all that a job has written, unless it is committed, and tell tasks that still run.

        Spark does not wait for them. The record stays, for those that have yet to begin; a later commit removes it.
        """
        if not os.path.isdir(self.directory(JOBS)):
            return
        try:
            with open(self._record(job, owner), "wb", opener=private_opener) as record:
                record.write(b"aborted\n")
        finally:  # the disk may be full
            _remove(self._temporary(job))
            if self._is_committed(job):
                logger.warning("data set %s: job %s is committed, so it is not aborted", self.path, job)
            else:
                self._remove_files(job, kept=set())

    def _is_committed(self, job: str) -> bool:
        """Whether a version has files of that job or is its own, as far as can be seen: a damaged one may be."""
        for version in reversed(self.versions()):
            try:
                manifest = self._read(version)
                if manifest.job == job or any(job_of(each.name) == job for each in manifest.files):
                    return True
            except FileNotFoundError:  # cleared away since
                continue
            except (OSError, CorruptDataError) as error:
                logger.warning("data set %s: files of job %s stay, which may be committed: %s", self.path, job, error)
                return True
        return False

    def _check_files(self, files: Iterable[DataFile]) -> None:
        for each in files:
            for suffix, size in ((DATA_SUFFIX, each.data_size), (INDEX_SUFFIX, each.index_size)):
                path = self.base_path(each) + suffix
                found = os.stat(path).st_size
                if found != size:
                    raise OSError(errno.EIO, f"{found} bytes where a task has written {size}; write again", path)

    def _link_next(self, change: _Change, must_be_new: bool) -> Manifest:
        temporary = self._temporary(change.job)
        try:
            for _ in range(_ATTEMPTS):
                last = max(self.versions(), default=0)
                if last and must_be_new:
                    raise FileExistsError(f"{self.path} holds a data set already; choose append or overwrite")
                before = self._before(change)
                if before is not None and not change.is_wanted(before):
                    return before
                manifest = self._successor(last, before, change)
                _write_synced(temporary, manifest.to_bytes())
                self._check_not_aborted(change.job)
                path = self._manifest_path(manifest.version)
                if _link(temporary, path):
                    if not self._fills_gap(manifest):
                        self._sync()
                        return manifest
                    os.unlink(path)
                    self._check_files(change.files)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        raise TimeoutError(f"{self.path}: others committed {_ATTEMPTS} times while this job tried to")

    def _temporary(self, job: str) -> str:
        return os.path.join(self.path, MANIFESTS, f".{job}.tmp")

    def _check_not_aborted(self, job: str) -> None:
        """Look behind the writing of the manifest: whoever aborts from now on removes that."""
        for name in _names(self.directory(JOBS)):
            if name.startswith(f"{job}."):
                self._check_record(os.path.join(self.path, JOBS, name))

    def _fills_gap(self, manifest: Manifest) -> bool:
        """Whether a version that was just linked came into the place of one that has been cleared away.

        Others have then built upon that one, and nobody would see this. What cannot be seen is taken for no gap.
        """
        with contextlib.suppress(OSError, CorruptDataError):
            found = self.versions()
            later = [version for version in found if version > manifest.version]
            if later and manifest.version in found:  # else it is cleared away already, behind an overwrite
                following = self._read(later[0])
                if following.parent or following.operation == "overwrite":
                    return following.parent not in ("", manifest.job)
                below = [each.name for each in following.files if job_of(each.name) != following.job]
                return below != [each.name for each in manifest.files]
        return False

    def _sync(self) -> None:
        """Make a version last that others see already."""
        try:
            sync_directory(self.directory(MANIFESTS))
            sync_directory(self.path)
            with contextlib.suppress(PermissionError):
                sync_directory(os.path.dirname(self.path))
        except OSError as error:
            logger.warning(
                "data set %s: the new version is there, but a crash of the machine may bring back the one before: %s",
                self.path,
                error,
            )

    def _before(self, change: _Change) -> Manifest | None:
        """The version that a change builds upon; an overwrite replaces what is damaged, too."""
        try:
            return self._latest()
        except CorruptDataError:
            if change.operation != "overwrite":
                raise
            return None

    def _successor(self, last: int, before: Manifest | None, change: _Change) -> Manifest:
        layout, files, generation = change.layout, change.files, change.job
        parent = ""
        if before is not None and change.operation != "overwrite":
            if change.operation == "append":
                layout, files = self._appended(before, layout, files)
            else:
                layout, files = before.layout, change.in_place(before)
            last, generation, parent = before.version, before.generation, before.job
        batches = {} if before is None else dict(before.batches)
        if change.batch is not None:
            batches[change.batch[0]] = change.batch[1]
        created_ms = int(self._now() * 1000)
        return Manifest(last + 1, change.job, created_ms, change.operation, layout, files, generation, batches, parent)

    def _appended(
        self, before: Manifest, layout: Layout, files: tuple[DataFile, ...]
    ) -> tuple[Layout, tuple[DataFile, ...]]:
        difference = layout_difference(before.layout, layout)
        if difference:
            raise ValueError(f"rows cannot be appended to the data set at {self.path}: {difference}")
        try:
            schema = merged_schema(before.layout.schema, layout.schema)
        except ValueError as error:
            raise ValueError(f"rows cannot be appended to the data set at {self.path}: {error}") from None
        return replace(before.layout, schema=schema), before.files + files

    # ---- clearing away

    def sweep(self, retention_s: float = RETENTION_S, *, is_thorough: bool = True) -> list[str]:
        """Remove what replaced versions and killed jobs have left; returns the paths that are gone.

        Parameters
        ----------
        retention_s : float, default 3600
            Seconds for which the files of a replaced version stay.
        is_thorough : bool
            Also look for files that are old and of no version, whose job nobody knows.
        """
        # What is there is listed before the manifests are read: a file that is committed in between is in one of them.
        data = _names(self.directory(DATA))
        records = [name.partition(".") for name in _names(self.directory(JOBS))]
        replaced = self._replaced(retention_s)
        gone = {job for job, _, owner in records if _is_gone(JobOwner.from_name(owner))}
        removed = []
        for name in self._unneeded(data, replaced, gone, is_thorough) if replaced or gone or is_thorough else ():
            removed += _remove(os.path.join(self.path, DATA, name))
        for version in replaced:  # after its files, so that a sweep that is killed is done again
            removed += _remove(self._manifest_path(version))
        return removed + self._sweep_jobs(gone)

    def _replaced(self, retention_s: float) -> dict[int, set[str]]:
        """The versions that nobody reads any more, oldest first, and names of their files.

        Those behind the first one that was replaced a short time ago were replaced later, and are not read: what a
        commit costs does not grow with the versions that are there.
        """
        found = {}
        for version, later in itertools.pairwise(self.versions()):
            try:
                following = self._read(later)
                if self._now() - following.created_ms / 1000 < retention_s:
                    break
                manifest = self._read(version)
            except FileNotFoundError:
                continue  # somebody else sweeps, too
            if _is_replaced_by(manifest, following) or self._now() - manifest.created_ms / 1000 >= LEFTOVER_S:
                found[version] = {each.name for each in manifest.files}
            # else it came too late into a gap, and its commit is about to leave that
        return found

    def _unneeded(
        self, data: Sequence[str], replaced: Mapping[int, set[str]], gone: Collection[str], is_thorough: bool
    ) -> list[str]:
        """Files that only replaced versions have, or that killed jobs have left."""
        staying, last = self._staying(replaced)
        once_read = set().union(*replaced.values())
        found = []
        for name in data:
            job, base = job_of(name), name.partition(".")[0]
            if job is None or base in last:
                continue
            is_old = is_thorough and self._is_old(os.path.join(self.path, DATA, name))
            if is_old or base in once_read or job in gone:
                found.append(name)
        if found:  # seldom: a version that stays may have it, too
            kept = set()
            for version in staying:
                with contextlib.suppress(FileNotFoundError):  # others have cleared it away
                    kept |= self._names_in(version)
            found = [name for name in found if name.partition(".")[0] not in kept]
        return found

    def _staying(self, replaced: Collection[int]) -> tuple[list[int], set[str]]:
        """Versions that stay, and names of the files of the last one: what comes behind it has these or new ones."""
        for _ in range(_ATTEMPTS):
            staying = [version for version in self.versions() if version not in replaced]
            if not staying:
                return [], set()
            with contextlib.suppress(FileNotFoundError):  # others have cleared it away, as there is a later one
                return staying, self._names_in(staying[-1])
        raise TimeoutError(f"{self.path}: each version was gone before it could be read")

    def _names_in(self, version: int) -> set[str]:
        """The names of files that stand in a manifest, also in one that is damaged."""
        with open(self._manifest_path(version), "rb") as file:
            return names_of_files(file.read())

    def _is_old(self, path: str) -> bool:
        try:
            return self._now() - os.stat(path).st_mtime > LEFTOVER_S
        except FileNotFoundError:
            return False

    def _sweep_jobs(self, gone: set[str]) -> list[str]:
        removed = []
        for directory in (self.directory(JOBS), self.directory(MANIFESTS)):
            for name in _names(directory):
                found = _JOB_IN_NAME.match(name.lstrip("."))
                path = os.path.join(directory, name)
                if found and (found[0] in gone or self._is_old(path)):
                    removed += _remove(path)
        return removed

    def _remove_files(self, job: str, kept: set[str]) -> None:
        prefix = f"part-{job}-"
        is_found = True
        while is_found:  # again: a task that still runs may have renamed an index meanwhile
            is_found = False
            for name in _names(self.directory(DATA)):
                if name.startswith(prefix) and name.partition(".")[0] not in kept:
                    is_found = bool(_remove(os.path.join(self.path, DATA, name))) or is_found

    def _remove_records(self, job: str) -> None:
        for name in _names(self.directory(JOBS)):
            if name.startswith(f"{job}."):
                _remove(os.path.join(self.path, JOBS, name))


def _is_replaced_by(manifest: Manifest, following: Manifest) -> bool:
    """Whether a later version overwrites this one, or was built upon it."""
    if following.operation == "overwrite" or following.parent == manifest.job:
        return True
    return {each.name for each in manifest.files} <= {each.name for each in following.files}


def _names(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except FileNotFoundError:
        return []


def _is_gone(owner: JobOwner | None) -> bool:
    return owner is not None and owner.is_gone() is True


def _remove(path: str) -> list[str]:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return []
    return [path]


def _write_synced(path: str, data: bytes) -> None:
    with open(path, "wb", opener=private_opener) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _link(temporary: str, path: str) -> bool:
    """Give a file its name; False if that is taken."""
    try:
        os.link(temporary, path)
    except OSError as error:
        if _is_same_file(temporary, path):  # a file system over the network may do it and say otherwise
            return True
        if isinstance(error, FileExistsError):
            return False
        if error.errno in _NO_LINKS:
            raise OSError(
                error.errno,
                "the file system cannot link files, so a commit would not be atomic there; save to another one",
                path,
            ) from None
        raise
    return True


def _is_same_file(one: str, other: str) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False
