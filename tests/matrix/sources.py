"""Where the records of a program come from, what stumbles on the way, and what tells the results."""

import os
import signal
import time

from flinkbuf.common import Duration, WatermarkStrategy
from flinkbuf.common.watermark_strategy import TimestampAssigner
from flinkbuf.datastream.functions import CheckpointedFunction, CheckpointListener, MapFunction, SourceFunction
from flinkbuf.datastream.state import ListStateDescriptor
from flinkbuf.streaming.sources.source import Boundedness
from matrix.values import shown
from matrix.ways import CALM, KILL, MOVE, RAISE

RECORD, WATERMARK = "record", "watermark"
WAIT_S = 3.0  # for a checkpoint: one that does not come is no failure of the program
PAUSE_S = 0.001


class Stumbled(Exception):
    """What a function raises once, on purpose."""


def once(directory, name):
    """Whether this is the first call with this name, in all processes."""
    try:
        os.close(os.open(f"{directory}/{name}", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


class Script(SourceFunction, CheckpointedFunction, CheckpointListener):
    """Emits the steps of a script, ``(RECORD, value, timestamp)`` and ``(WATERMARK, timestamp)``, in one subtask.

    Restored, it says the last watermark again before it goes on: watermarks are no state, so an operator behind it then
    knows as much of event time as before. Where a fault is to come, it waits at a step: for checkpoints, or for the
    savepoint that ends it.
    """

    boundedness = Boundedness.BOUNDED

    def __init__(self, steps, name, directory=None, wait_at=None, wants_stop=False):
        super().__init__()
        self.steps, self.name, self.directory = steps, name, directory
        self.wait_at, self.wants_stop = wait_at, wants_stop

    def initialize_state(self, context):
        self.state = context.get_operator_state_store().get_list_state(ListStateDescriptor("position", None))
        self.position = max(self.state.get(), default=0)
        self.completed = 0

    def snapshot_state(self, context):
        self.state.update([self.position])

    def notify_checkpoint_complete(self, checkpoint_id):
        self.completed += 1

    def run(self, ctx):
        said = [step for step in self.steps[: self.position] if step[0] == WATERMARK]
        if said:
            ctx.emit_watermark(said[-1][1])
        while self.position < len(self.steps) and not ctx.is_canceled:
            if self.position == self.wait_at and not self.wait(ctx):
                return
            with ctx.get_checkpoint_lock():
                step = self.steps[self.position]
                if step[0] == WATERMARK:
                    ctx.emit_watermark(step[1])
                elif step[2] is None:
                    ctx.collect(step[1])
                else:
                    ctx.collect_with_timestamp(step[1], step[2])
                self.position += 1
        if self.wait_at is not None and self.wait_at >= len(self.steps):
            self.wait(ctx)

    def wait(self, ctx):
        """Wait for what the way wants here; False: the source was stopped meanwhile."""
        if not once(self.directory, f"{self.name} waits") and not self.wants_stop:
            return True
        wanted, deadline = self.completed + 2, time.monotonic() + WAIT_S
        while not ctx.is_canceled and (self.wants_stop or self.completed < wanted):
            if not self.wants_stop and time.monotonic() > deadline:
                break
            time.sleep(PAUSE_S)
        return not ctx.is_canceled


class SecondField(TimestampAssigner):
    """Of pairs of a record and its timestamp."""

    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Slowly(MapFunction):
    """Passes records on, slowly enough for checkpoints to come between them."""

    def __init__(self, pause_s):
        self.pause_s = pause_s

    def map(self, value):
        time.sleep(self.pause_s)
        return value


class Stumble(MapFunction):
    """Passes records on; at its n-th one it raises, or kills its process, once in the whole job."""

    def __init__(self, directory, deed, at):
        self.directory, self.deed, self.at = directory, deed, at

    def open(self, runtime_context):
        self.count = 0

    def map(self, value):
        self.count += 1
        if self.count == self.at and once(self.directory, "stumbled"):
            if self.deed == KILL:
                os.kill(os.getpid(), signal.SIGKILL)
            raise Stumbled(f"at record {self.count}")
        return value


class Shown(MapFunction):
    """The name of the output, the text of what the order counts of (or None), and the text of the record."""

    def __init__(self, name, order_by=None):
        self.name, self.order_by = name, order_by

    def map(self, value):
        return self.name, None if self.order_by is None else shown(self.order_by(value)), shown(value)


class Inputs:
    """What a program is given: it makes sources and what else depends on the way.

    Parameters
    ----------
    env : StreamExecutionEnvironment
    way : Way
    directory : str
        That the job's processes share.
    is_restored : bool
        Whether the job goes on from a savepoint.
    """

    def __init__(self, env, way, directory, is_restored=False):
        self.env, self.way, self.directory, self.is_restored = env, way, str(directory), is_restored
        self.count = 0

    def records(self, values):
        """A stream of values, in their order and in one subtask: a list, `Timed`, or `Exact`."""
        self.count += 1
        name = f"source{self.count}"
        if self.way.fault == CALM and self.count % 2 and not isinstance(values, Exact):
            return self._collection(values, name)
        return self._script(values, name)

    def stumble(self, place="within"):
        """A map that does nothing, or fails where the way has it."""
        is_here = self.way.fault in (RAISE, KILL) and self.way.place == place
        return Stumble(self.directory, self.way.fault, 1 + int(self.way.cut * 10) if is_here else 0)

    def _collection(self, values, name):
        if not isinstance(values, Timed):
            return self.env.from_collection(list(values)).uid(name)
        spread = max((at for _, at in values), default=0) - min((at for _, at in values), default=0)
        strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(spread)).with_timestamp_assigner(
            SecondField()
        )
        pairs = self.env.from_collection(list(values)).uid(name)
        timed = pairs.assign_timestamps_and_watermarks(strategy).uid(f"{name} times").set_parallelism(1)
        return timed.map(_first).uid(f"{name} values").set_parallelism(1)

    def _script(self, values, name):
        steps = values.steps if isinstance(values, Exact) else steps_of(values)
        way, wait_at = self.way, None
        if way.fault == MOVE and not self.is_restored:
            wait_at = int(way.cut * len(steps))
        elif way.fault in (RAISE, KILL):
            wait_at = int(way.cut * len(steps) * 0.9)
        script = Script(steps, name, self.directory, wait_at, way.fault == MOVE)
        stream = self.env.add_source(script, name).uid(name).set_parallelism(1)
        if way.fault in (RAISE, KILL) and way.place == "source" and self.count == 1:
            records_before = sum(step[0] == RECORD for step in steps[:wait_at])
            return stream.map(Stumble(self.directory, way.fault, records_before + 1)).uid("stumble").set_parallelism(1)
        return stream


class Timed(list):
    """Values with timestamps; watermarks may come anywhere between them that makes none of them late."""


class Exact:
    """A script of records and watermarks, to be kept to the letter: some of its records are late."""

    def __init__(self, *steps):
        self.steps = list(steps)


def steps_of(values):
    """The steps of a script without late records: watermarks nearly as high as they can be.

    Sessions that touch are one, but the first is over at a watermark just below the second's first record: whether they
    are one then hangs on whether there was that watermark. There is none.
    """
    if not isinstance(values, Timed):
        return [(RECORD, value, None) for value in values]
    steps, said = [], None
    for place, (value, at) in enumerate(values):
        steps.append((RECORD, value, at))
        rest = [later for _, later in values[place + 1 :]]
        if rest and (said is None or min(rest) - 2 > said):
            said = min(rest) - 2
            steps.append((WATERMARK, said))
    return steps


def _first(pair):
    return pair[0]
