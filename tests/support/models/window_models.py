"""What windows give, worked out from a list of all records: slow, and simple enough to be right.

A script is a list of steps: ``("record", key, timestamp)`` or ``("watermark", timestamp)``. A record's value is its
place in the script, so no two are equal. Results are ``(key, start, end, values in order)``.
"""

from hypothesis import strategies as st

from flinkbuf.streaming.chain.operator_config import ExecutionSettings
from flinkbuf.streaming.state.snapshot import OperatorSnapshot
from flinkbuf.testing import OperatorHarness
from flinkbuf.types.values import StreamRecord

MIN = -(2**63)


def scripts(max_time=60, keys="ab"):
    """Records out of order and watermarks that rise, many of which make records late."""
    record = st.tuples(st.just("record"), st.sampled_from(keys), st.integers(-5, max_time))
    watermark = st.tuples(st.just("watermark"), st.integers(-5, max_time))
    return st.lists(st.one_of(record, record, record, watermark), max_size=40).map(rising)


def rising(script):
    highest, made = MIN, []
    for step in script:
        if step[0] == "watermark":
            if step[1] <= highest:
                continue
            highest = step[1]
        made.append(step)
    return made


class FixedWindows:
    """Tumbling and sliding windows of event time with their default trigger."""

    def __init__(self, size, slide, lateness):
        self.size, self.slide, self.lateness = size, slide, lateness
        self.watermark = MIN
        self.contents = {}  # (key, start) -> values
        self.results, self.late = [], []

    def record(self, key, timestamp, value):
        is_skipped = True
        for start in range(timestamp - timestamp % self.slide, timestamp - self.size, -self.slide):
            last = start + self.size - 1
            if last + self.lateness > self.watermark:
                is_skipped = False
                self.contents.setdefault((key, start), []).append(value)
                if last <= self.watermark:
                    self.fire(key, start)
        if is_skipped and timestamp + self.lateness <= self.watermark:
            self.late.append(value)

    def fire(self, key, start):
        self.results.append((key, start, start + self.size, tuple(self.contents[key, start])))

    def advance(self, watermark):
        before, self.watermark = self.watermark, watermark
        for key, start in sorted(self.contents, key=lambda pane: pane[1]):
            if before < start + self.size - 1 <= watermark:
                self.fire(key, start)
        self.contents = {
            pane: values
            for pane, values in self.contents.items()
            if pane[1] + self.size - 1 + self.lateness > watermark
        }


class Sessions:
    """Sessions of event time with their default trigger; values of a session are in no order."""

    def __init__(self, gap, lateness):
        self.gap, self.lateness = gap, lateness
        self.watermark = MIN
        self.sessions = {}  # key -> list of (start, end, values)
        self.results, self.late = [], []

    def record(self, key, timestamp, value):
        start, end, values = timestamp, timestamp + self.gap, [value]
        apart = []
        for session in self.sessions.get(key, []):
            if session[0] <= end and start <= session[1]:
                start, end, values = min(start, session[0]), max(end, session[1]), session[2] + values
            else:
                apart.append(session)
        if end - 1 + self.lateness <= self.watermark:
            if timestamp + self.lateness <= self.watermark:
                self.late.append(value)
            return
        self.sessions[key] = [*apart, (start, end, values)]
        if end - 1 <= self.watermark:
            self.results.append((key, start, end, tuple(sorted(values))))

    def advance(self, watermark):
        before, self.watermark = self.watermark, watermark
        for key, sessions in self.sessions.items():
            for start, end, values in sorted(sessions):
                if before < end - 1 <= watermark:
                    self.results.append((key, start, end, tuple(sorted(values))))
            self.sessions[key] = [session for session in sessions if session[1] - 1 + self.lateness > watermark]


def expected(model, script):
    """The model's results, and the values that were late."""
    for number, step in enumerate(script):
        if step[0] == "record":
            model.record(step[1], step[2], number)
        else:
            model.advance(step[1])
    return model.results, model.late


def play(harness, script, first_number=0):
    """Give a script to a window operator whose records are (key, number)."""
    for number, step in enumerate(script, first_number):
        if step[0] == "record":
            harness.process_element((step[1], number), step[2])
        else:
            harness.process_watermark(step[1])


def records(harness):
    """What came out, without watermarks."""
    return [element.value for element in harness.output if isinstance(element, StreamRecord)]


def run(make_operator, script, **arguments):
    """The results of an operator, and the values that were late."""
    with OperatorHarness(make_operator(), **arguments) as harness:
        play(harness, script)
        return records(harness), [record.value[1] for record in harness.side_output("late")]


def run_with_cut(make_before, make_after, script, cut, backends=("hashmap", "hashmap")):
    """The results of an operator that is stopped before the step `cut`, and of one that goes on with its state."""
    settings = [ExecutionSettings(state_backend=each) for each in backends]
    with OperatorHarness(make_before(), settings=settings[0]) as before:
        play(before, script[:cut])
        snapshot = before.snapshot()
        if backends[0] != "hashmap":
            snapshot = OperatorSnapshot.decode(snapshot.encode())  # before its files are gone
    watermark = max((step[1] for step in script[:cut] if step[0] == "watermark"), default=None)
    with OperatorHarness(make_after(), restore=snapshot, settings=settings[1]) as after:
        if watermark is not None:
            after.process_watermark(watermark)  # which is not state: it comes from upstream again
        play(after, script[cut:], cut)
        return records(before) + records(after)


def of_each_key(results):
    """Results by key, in their order."""
    by_key = {}
    for result in results:
        by_key.setdefault(result[0], []).append(result)
    return by_key


def check_processing_time(made, steps, state_left, ends=False):
    """Of records with pauses between, the fast way gives what the general one gives, and no state is left.

    `ends`: the input ends behind the last record, before the clock has come to the end of its windows; timers of the
    clock are dropped then, but not before.
    """
    results = []
    for operator in (made(), made.general()):
        with OperatorHarness(operator) as harness:
            for number, (key, pause) in enumerate(steps):
                harness.set_processing_time(harness.clock.now_ms() + pause)
                harness.process_element((key, number))
            if ends:
                harness.process_watermark(2**63 - 1)
            else:
                harness.set_processing_time(10_000)
            results.append(harness.output)
            left = state_left(harness)
            assert [each for each in left if not ends or each[0] == "window-contents"] == []
    assert results[0] == results[1]


def check_restores(made, script, cut):
    """The fast and the general way each go on from the other's snapshot."""
    cut = min(cut, len(script))
    straight = of_each_key(run(made, script)[0])
    for before, after in ((made, made.general), (made.general, made), (made, made)):
        assert of_each_key(run_with_cut(before, after, script, cut)) == straight


def check_that_a_snapshot_stays(made, script, cut):
    """A snapshot is what it was when it was taken, though the operator goes on before it is written."""
    cut = min(cut, len(script))
    straight = of_each_key(run(made, script)[0])
    with OperatorHarness(made()) as harness:
        play(harness, script[:cut])
        snapshot, before = harness.snapshot(), list(records(harness))
        play(harness, script[cut:], cut)
        assert of_each_key(records(harness)) == straight
    watermark = max((step[1] for step in script[:cut] if step[0] == "watermark"), default=None)
    with OperatorHarness(made(), restore=snapshot) as again:
        if watermark is not None:
            again.process_watermark(watermark)
        play(again, script[cut:], cut)
        assert of_each_key(before + records(again)) == straight
