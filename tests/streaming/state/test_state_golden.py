"""State in the form of version 1, written once and kept: this flinkbuf reads it, and writes the same bytes still.

``python tests/streaming/state/test_state_golden.py`` writes the files anew: only for a
version of its own, beside the old.
"""

from pathlib import Path

from test_state_backend import backend_of

from flinkbuf.checkpoints.handles import KeyedStateHandle, StateHandle
from flinkbuf.checkpoints.state_file import KEYED, Region, SnapshotOutput
from flinkbuf.checkpoints.state_index import keyed_index, operator_index
from flinkbuf.streaming.state.operator_state import OperatorStateBackend
from flinkbuf.streaming.state.snapshot import KeyedSnapshot, OperatorSnapshot, SnapshotTarget
from flinkbuf.streaming.state.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from flinkbuf.streaming.state.state_ttl import StateTtlConfig
from flinkbuf.testing import ManualClock
from flinkbuf.types.duration import Time
from flinkbuf.types.types import Types

GOLDEN = Path(__file__).parents[2] / "golden/state"
KEYS = ["a", "b", "ü", "long " * 20]


def descriptors():
    expiring = ValueStateDescriptor("expiring", Types.STRING())
    expiring.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
    return (
        ValueStateDescriptor("count", Types.LONG()),
        ListStateDescriptor("list", Types.STRING()),
        MapStateDescriptor("map", Types.STRING(), Types.DOUBLE()),
        expiring,
        ValueStateDescriptor("any", None),
    )


def states_of(backend):
    count, names, numbers, expiring, any_value = map(backend.get_state, descriptors())
    windows = backend.get_internal_state(ListStateDescriptor("windows", Types.LONG()))
    return count, names, numbers, expiring, any_value, windows


class Nobody:
    def on_event_time(self, timestamp, key, namespace):
        pass

    on_processing_time = on_event_time


def written():
    backend = backend_of(key_type=Types.STRING(), clock=ManualClock(1000))
    count, names, numbers, expiring, any_value, windows = states_of(backend)
    timers = backend._timers.service("user", Nobody())
    for number, key in enumerate(KEYS):
        backend.key_context.set_key(key)
        count.update(number - 2)
        names.add_all([key, str(number)])
        numbers.put("half", number / 2)
        expiring.update("young")
        any_value.update((number, [key, None, 2.5, True], {"x": b"\0"}))
        for namespace in (1, (2, "w")):
            windows.set_namespace(namespace)
            windows.add(number)
        timers.register_event_time_timer(None, 10 * number)
    operator = OperatorStateBackend()
    operator.get_list_state(ListStateDescriptor("offsets", None)).add_all([("part", 5), ("other", None)])
    operator.get_union_list_state(ListStateDescriptor("all", None)).add(1)
    operator.get_broadcast_state(MapStateDescriptor("rules", None, None)).put("rule", [1.5, "x"])
    output = SnapshotOutput(None, 0)
    target = SnapshotTarget(output)
    snapshot = OperatorSnapshot((backend.snapshot(),), **operator.snapshot())
    place, keyed = snapshot.write_operator(target), snapshot.keyed[0].write(target)
    output.finish()
    snapshot.release()
    return {"keyed-v1.bin": keyed().handle.data, "operator-v1.bin": output.handle(*place).data}


def handle_of(name):
    data = (GOLDEN / name).read_bytes()
    return StateHandle(len(data), data=data)


def test_keyed_state_of_version_1_is_read():
    handle = handle_of("keyed-v1.bin")
    index = keyed_index(KeyedStateHandle(0, 127, 128, handle), None)
    assert [meta.name for meta in index.metas] == [
        *("count", "list", "map", "expiring", "any", "windows", "user: event time", "user: processing time")
    ]
    restore = OperatorSnapshot((KeyedSnapshot(Region(handle, None, KEYED)),))
    backend = backend_of(key_type=Types.STRING(), clock=ManualClock(2000), restore=restore)
    count, names, numbers, expiring, any_value, windows = states_of(backend)
    for number, key in enumerate(KEYS):
        backend.key_context.set_key(key)
        assert count.value() == number - 2
        assert names.get() == [key, str(number)]
        assert dict(numbers.items()) == {"half": number / 2}
        assert expiring.value() == "young"
        assert any_value.value() == (number, [key, None, 2.5, True], {"x": b"\0"})
        for namespace in (1, (2, "w")):
            windows.set_namespace(namespace)
            assert windows.get() == [number]
    assert len(backend._timers.service("user", Nobody())) == len(KEYS)


def test_operator_state_of_version_1_is_read():
    handle = handle_of("operator-v1.bin")
    assert [(each.name, each.mode, each.count) for each in operator_index(handle, None)] == [
        ("offsets", "list", 2),
        ("all", "union list", 1),
        ("rules", "broadcast", 1),
    ]
    snapshot = OperatorSnapshot.read_operator(handle, None)
    assert snapshot.lists == {"offsets": [("part", 5), ("other", None)]}
    assert (snapshot.union_lists, snapshot.broadcasts) == ({"all": [1]}, {"rules": {"rule": [1.5, "x"]}})


def test_the_same_state_is_written_as_it_was():
    for name, data in written().items():
        assert data == (GOLDEN / name).read_bytes(), name


if __name__ == "__main__":
    for name, data in written().items():
        (GOLDEN / name).write_bytes(data)
