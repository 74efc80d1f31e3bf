"""A program whose directory of high availability fails at the worst moment: ``python ha_outage_program.py DIRECTORY``.

Behind what notes checkpoint 5 all that is done there fails, for half a second. Meanwhile a task fails, and its next
attempt stands still until the test has killed this program and started another one.
"""

import logging
import sys
import time
import uuid
from pathlib import Path

import ha_program

from flinkbuf.checkpoints import ha_directory
from flinkbuf.checkpoints.ha_protocol import Pause
from flinkbuf.streaming.sinks.two_phase_commit import TwoPhaseCommitSinkFunction

OUTAGE_S = 0.5


class StepInOutage(ha_program.Step):
    """Fails once when the outage begins; its next attempt waits for the second program."""

    def __init__(self, directory):
        super().__init__(directory)
        self.directory = Path(directory)

    def open(self, context):
        while (self.directory / "failed").exists() and not (self.directory / "second").exists():
            time.sleep(0.01)

    def map(self, number):
        if (self.directory / "outage").exists() and not (self.directory / "failed").exists():
            (self.directory / "failed").touch()
            raise RuntimeError("a task fails while the directory does")
        return super().map(number)


class Ledger(TwoPhaseCommitSinkFunction):
    """A transaction is a hidden file. An attempt that begins undoes what it does not know of, as a database would."""

    def __init__(self, directory):
        super().__init__()
        self.directory = Path(directory)

    def open(self, context):
        self.subtask = context.get_index_of_this_subtask()
        self.has_undone = False
        (self.directory / "out").mkdir(exist_ok=True)

    def begin_transaction(self):
        if not self.has_undone:
            self.has_undone = True
            for left in (self.directory / "out").glob(f".{self.subtask}-*"):
                left.unlink()
            if (self.directory / "failed").exists():
                (self.directory / f"restarted-{self.subtask}").touch()
        return f"{self.subtask}-{uuid.uuid4().hex}"

    def invoke(self, transaction, value, context):
        with (self.directory / "out" / f".{transaction}").open("a") as file:
            file.write(value + "\n")

    def pre_commit(self, transaction):
        pass

    def commit(self, transaction):
        hidden = self.directory / "out" / f".{transaction}"
        if hidden.exists():
            hidden.rename(self.directory / "out" / transaction)

    def abort(self, transaction):
        (self.directory / "out" / f".{transaction}").unlink(missing_ok=True)


def fail_behind_checkpoint_5(directory):
    """Let the directory fail once its file says so."""
    replace, do, ends_s = ha_directory._replace, ha_directory.HaDirectory.do, [0.0]

    def replace_and_begin(path, data):
        replace(path, data)
        if b"/chk-5" in data and not (directory / "outage").exists():
            ends_s[0] = time.monotonic() + OUTAGE_S
            (directory / "outage").touch()

    def do_or_fail(self, step):
        if time.monotonic() < ends_s[0] and not isinstance(step, Pause):
            raise OSError(5, "Input/output error")
        return do(self, step)

    ha_directory._replace, ha_directory.HaDirectory.do = replace_and_begin, do_or_fail


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    fail_behind_checkpoint_5(Path(sys.argv[1]))
    ha_program.main(sys.argv[1], StepInOutage(sys.argv[1]), Ledger(sys.argv[1]))
