"""Sinks that write what scripts and chance say, are snapshotted, told what counts, and killed."""

from flinkbuf.streaming.state.snapshot import OperatorSnapshot


def stored(snapshot):
    """A snapshot as it comes back from a storage; one of several operators has come back already."""
    if isinstance(snapshot, tuple):
        return snapshot
    return OperatorSnapshot.decode(snapshot.encode())


def play(sink, script, snapshots, element_of=lambda value: value):
    """Give a sink the values of a script, and do its ("snap", id) and ("done", id); keep the snapshots by their ids."""
    for step in script:
        if not isinstance(step, tuple):
            sink.process_element(element_of(step))
        elif step[0] == "snap":
            snapshots[step[1]] = stored(sink.snapshot(step[1]))
        else:
            sink.operator.notify_checkpoint_complete(step[1])


def fail_behind_first_commit(monkeypatch, committer_class):
    """Have the first committer that is closed fail, behind its commit; return what is empty once one has."""
    failures = iter([RuntimeError("the planted failure behind the commit")])

    def close(self):
        for error in failures:
            raise error

    monkeypatch.setattr(committer_class, "close", close)
    return failures


def values_of(script):
    """The values of a script, without what else is done."""
    return [step for step in script if not isinstance(step, tuple)]


def write_with_failures(elements, begin, kill, chance):
    """Write all elements, each once as far as checkpoints count; return the sink behind its last one.

    ``begin(snapshot)`` opens a sink, which ``kill(sink)`` ends. Of the checkpoints some do not count, and of those that
    do not all are told to the sink.
    """
    position = saved = checkpoint = 0
    snapshot = None
    sink = begin(snapshot)
    while position < len(elements):
        draw = chance.random()
        if draw < 0.7:
            sink.process_element(elements[position])
            position += 1
        elif draw < 0.9:
            checkpoint += 1
            taken = stored(sink.snapshot(checkpoint))
            if chance.random() < 0.7:
                snapshot, saved = taken, position
                if chance.random() < 0.5:
                    sink.operator.notify_checkpoint_complete(checkpoint)
        else:
            kill(sink)
            position = saved
            sink = begin(snapshot)
    sink.end_input()
    sink.finish()
    sink.snapshot(checkpoint + 1)
    sink.operator.notify_checkpoint_complete(checkpoint + 1)
    return sink
