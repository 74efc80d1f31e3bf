"""Who may run a job, played out: all orders of the steps of job masters that take it from each other.

Each job master is a generator of the steps of the real protocol, done on a dict; any of them may rest at any place, for
as long as it takes, which is a crash as well. What happens outside of the files is marked, and the world objects when
a result would be lost or written twice.
"""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkbuf.checkpoints import ha_protocol as protocol
from flinkbuf.checkpoints.ha_protocol import LeaseLostError, Pointer


class Violation(AssertionError):
    pass


class World:
    """What users see of a job: what it began from, what was committed, what was deleted."""

    def __init__(self):
        self.files = {}
        self.begun = {}  # epoch -> the checkpoints that its work stands on
        self.committed = set()
        self.data = set()
        self.deleted = set()
        self.ended_in = 0

    def key(self):
        begun = tuple(sorted(self.begun.items()))
        state = frozenset(self.committed), frozenset(self.data), frozenset(self.deleted), self.ended_in
        return frozenset(self.files.items()), begun, state

    def do(self, step):
        if isinstance(step, protocol.ListNames):
            folder = step.folder + "/" if step.folder else ""
            return sorted(name for name in self.files if name.startswith(folder) and "/" not in name[len(folder) :])
        if isinstance(step, protocol.Create):
            is_new = step.name not in self.files
            self.files.setdefault(step.name, step.data)
            return is_new
        if isinstance(step, protocol.Write):
            self.files[step.name] = step.data
        elif isinstance(step, protocol.Read):
            return self.files.get(step.name)
        elif isinstance(step, protocol.Touch):
            return step.name in self.files
        elif isinstance(step, protocol.Delete):
            self.files.pop(step.name, None)
        else:
            name, *arguments = step
            getattr(self, name)(*arguments)
        return None

    # ---- marks

    def wrote(self, checkpoint):
        self.data.add(checkpoint)

    def began(self, epoch, lineage):
        """Sinks undo what is not in the lineage: nothing of that may have been committed, or be begun from later."""
        if any(later > epoch for later in self.begun):
            return  # it looked, rested, and goes on too late: none of its work will count
        if self.ended_in:
            raise Violation("a job runs again that has ended")
        if lineage and lineage[-1] in self.deleted:
            raise Violation("what it begins from was deleted")
        if not self.committed <= set(lineage):
            raise Violation("what was committed is done again")
        for older, stood_on in self.begun.items():
            if older < epoch and not {each for each in lineage if each[1] < older} <= set(stood_on):
                raise Violation("it begins from what a holder between has undone")
        self.begun[epoch] = tuple(lineage)

    def commits(self, epoch, checkpoint):
        for later, stood_on in self.begun.items():
            if later > epoch and checkpoint not in stood_on:
                raise Violation("what another holder has undone is committed")
        self.committed.add(checkpoint)

    def deletes(self, epoch, checkpoint):
        self.deleted.add(checkpoint)
        if any(later > epoch and stood_on[-1:] == (checkpoint,) for later, stood_on in self.begun.items()):
            raise Violation("what another holder began from is deleted")

    def ended(self, epoch):
        if any(later > epoch for later in self.begun):
            raise Violation("a job has ended, and another holder runs it")
        self.ended_in = epoch


def job_master(lineages, checkpoint_count, ends, gives_up=(), of=protocol):
    """One that finds a holder, thinks it gone (as it may at any time), takes over, and works."""
    names = yield protocol.ListNames()
    taken = yield from of.take_over(protocol.highest_epoch(names), b"")
    if taken is None:
        return
    epoch, previous = taken
    if previous.is_finished:
        return
    assert previous.job in (None, b"job")
    pointers = list(previous.pointers)
    latest = pointers[-1] if pointers else None
    lineage = lineages[(latest.checkpoint_id, latest.epoch)] if latest else ()
    skipped = 0
    try:
        yield from of.store_job(epoch, "id", b"job", {})
        yield "began", epoch, lineage
        for number in range(checkpoint_count):
            checkpoint = (1 + skipped + (lineage[-1][0] if lineage else 0), epoch)
            lineage = lineages[checkpoint] = (*lineage, checkpoint)
            yield "wrote", checkpoint
            pointer = Pointer(*checkpoint, f"chk-{checkpoint}")
            yield from of.add_checkpoint(pointer)
            if number in gives_up:  # it took too long: nobody was told of it
                yield from of.remove_checkpoint(epoch, pointer)
                yield "deletes", epoch, checkpoint
                lineage = lineage[:-1]
                skipped += 1
                continue
            pointers.append(pointer)
            yield "commits", epoch, checkpoint
            for old in pointers[:-1]:
                yield from of.remove_checkpoint(epoch, old)
                yield "deletes", epoch, (old.checkpoint_id, old.epoch)
            del pointers[:-1]
            if number % 2:
                yield from of.renew(epoch)
        if ends:
            yield from of.finish(epoch, "FINISHED")
            yield "ended", epoch
            for old in pointers:
                yield "deletes", epoch, (old.checkpoint_id, old.epoch)
    except LeaseLostError:
        return


class Play:
    """Job masters in one world; each turn lets one of them do one step."""

    def __init__(self, masters):
        self.world = World()
        self.lineages = {}
        self.masters = [make(self.lineages) for make in masters]
        self.found = [None] * len(masters)
        self.heard = [()] * len(masters)  # all that each was answered: it says where it stands
        self.next = [next(master) for master in self.masters]

    def turn(self, index):
        found = self.world.do(self.next[index])
        self.heard[index] = hash((self.heard[index], tuple(found) if isinstance(found, list) else found))
        try:
            self.next[index] = self.masters[index].send(found)
        except StopIteration:
            self.next[index] = None

    def awake(self):
        return [index for index, step in enumerate(self.next) if step is not None]

    def key(self):
        return self.world.key(), tuple(self.heard), tuple(step is None for step in self.next)


def play_all(masters, switches=None, limit=300_000):
    """Every order; orders that lead to the same are gone on from once. Return how many places there are.

    `switches`: only those in which so often another one goes on before the one at work rests for good.
    """
    known, schedules = set(), [((), switches)]
    while schedules:
        schedule, left = schedules.pop()
        play = Play(masters)
        for index in schedule:
            play.turn(index)
        while True:  # the one at work goes on; we come back for the others
            awake = play.awake()
            current = schedule[-1] if schedule and schedule[-1] in awake else None
            key = (play.key(), left, current)
            if key in known or not awake:
                break
            known.add(key)
            if len(known) == limit:
                raise ValueError("more places than there is time for")
            goes_on = awake[0] if current is None else current
            if current is None or left != 0:
                after = left if left is None or current is None else left - 1
                schedules.extend(((*schedule, index), after) for index in awake if index != goes_on)
            play.turn(goes_on)
            schedule = (*schedule, goes_on)
    return len(known)


def master(checkpoint_count=1, ends=False, gives_up=(), of=protocol):
    return lambda lineages: job_master(lineages, checkpoint_count, ends, gives_up, of)


@pytest.mark.parametrize("ends", [False, True])
def test_two_job_masters_in_every_order(ends):
    assert play_all([master(1, ends), master(1, ends)]) > 5000


def test_two_job_masters_that_come_between_each_other_three_times():
    assert play_all([master(3, True), master(2, True)], switches=3) > 5000


def test_a_checkpoint_that_is_given_up_late_in_every_order():
    assert play_all([master(1, gives_up={0}), master(1)]) > 2000


@pytest.mark.parametrize("ends", [False, True])
def test_three_job_masters_that_come_between_each_other(ends):
    assert play_all([master(1, ends), master(1, ends), master(0, ends)], switches=1) > 5000


def run_at_random(masters, draw, steps=400):
    play = Play(masters)
    for _ in range(steps):
        awake = play.awake()
        if not awake:
            return play
        play.turn(draw(awake))
    return play


def bursts(chance):
    """Whoever is awake goes on for a while: orders in which each is alone more often than not."""
    current = []

    def draw(awake):
        if not current or current[0] not in awake or chance.random() < 0.15:
            current[:] = [chance.choice(awake)]
        return current[0]

    return draw


SCRIPTS = st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.sets(st.integers(0, 2))), min_size=2, max_size=4)


@settings(max_examples=300)
@given(st.integers(0, 1 << 60), SCRIPTS)
def test_any_job_masters_in_any_order(seed, scripts):
    run_at_random([master(*script) for script in scripts], bursts(random.Random(seed)))


def test_a_job_that_ends_leaves_its_result_alone():
    play = run_at_random([master(3, True)], lambda awake: awake[0])
    assert sorted(play.world.files) == ["base-1", "lease-1", "result-1"]
    assert play.world.ended_in == 1


# ---- what the play would find


class Planted:
    """The protocol with one mistake."""

    def __init__(self, **wrong):
        self.__dict__.update(wrong)

    def __getattr__(self, name):
        return getattr(protocol, name)


def looks_before_it_writes(pointer):
    yield from protocol.look(pointer.epoch)
    yield protocol.Write(pointer.name, protocol.seal(pointer.path.encode()))


def never_looks(pointer):
    yield protocol.Write(pointer.name, protocol.seal(pointer.path.encode()))


def ends_without_a_look(epoch, result):
    yield protocol.Write(f"result-{epoch}", protocol.seal(result.encode()))


def deletes_without_a_look(epoch, pointer):
    yield protocol.Delete(pointer.name)


def reads_before_its_lease(seen, holder):
    previous = yield from protocol.read_previous(seen + 1)
    if not (yield protocol.Create(f"lease-{seen + 1}", holder)):
        return None
    yield protocol.Write(f"base-{seen + 1}", protocol._base(previous))
    return seen + 1, previous


def believes_all_epochs(seen, holder):
    """No base: whatever any epoch ever wrote counts."""
    taken = yield from protocol.take_over(seen, holder)
    if taken is None:
        return None
    epoch, previous = taken
    pointers = []
    for name in (yield protocol.ListNames(protocol.POINTERS)):
        number, _, of = name.partition("/")[2].partition("-")
        pointers.append(Pointer(int(number), int(of), ""))
    pointers.sort(key=lambda each: (each.checkpoint_id, each.epoch))
    return epoch, protocol.HaPrevious(previous.job_id, previous.job, 0, tuple(pointers))


@pytest.mark.parametrize(
    "wrong, scripts, switches",
    [
        ({"add_checkpoint": looks_before_it_writes}, [(2, False), (2, False)], 1),
        ({"add_checkpoint": never_looks}, [(2, False), (2, False)], 1),
        ({"finish": ends_without_a_look}, [(1, True), (1, True)], 1),
        ({"remove_checkpoint": deletes_without_a_look}, [(1, False, {0}), (1, False)], 1),
        ({"take_over": reads_before_its_lease}, [(2, False), (2, False)], 2),
        ({"take_over": believes_all_epochs}, [(1, False), (0, False), (0, False)], 1),
    ],
    ids=lambda each: next(iter(each.values())).__name__ if isinstance(each, dict) else "",
)
def test_a_mistake_in_the_protocol_would_be_found(wrong, scripts, switches):
    with pytest.raises(Violation):
        play_all([master(*script, of=Planted(**wrong)) for script in scripts], switches=switches)
