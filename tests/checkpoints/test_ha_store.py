"""The directory of a highly available job: leases that are renewed, given up and taken over by real processes."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from support.waiting import wait_until

from flinkbuf.checkpoints import ha_directory, ha_store
from flinkbuf.checkpoints import ha_protocol as protocol
from flinkbuf.checkpoints.ha_protocol import LeaseLostError, Pointer
from flinkbuf.checkpoints.ha_store import HaStore
from flinkbuf.errors import CorruptDataError
from flinkbuf.processes import process_space

LONG_MS = 3_600_000
JOB_ID = "ab" * 16


@pytest.fixture
def store(tmp_path):
    return HaStore(str(tmp_path), "default", "my job: ü/1")


def taken(store, timeout_ms=0):
    lease = store.try_acquire(timeout_ms)
    assert lease is not None
    return lease


def test_the_first_holder_finds_nothing(store):
    lease = taken(store)
    assert lease.epoch == 1
    assert lease.previous.job is lease.previous.checkpoint is lease.previous.job_id is None
    assert (lease.previous.checkpoint_id, lease.previous.is_finished, lease.checkpoints()) == (0, False, ())


def test_a_job_is_taken_over_with_all_that_counts(store):
    first = taken(store)
    first.store_job(JOB_ID, b"\x00job" * 1000)
    for number in (1, 2, 3):
        first.add_checkpoint(number, f"/c/chk-{number}/_metadata")
    first.remove_checkpoint(1)
    second = taken(store)
    assert (second.epoch, second.previous.job_id, second.previous.job) == (2, JOB_ID, b"\x00job" * 1000)
    assert (second.previous.checkpoint_id, second.previous.checkpoint) == (3, "/c/chk-3/_metadata")
    assert second.checkpoints() == ((2, "/c/chk-2/_metadata"), (3, "/c/chk-3/_metadata"))
    second.add_checkpoint(4, "/c/chk-4-2/_metadata")
    second.remove_checkpoint(2)
    third = taken(store)
    assert (third.previous.job_id, third.checkpoints()) == (
        JOB_ID,
        ((3, "/c/chk-3/_metadata"), (4, "/c/chk-4-2/_metadata")),
    )


class Outage:
    """A directory whose steps fail, each as often as it is told to; real files all the same."""

    def __init__(self, monkeypatch):
        self.calls = []
        self.left = {}  # name of a function of ha_directory -> how often it fails; None: until it is mended
        self.after = set()  # of these: they have done their work when they fail
        self.has_failed = threading.Event()
        monkeypatch.setattr(ha_store, "PAUSE_S", 0.005)
        monkeypatch.setattr(ha_directory.HaDirectory, "_names", self.of(ha_directory.HaDirectory._names))
        for each in (ha_directory._replace, ha_directory._read, ha_directory._touch):
            monkeypatch.setattr(ha_directory, each.__name__, self.of(each))

    def of(self, function):
        name = function.__name__

        def call(*arguments):
            self.calls.append(name)
            fails = self.left.get(name, 0)
            if fails == 0:
                return function(*arguments)
            if fails is not None:
                self.left[name] = fails - 1
            if name in self.after:
                function(*arguments)
            self.has_failed.set()
            raise OSError(5, "Input/output error")

        return call


@pytest.fixture
def outage(monkeypatch):
    return Outage(monkeypatch)


@pytest.fixture
def lease(store):
    lease = taken(store)
    lease.store_job(JOB_ID, b"job")
    lease.add_checkpoint(1, "/c/chk-1/_metadata")
    return lease


@pytest.mark.parametrize(
    "fails, after",
    [
        ({"_names": 1}, ()),
        ({"_names": 3}, ()),
        ({"_replace": 1}, {"_replace"}),
        ({"_replace": 2}, {"_replace"}),
        ({"_replace": 1, "_read": 4}, {"_replace"}),
        ({"_replace": 1, "_names": 2, "_read": 1}, {"_replace"}),
    ],
)
def test_a_checkpoint_that_was_written_before_the_directory_failed_counts_for_all(store, lease, outage, fails, after):
    outage.left, outage.after = fails, after
    lease.add_checkpoint(2, "/c/chk-2/_metadata")
    assert [number for number, _ in lease.checkpoints()] == [1, 2]
    assert taken(store).previous.checkpoint == "/c/chk-2/_metadata"


@pytest.mark.parametrize("fails", [{"_replace": 1}, {"_replace": 1, "_read": 3}, {"_replace": 1, "_names": 3}])
def test_a_checkpoint_that_was_not_written_counts_for_none(store, lease, outage, fails):
    outage.left = fails
    with pytest.raises(OSError, match="Input/output"):
        lease.add_checkpoint(2, "/c/chk-2/_metadata")
    lease.remove_checkpoint(2)
    assert [number for number, _ in lease.checkpoints()] == [1]
    assert taken(store).previous.checkpoint == "/c/chk-1/_metadata"


def test_a_full_disk_is_told_at_once(store, lease, monkeypatch):
    def full(path, data):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(ha_directory, "_create", full)
        with pytest.raises(OSError, match="No space left"):
            lease.add_checkpoint(2, "/c/chk-2/_metadata")
    lease.add_checkpoint(3, "/c/chk-3/_metadata")
    assert taken(store).checkpoints() == ((1, "/c/chk-1/_metadata"), (3, "/c/chk-3/_metadata"))


def test_no_newer_checkpoint_counts_before_it_is_known_whether_an_older_one_does(lease, outage, caplog):
    done = []

    def add(number):
        lease.add_checkpoint(number, f"/c/chk-{number}/_metadata")
        done.append(number)

    outage.left = {"_names": None}
    older = threading.Thread(target=add, args=(2,))
    older.start()
    assert outage.has_failed.wait(30)
    newer = threading.Thread(target=add, args=(3,))
    newer.start()
    outage.has_failed.clear()
    assert outage.has_failed.wait(30), "it is tried again and again"
    assert done == []
    outage.left = {}
    for thread in (older, newer):
        thread.join(30)
    assert sorted(done) == [2, 3]
    assert [number for number, _ in lease.checkpoints()] == [1, 2, 3]
    assert "whether checkpoint 2 counts is not known: [Errno 5] Input/output error" in caplog.text


def test_a_job_that_is_given_back_waits_for_no_answer(store, lease, outage):
    raised = []

    def add():
        with pytest.raises(LeaseLostError, match="given the job back") as caught:
            lease.add_checkpoint(2, "/c/chk-2/_metadata")
        raised.append(caught.value)

    outage.left = {"_names": None}
    thread = threading.Thread(target=add)
    thread.start()
    assert outage.has_failed.wait(30)
    lease.release()
    thread.join(30)
    assert len(raised) == 1
    outage.left = {}
    assert store.try_acquire(LONG_MS).epoch == 2


def test_a_removal_that_failed_is_written_down_before_files_go(store, lease, outage):
    lease.add_checkpoint(2, "/c/chk-2/_metadata")
    outage.left = {"_replace": 1}
    with pytest.raises(OSError, match="Input/output"):
        lease.remove_checkpoint(1)
    assert store.peek().pointers[0].checkpoint_id == 1
    lease.remove_checkpoint(1)
    assert [each.checkpoint_id for each in store.peek().pointers] == [2]


def test_what_an_earlier_holder_still_writes_is_not_read(store):
    """It had looked, and stood still; the one after it is gone, too."""
    first = taken(store)
    first.store_job(JOB_ID, b"job")
    first.add_checkpoint(1, "/c/chk-1/_metadata")
    taken(store)
    for state in (first._state.without_checkpoint(1), first._state.with_checkpoint(Pointer(2, 1, "/c/chk-2"))):
        first._directory.do(protocol.Write("state-1", state.to_bytes()))
        assert taken(store).previous.checkpoint == "/c/chk-1/_metadata"


def test_whoever_lost_the_job_removes_no_pointer_that_others_go_on_from(store):
    first = taken(store)
    first.store_job(JOB_ID, b"job")
    first.add_checkpoint(1, "/c/chk-1/_metadata")
    assert taken(store).previous.checkpoint_id == 1
    with pytest.raises(LeaseLostError):
        first.remove_checkpoint(1)
    assert taken(store).previous.checkpoint_id == 1


def test_whoever_lost_the_job_hears_of_it_whatever_it_does(store):
    for deed in (
        lambda lease: lease.add_checkpoint(9, "/c/chk-9/_metadata"),
        lambda lease: lease.store_job(JOB_ID, b"mine"),
        lambda lease: lease.finish("FINISHED"),
        lambda lease: lease.renew(),
    ):
        first = taken(store)
        second = taken(store)
        with pytest.raises(LeaseLostError, match=f"another job master has taken the job over .epoch {second.epoch};"):
            deed(first)
        for again in (lambda lease: lease.remove_checkpoint(1), lambda lease: lease.renew(), deed):
            with pytest.raises(LeaseLostError):
                again(first)
        first.release()
        second.renew()
        assert (second.previous.checkpoint, store.peek().checkpoint, store.peek().is_finished) == (None, None, False)
        assert not any(name.startswith("released") for name in os.listdir(store.path))


def test_a_lease_that_is_renewed_is_not_taken(store, monkeypatch):
    lease = taken(store)
    assert store.try_acquire(LONG_MS) is None
    path = os.path.join(store.path, "lease-1")
    old = time.time() - 100
    monkeypatch.setattr(ha_directory, "is_gone", lambda holder: False)
    os.utime(path, (old, old))
    assert store.try_acquire(200_000) is None
    lease.renew()
    assert store.try_acquire(50_000) is None
    os.utime(path, (old, old))
    assert store.try_acquire(50_000).epoch == 2


def test_a_lease_knows_since_when_it_was_not_renewed(store, outage):
    """By when each renewal was begun: others count from when it took effect, which is later."""
    before_ms = ha_store.boot_ms()
    lease = taken(store)
    assert before_ms <= lease.renewed_ms <= ha_store.boot_ms()
    now_ms = [lease.renewed_ms + 5_000]

    def tick():
        now_ms[0] += 100
        return now_ms[0] - 100

    lease.clock_ms = tick
    lease.renew()
    assert lease.renewed_ms == now_ms[0] - 100
    renewed_ms = lease.renewed_ms
    outage.left = {"_touch": 1}
    with pytest.raises(OSError):
        lease.renew()
    outage.left = {"_names": 1}
    with pytest.raises(OSError):
        lease.renew()
    assert lease.renewed_ms == renewed_ms


def test_a_lease_that_was_given_up_is_lost_and_waits_for_no_answer(store, lease, outage):
    outage.left = {"_replace": None, "_read": None}
    refused = []

    def add():
        with pytest.raises(LeaseLostError):
            lease.add_checkpoint(2, "/c/chk-2/_metadata")
        refused.append(True)

    adding = threading.Thread(target=add)
    adding.start()
    assert outage.has_failed.wait(30)
    lease.give_up("the directory fails")
    adding.join(30)
    assert refused
    outage.left = {}
    for call in (lease.renew, lambda: lease.add_checkpoint(3, "/c/chk-3/_metadata"), lambda: lease.finish("FINISHED")):
        with pytest.raises(LeaseLostError, match="the directory fails"):
            call()
    lease.release()
    assert store.peek().checkpoint_id == 1 and not os.path.exists(os.path.join(store.path, "released-1"))


def test_a_lease_that_was_let_go_is_taken_at_once(store):
    first = taken(store)
    first.store_job(JOB_ID, b"job")
    first.release()
    second = store.try_acquire(LONG_MS)
    assert (second.epoch, second.previous.job) == (2, b"job")
    assert store.try_acquire(LONG_MS) is None


def test_a_finished_job_is_not_run_again_but_may_be_begun_anew(store):
    first = taken(store)
    first.store_job(JOB_ID, b"job")
    first.add_checkpoint(1, "/c/chk-1/_metadata")
    first.finish("CANCELED")
    assert sorted(os.listdir(store.path)) == ["lease-1", "result-1", "state-1"]
    assert HaStore.unfinished(os.path.dirname(os.path.dirname(store.path))).stores == []
    second = store.try_acquire(LONG_MS)
    assert (second.previous.is_finished, second.previous.result, second.previous.job) == (True, "CANCELED", None)
    assert second.checkpoints() == ()
    second.release()
    third = taken(store)
    assert (third.previous.is_finished, third.previous.result) == (True, "CANCELED")
    third.store_job("cd" * 16, b"another")
    fourth = taken(store)
    assert (fourth.previous.is_finished, fourth.previous.job_id) == (False, "cd" * 16)


def test_unfinished_jobs_are_found_by_their_names(tmp_path):
    for cluster, job in (("one", "a"), ("one", "b/ä"), ("two", "a"), ("two", "over"), ("two", "never stored")):
        lease = taken(HaStore(str(tmp_path), cluster, job))
        if job != "never stored":
            lease.store_job(JOB_ID, b"job")
        if job == "over":
            lease.finish("FINISHED")
    (tmp_path / "file").write_text("")
    found = [(each.cluster_id, each.job_name) for each in HaStore.unfinished(str(tmp_path)).stores]
    assert sorted(found) == [("one", "a"), ("one", "b/ä"), ("two", "a")]
    assert [each.job_name for each in HaStore.unfinished(str(tmp_path), "two").stores] == ["a"]
    with pytest.raises(FileNotFoundError):
        HaStore.unfinished(str(tmp_path / "nothing"))


@pytest.mark.parametrize("name", ["job-1", "state-1"])
def test_a_damaged_record_hides_no_other_job(tmp_path, name):
    for job in ("a", "b", "c"):
        taken(HaStore(str(tmp_path), "one", job)).store_job(JOB_ID, b"job")
    damaged = HaStore(str(tmp_path), "one", "b").path
    with open(os.path.join(damaged, name), "r+b") as file:
        file.truncate(9)
    found = HaStore.unfinished(str(tmp_path))
    assert [each.job_name for each in found.stores] == ["a", "c"]
    assert list(found.unreadable) == [damaged]
    assert f"{os.path.join(damaged, name)} is damaged" in str(found.unreadable[damaged])


@pytest.mark.parametrize("name", ["job-1", "state-1"])
def test_what_was_damaged_is_refused_by_its_name(store, name):
    lease = taken(store)
    lease.store_job(JOB_ID, b"job")
    lease.add_checkpoint(1, "/c/chk-1/_metadata")
    path = os.path.join(store.path, name)
    with open(path, "rb") as file:
        good = file.read()
    for bad in [good[:size] for size in range(len(good))] + [
        good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :] for place in range(len(good))
    ]:
        with open(path, "wb") as file:
            file.write(bad)
        with pytest.raises(CorruptDataError, match="is damaged at byte") as caught:
            store.peek()
        assert caught.value.path == path


def test_object_stores_are_refused():
    with pytest.raises(ValueError, match="must be a directory on this machine, mounted, or on HDFS"):
        HaStore("s3://bucket/ha", "default", "job")


def test_names_that_look_alike_have_directories_of_their_own(tmp_path):
    paths = {
        HaStore(str(tmp_path), "c", name).path for name in ("a/b", "a-b", "a b", "a:b", "x" * 300, "x" * 299, "..")
    }
    assert len(paths) == 7
    assert all(os.path.dirname(os.path.dirname(path)) == str(tmp_path) for path in paths)


# ---- other processes

HOLD = """
import sys
from flinkbuf.checkpoints.ha_store import HaStore
lease = HaStore(sys.argv[1], "default", "job").try_acquire(0)
lease.store_job("ab" * 16, b"job")
print(lease.epoch, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout.readline() == b"1\n"
    yield process
    process.kill()
    process.communicate()


def test_a_process_of_this_machine_that_was_killed_is_not_waited_for(tmp_path, holder):
    store = HaStore(str(tmp_path), "default", "job")
    assert store.try_acquire(LONG_MS) is None
    assert store.holder() == f"process {holder.pid} on {ha_directory.socket.gethostname()}"
    holder.kill()
    holder.wait()
    lease = store.try_acquire(LONG_MS)
    assert (lease.epoch, lease.previous.job) == (2, b"job")


def test_a_process_that_is_stopped_is_given_up_after_the_timeout_and_loses(tmp_path, holder):
    store = HaStore(str(tmp_path), "default", "job")
    holder.send_signal(signal.SIGSTOP)
    assert store.try_acquire(LONG_MS) is None
    assert store.acquire(300).epoch == 2


def test_a_waiting_one_takes_over_when_the_holder_is_gone(tmp_path, holder):
    store = HaStore(str(tmp_path), "default", "job")
    told, leases = [], []
    thread = threading.Thread(target=lambda: leases.append(store.acquire(LONG_MS, waiting=told.append)))
    thread.start()
    assert wait_until(lambda: told) == [f"job 'job' is run by {store.holder()}: waiting until it ends or is gone"]
    holder.kill()
    holder.wait()
    thread.join(20)
    assert leases[0].epoch == 2


def test_a_directory_that_fails_while_one_waits_is_asked_again(store, lease, outage, caplog):
    told, leases = [], []
    thread = threading.Thread(target=lambda: leases.append(store.acquire(400, waiting=told.append)))
    thread.start()
    assert wait_until(lambda: told)
    outage.has_failed.clear()
    outage.left = {"_names": 3, "_read": 1}
    assert wait_until(lambda: not any(outage.left.values()))
    lease.release()
    thread.join(20)
    assert leases[0].epoch == 2 and leases[0].previous.checkpoint_id == 1
    assert caplog.text.count("waits to be taken over") == 1
    outage.left = {"_names": 1}
    with pytest.raises(OSError):  # from the beginning it is the user's mistake
        store.acquire(400)


def test_whoever_waits_can_be_called_off(tmp_path, holder):
    assert HaStore(str(tmp_path), "default", "job").acquire(LONG_MS, is_cancelled=lambda: True) is None


@pytest.mark.parametrize(
    "holder_text, is_gone",
    [
        (b"", False),
        (b"[]", False),
        (b"{", False),
        (json.dumps({"host": "h", "pid": 1, "machine": "another", "started": ""}).encode(), False),
        (json.dumps({"host": "h", "pid": 1, "machine": process_space(), "started": "never"}).encode(), True),
        (ha_directory.this_process(), False),
    ],
)
def test_only_what_is_known_to_be_gone_is_given_up_at_once(holder_text, is_gone):
    assert ha_directory.is_gone(holder_text) is is_gone


def test_one_of_many_takes_a_job_over(store):
    """Threads in place of processes: they see the same files."""
    taken(store).release()
    start, leases = threading.Barrier(8), []

    def take():
        start.wait()
        leases.append(store.try_acquire(LONG_MS))

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [lease.epoch for lease in leases if lease] == [2]
