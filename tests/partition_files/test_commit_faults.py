"""Commits of a data set while operations on files fail, come too late, or are the last ones of their process.

One job appends or overwrites, and something happens at one of its operations on files, at each of them in turn. Then
readers see the rows before the job or those behind it, what others have committed stays, and a job that its driver
takes for failed is not there.
"""

import builtins
import contextlib
import errno
import os

import pytest
from partition_files.test_data_set import ALIVE, LAYOUT, Clock, texts, write, write_part

from flinkbuf.partition_files.data_set import PartitionDataSet, new_job

OPERATIONS = ("open", "makedirs", "replace", "link", "unlink", "fsync", "listdir", "stat", "close")
ORIGINALS = {name: getattr(os, name) for name in OPERATIONS} | {"open()": builtins.open}


class Crash(BaseException):
    """The process ends here: what Python does behind an exception is of no effect, as no operation works any more."""


class Operations:
    """Counts operations on files and lets something happen at one of them.

    Parameters
    ----------
    step : int
        The number of the operation; -1: at none of them.
    before, after : callable, optional
        Called with its name just before it, or just behind it.
    """

    def __init__(self, step=-1, before=None, after=None):
        self.step, self.count, self.name = step, 0, None
        self._before, self._after = before, after

    def install(self, monkeypatch):
        for name in OPERATIONS:
            monkeypatch.setattr(os, name, self._counted(name, getattr(os, name)))
        monkeypatch.setattr(builtins, "open", self._counted("builtins.open", builtins.open))

    def _counted(self, name, function):
        def call(*arguments, **options):
            number, self.count = self.count, self.count + 1
            if number == self.step:
                self.name = name
                if self._before is not None:
                    self._before(name)
            result = function(*arguments, **options)
            if number == self.step and self._after is not None:
                try:
                    self._after(name)
                except OSError:
                    close_quietly(name, result)
                    raise
            return result

        return call

    @property
    def has_happened(self):
        return self.name is not None


def close_quietly(name, result):
    """What an operation has opened that then is told to have failed is in no caller's hands."""
    if name == "open":
        ORIGINALS["close"](result)
    elif name == "builtins.open":
        result.close()


def fail(name):
    raise OSError(errno.EIO, f"the disk has failed in {name}")


class SparkDriver:
    """What Spark does with a writing job: its tasks, its commit, and abort where commit fails."""

    def __init__(self, data_set, operation, retention_s=0.0):
        self.data_set, self.operation, self.retention_s = data_set, operation, retention_s
        self.job = new_job()
        self.is_committed = False
        self.file = write_part(data_set, self.job, "new")

    def run(self):
        try:
            self.commit()
        except Exception:
            self.abort()

    def commit(self):
        self.data_set.commit(self.job, LAYOUT, [self.file], self.operation, retention_s=self.retention_s)
        self.is_committed = True

    def abort(self):
        self.data_set.abort(self.job, ALIVE)


def each_step(tmp_path, kind, run):
    """Do `run(data_set, step)` with data sets of their own, for each step until there are no more of them."""
    for step in range(1000):
        data_set = PartitionDataSet(str(tmp_path / f"{kind}-{step}"), Clock())
        write(data_set, "old")
        if not run(data_set, step):
            assert step > 20, "the operations were not counted"
            return
    raise AssertionError("a commit has no end of operations")


def rows_of(operation, before=("old",)):
    return [*before, "new"] if operation == "append" else ["new"]


def check_whole(data_set, outcomes):
    """Readers see one of the outcomes; the next commit finds nothing in its way, and nothing is left behind it."""
    found = texts(data_set)
    assert sorted(found) in [sorted(each) for each in outcomes]
    write(data_set, "last", "append", retention_s=0)
    assert sorted(texts(data_set)) == sorted([*found, "last"])


@pytest.mark.parametrize("operation", ["append", "overwrite"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_an_operation_that_fails_leaves_the_rows_before_or_those_behind(tmp_path, monkeypatch, operation, moment):
    """Whether it fails with or without effect; and its driver knows which rows there are."""

    def run(data_set, step):
        operations = Operations(step, **{moment: fail})
        with monkeypatch.context() as patch:
            driver = SparkDriver(data_set, operation)
            operations.install(patch)
            driver.run()
        check_whole(data_set, [rows_of(operation) if driver.is_committed else ["old"]])
        return operations.has_happened

    each_step(tmp_path, f"{operation}-{moment}", run)


@pytest.mark.parametrize("operation", ["append", "overwrite"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_all_operations_failing_from_one_on_leave_the_rows_before_or_those_behind(
    tmp_path, monkeypatch, operation, moment
):
    """Abort fails, too. What is told to have failed may then be there, as the file system could not say."""

    def run(data_set, step):
        operations = BrokenFrom(step, moment)
        with monkeypatch.context() as patch:
            driver = SparkDriver(data_set, operation)
            operations.install(patch)
            with contextlib.suppress(OSError):
                driver.run()
        after = rows_of(operation)
        check_whole(data_set, [after] if driver.is_committed else [["old"], after])
        return operations.has_happened

    each_step(tmp_path, f"{operation}-{moment}", run)


class BrokenFrom(Operations):
    """All operations fail from one on, the first of them before or behind its effect."""

    def __init__(self, step, moment):
        super().__init__(step)
        self.moment = moment

    def _counted(self, name, function):
        def call(*arguments, **options):
            number, self.count = self.count, self.count + 1
            if number == self.step and self.moment == "after":
                close_quietly(name, function(*arguments, **options))
            if number >= self.step:
                self.name = name
                if name != "close":
                    fail(name)
            return function(*arguments, **options)

        return call


@pytest.mark.parametrize("operation", ["append", "overwrite"])
def test_a_job_that_spark_aborts_because_its_committing_process_died_is_there_whole_or_not_at_all(
    tmp_path, monkeypatch, operation
):
    """Spark's driver lives on: it calls abort, in another process, whatever the one that died had done."""

    def run(data_set, step):
        operations = CrashFrom(step)
        with monkeypatch.context() as patch:
            driver = SparkDriver(data_set, operation)
            operations.install(patch)
            with contextlib.suppress(Crash):
                driver.commit()
        if operations.has_happened:
            driver.abort()
        check_whole(data_set, [["old"], rows_of(operation)])
        return operations.has_happened

    each_step(tmp_path, operation, run)


class CrashFrom(Operations):
    """The process ends before an operation: neither that one nor any later one is done."""

    def _counted(self, name, function):
        def call(*arguments, **options):
            number, self.count = self.count, self.count + 1
            if number >= self.step >= 0 and name != "close":
                self.name = name
                raise Crash
            return function(*arguments, **options)

        return call


@pytest.mark.parametrize("operation", ["append", "overwrite"])
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("others", [["append"], ["append", "append"], ["overwrite", "append"], ["overwrite"]])
def test_what_others_commit_while_an_operation_hangs_is_not_lost_nor_what_hung(
    tmp_path, monkeypatch, operation, moment, others
):
    """They clear away at once what they have replaced."""

    def run(data_set, step):
        def commit_others(name):
            with monkeypatch.context() as inner:
                for each in OPERATIONS:
                    inner.setattr(os, each, ORIGINALS[each])
                inner.setattr(builtins, "open", ORIGINALS["open()"])
                for number, each in enumerate(others):
                    write(data_set, f"other {number}", each, retention_s=0)

        operations = Operations(step, **{moment: commit_others})
        with monkeypatch.context() as patch:
            driver = SparkDriver(data_set, operation)
            operations.install(patch)
            driver.commit()
        if operations.has_happened:
            check_whole(data_set, serial_outcomes(operation, others))
        return operations.has_happened

    each_step(tmp_path, "-".join((operation, moment, *others)), run)


def serial_outcomes(operation, others):
    """The rows when the job is committed before, between or behind the others."""
    outcomes = []
    for place in range(len(others) + 1):
        commits = [(each, f"other {number}") for number, each in enumerate(others)]
        commits.insert(place, (operation, "new"))
        found = ["old"]
        for kind, text in commits:
            found = [*found, text] if kind == "append" else [text]
        outcomes.append(found)
    return outcomes


@pytest.mark.parametrize("operation", ["append", "overwrite"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_commit_that_goes_on_after_its_abort_is_there_whole_or_not_at_all(tmp_path, monkeypatch, operation, moment):
    """Spark aborts a job when it no longer hears of the commit, which may only have been slow."""

    def run(data_set, step):
        def abort(name):
            with monkeypatch.context() as inner:
                for each in OPERATIONS:
                    inner.setattr(os, each, ORIGINALS[each])
                inner.setattr(builtins, "open", ORIGINALS["open()"])
                driver.abort()

        operations = Operations(step, **{moment: abort})
        with monkeypatch.context() as patch:
            driver = SparkDriver(data_set, operation)
            operations.install(patch)
            with contextlib.suppress(OSError):
                driver.commit()
        check_whole(data_set, [rows_of(operation) if driver.is_committed else ["old"]])
        return operations.has_happened

    each_step(tmp_path, f"{operation}-{moment}", run)
