"""Who may run a job, played out: all orders of the steps of job masters that take it from each other.

Each job master is a generator of the steps of the real protocol, done on a dict; any of them may rest at any place, for
as long as it takes, which is a crash and a hanging step as well. A step may be refused, or done without an answer. What
happens outside of the files is marked, and the world objects when a result would be lost or written twice.
"""

import contextlib
import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkbuf.checkpoints import ha_protocol as protocol
from flinkbuf.checkpoints.ha_protocol import LeaseLostError, Pointer


class Violation(AssertionError):
    pass


REFUSED, UNANSWERED = "refused", "unanswered"  # a step that fails: it was not done, or it was


class World:
    """What users see of a job: what it began from, what was committed, undone and deleted."""

    def __init__(self):
        self.files = {}
        self.begun = {}  # epoch -> the checkpoints that its work stands on
        self.written = set()
        self.committed = set()
        self.undone = set()
        self.deleted = set()
        self.ended_in = 0

    def key(self):
        begun = tuple(sorted(self.begun.items()))
        state = tuple(map(frozenset, (self.written, self.committed, self.undone, self.deleted)))
        return frozenset(self.files.items()), begun, state, self.ended_in

    def do(self, step):
        if isinstance(step, protocol.ListNames):
            return sorted(self.files)
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
        elif not isinstance(step, protocol.Pause):
            name, *arguments = step
            getattr(self, name)(*arguments)
        return None

    # ---- marks

    def wrote(self, checkpoint):
        self.written.add(checkpoint)

    def began(self, epoch, lineage):
        """Tasks begin, at first or again: sinks commit what belongs to the lineage, and undo what else was written."""
        self.undone |= {each for each in self.written if each[1] <= epoch} - set(lineage)
        for each in lineage:
            self.commits(epoch, each)
        for later, stood_on in self.begun.items():
            if later > epoch and self.undone & set(stood_on):
                raise Violation("what another holder stands on is undone")
        if any(later > epoch for later in self.begun):
            return  # it looked, rested, and goes on too late: none of its work will count
        if self.ended_in:
            raise Violation("a job runs again that has ended")
        if lineage and lineage[-1] in self.deleted:
            raise Violation("what it begins from was deleted")
        if not self.committed <= set(lineage):
            raise Violation("what was committed is done again")
        self.begun[epoch] = tuple(lineage)

    def commits(self, epoch, checkpoint):
        if checkpoint in self.undone:
            raise Violation("what was undone counts: its records are lost")
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


def job_master(lineages, checkpoint_count, ends, of=protocol):
    """One that finds a holder, thinks it gone (as it may at any time), takes over, and works.

    Each checkpoint that comes to nothing is the failure of a task, too: the job begins again from the one before.
    """
    names = yield protocol.ListNames()
    taken = yield from of.take_over(protocol.highest_epoch(names), b"")
    if taken is None:
        return
    epoch, previous = taken
    if previous.is_finished:
        return
    assert previous.job in (None, b"job")
    state = previous.state
    latest = state.pointers[-1] if state.pointers else None
    lineage = lineages[(latest.checkpoint_id, latest.epoch)] if latest else ()
    yield from of.store_job(epoch, {"job_id": "id", "program": "p"}, b"job")
    yield "began", epoch, lineage
    for number in range(
        latest.checkpoint_id if latest else 0, (latest.checkpoint_id if latest else 0) + checkpoint_count
    ):
        checkpoint = (number + 1, epoch)
        lineages[checkpoint] = (*lineage, checkpoint)
        yield "wrote", checkpoint
        try:
            state = yield from of.add_checkpoint(epoch, state, Pointer(*checkpoint, f"chk-{checkpoint}"))
        except OSError:
            yield from forget(of, epoch, state, checkpoint)
            yield "began", epoch, lineage
            continue
        lineage = lineages[checkpoint]
        yield "commits", epoch, checkpoint
        for old in state.pointers[:-1]:
            state = yield from forget(of, epoch, state, (old.checkpoint_id, old.epoch))
        if number % 2:
            with contextlib.suppress(OSError):
                yield from of.renew(epoch)
    if ends:
        yield from of.finish(epoch, "FINISHED", "p")
        yield "ended", epoch
        for old in state.pointers:
            yield "deletes", epoch, (old.checkpoint_id, old.epoch)


def forget(of, epoch, state, checkpoint):
    """As `HaLease.remove_checkpoint` does it, and whoever deletes the files after it."""
    after = state.without_checkpoint(checkpoint[0])
    try:
        if after != state:
            yield from of.write_state(epoch, after)
        yield from of.renew(epoch)
    except OSError:
        return after
    yield "deletes", epoch, checkpoint
    return after


class Play:
    """Job masters in one world; each turn lets one of them do one step."""

    def __init__(self, masters):
        self.world = World()
        self.lineages = {}
        self.masters = [make(self.lineages) for make in masters]
        self.found = [None] * len(masters)
        self.heard = [()] * len(masters)  # all that each was answered: it says where it stands
        self.next = [next(master) for master in self.masters]

    def turn(self, index, fault=None):
        found = None if fault is REFUSED else self.world.do(self.next[index])
        heard = fault or (tuple(found) if isinstance(found, list) else found)
        self.heard[index] = hash((self.heard[index], bool(fault), heard if fault is None else ""))
        try:
            if fault is None:
                self.next[index] = self.masters[index].send(found)
            else:
                self.next[index] = self.masters[index].throw(OSError(5, "Input/output error"))
        except (StopIteration, LeaseLostError, OSError):
            self.next[index] = None

    def can_fail(self, index):
        return not isinstance(self.next[index], (tuple, protocol.Pause))

    def awake(self):
        return [index for index, step in enumerate(self.next) if step is not None]

    def key(self):
        return self.world.key(), tuple(self.heard), tuple(step is None for step in self.next)


def play_all(masters, switches=None, faults=0, limit=300_000):
    """Every order; orders that lead to the same are gone on from once. Return how many places there are.

    `switches`: only those in which so often another one goes on before the one at work rests for good.
    `faults`: so many steps fail, whichever they are.
    """
    known, schedules = set(), [((), switches, faults)]
    while schedules:
        schedule, left, faults = schedules.pop()
        play = Play(masters)
        for index, fault in schedule:
            play.turn(index, fault)
        while True:  # the one at work goes on; we come back for the others
            awake = play.awake()
            current = schedule[-1][0] if schedule and schedule[-1][0] in awake else None
            key = (play.key(), left, faults, current)
            if key in known or not awake:
                break
            known.add(key)
            if len(known) == limit:
                raise ValueError("more places than there is time for")
            goes_on = awake[0] if current is None else current
            if current is None or left != 0:
                after = left if left is None or current is None else left - 1
                schedules.extend(((*schedule, (index, None)), after, faults) for index in awake if index != goes_on)
            if faults and play.can_fail(goes_on):
                schedules.extend(((*schedule, (goes_on, each)), left, faults - 1) for each in (REFUSED, UNANSWERED))
            play.turn(goes_on)
            schedule = (*schedule, (goes_on, None))
    return len(known)


def master(checkpoint_count=1, ends=False, of=protocol):
    return lambda lineages: job_master(lineages, checkpoint_count, ends, of)


@pytest.mark.long
@pytest.mark.parametrize("ends", [False, True])
def test_two_job_masters_in_every_order(ends):
    assert play_all([master(1, ends), master(1, ends)]) > 5000


@pytest.mark.long
def test_two_job_masters_that_come_between_each_other_three_times():
    assert play_all([master(2, True), master(2, True)], switches=3) > 5000


@pytest.mark.parametrize("ends", [False, True])
def test_three_job_masters_that_come_between_each_other(ends):
    assert play_all([master(1, ends), master(1, ends), master(0, ends)], switches=1) > 3000


@pytest.mark.long
def test_three_job_masters_of_which_the_first_wakes_up_when_the_second_is_gone():
    assert play_all([master(1), master(0), master(0)], switches=2) > 5000


@pytest.mark.parametrize("ends", [False, True])
def test_a_step_that_fails_at_any_place_costs_no_record(ends):
    assert play_all([master(1, ends), master(1)], switches=1, faults=2) > 5000


@pytest.mark.long
def test_a_step_that_fails_while_three_job_masters_come_between_each_other():
    assert play_all([master(1), master(0), master(0)], switches=1, faults=1) > 5000


def run_at_random(masters, draw, steps=400, draw_fault=lambda: None):
    play = Play(masters)
    for _ in range(steps):
        awake = play.awake()
        if not awake:
            return play
        index = draw(awake)
        play.turn(index, draw_fault() if play.can_fail(index) else None)
    return play


def bursts(chance):
    """Whoever is awake goes on for a while: orders in which each is alone more often than not."""
    current = []

    def draw(awake):
        if not current or current[0] not in awake or chance.random() < 0.15:
            current[:] = [chance.choice(awake)]
        return current[0]

    return draw


def outages(chance, odds):
    """The directory fails for a while, now and then."""
    is_out = [False]

    def draw_fault():
        if chance.random() < (0.3 if is_out[0] else odds):
            is_out[0] = not is_out[0]
        return chance.choice((REFUSED, UNANSWERED, None)) if is_out[0] else None

    return draw_fault


SCRIPTS = st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=2, max_size=4)


@settings(max_examples=500)
@given(st.integers(0, 1 << 60), SCRIPTS, st.sampled_from([0, 0.05, 0.3]))
def test_any_job_masters_in_any_order(seed, scripts, odds):
    chance = random.Random(seed)
    run_at_random([master(*script) for script in scripts], bursts(chance), draw_fault=outages(chance, odds))


def test_a_job_that_ends_leaves_its_result_alone():
    play = run_at_random([master(3, True)], lambda awake: awake[0])
    assert sorted(play.world.files) == ["lease-1", "result-1", "state-1"]
    assert play.world.ended_in == 1


# ---- what the play would find


class Planted:
    """The protocol with one mistake."""

    def __init__(self, **wrong):
        self.__dict__.update(wrong)

    def __getattr__(self, name):
        return getattr(protocol, name)


def looks_before_it_writes(epoch, state):
    yield from protocol.look(epoch)
    yield protocol.Write(f"state-{epoch}", state.to_bytes())


def never_looks(epoch, state):
    yield protocol.Write(f"state-{epoch}", state.to_bytes())


def with_state_written_by(write_state):
    def add_checkpoint(epoch, state, pointer):
        after = state.with_checkpoint(pointer)
        yield from write_state(epoch, after)
        return after

    return add_checkpoint


def takes_it_back_once(epoch, state, pointer):
    """What cannot be noted is taken back, if that can be noted."""
    after = state.with_checkpoint(pointer)
    try:
        yield from protocol.write_state(epoch, after)
    except OSError:
        with contextlib.suppress(OSError):
            yield from protocol.write_state(epoch, state)
        raise
    return after


def takes_no_answer_for_yes(epoch, state, pointer):
    try:
        return (yield from protocol.add_checkpoint(epoch, state, pointer))
    except OSError:
        return state.with_checkpoint(pointer)


def settles_without_a_look(epoch, state, pointer):
    after = state.with_checkpoint(pointer)
    try:
        yield from protocol.write_state(epoch, after)
    except OSError:
        if (yield protocol.Read(f"state-{epoch}")) != after.to_bytes():
            raise
    return after


def settles_by_reading_alone(epoch, state, pointer):
    """A file that is gone was perhaps deleted by a later holder, which began from this checkpoint and has ended."""
    after = state.with_checkpoint(pointer)
    try:
        yield from protocol.write_state(epoch, after)
    except OSError:
        if (yield protocol.Read(f"state-{epoch}")) != after.to_bytes():
            raise
        yield from protocol.write_state(epoch, after)
    return after


def ends_without_a_look(epoch, result, program):
    yield protocol.Write(f"result-{epoch}", protocol.seal(json.dumps([result, program]).encode()))


def reads_before_its_lease(seen, holder):
    previous = yield from protocol.read_previous(seen + 1)
    if not (yield protocol.Create(f"lease-{seen + 1}", holder)):
        return None
    yield protocol.Write(f"state-{seen + 1}", previous.state.to_bytes())
    return seen + 1, previous


def begins_before_it_writes_down_what_it_found(seen, holder):
    """So what the holder before still changes is found by the one after it."""
    if not (yield protocol.Create(f"lease-{seen + 1}", holder)):
        return None
    yield from protocol.look(seen + 1)
    return seen + 1, (yield from protocol.read_previous(seen + 1))


@pytest.mark.parametrize(
    "wrong, scripts, switches, faults",
    [
        ({"add_checkpoint": with_state_written_by(looks_before_it_writes)}, [(2, False), (2, False)], 1, 0),
        ({"add_checkpoint": with_state_written_by(never_looks)}, [(2, False), (2, False)], 1, 0),
        ({"add_checkpoint": with_state_written_by(protocol.write_state)}, [(1, False), (0, False)], 0, 1),
        ({"add_checkpoint": takes_it_back_once}, [(2, False), (0, False)], 0, 2),
        ({"add_checkpoint": takes_no_answer_for_yes}, [(1, False), (0, False)], 0, 1),
        ({"add_checkpoint": settles_without_a_look}, [(1, False), (1, False)], 2, 1),
        ({"finish": ends_without_a_look}, [(1, True), (1, True)], 1, 0),
        ({"add_checkpoint": settles_by_reading_alone}, [(2, True), (1, False)], 1, 2),
        ({"take_over": reads_before_its_lease}, [(2, False), (2, False)], 2, 0),
        ({"take_over": begins_before_it_writes_down_what_it_found}, [(2, False), (0, False), (0, False)], 2, 0),
    ],
    ids=lambda each: next(iter(each.values())).__qualname__.partition(".")[0] if isinstance(each, dict) else "",
)
def test_a_mistake_in_the_protocol_would_be_found(wrong, scripts, switches, faults):
    with pytest.raises(Violation):
        play_all([master(*script, of=Planted(**wrong)) for script in scripts], switches=switches, faults=faults)
