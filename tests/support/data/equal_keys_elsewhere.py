"""Counts the pairs of equal keys in a process of its own: one half and a snapshot, or what follows after a restore.

python equal_keys_elsewhere.py FOLDER write|read [path to import from ...]
"""

import itertools
import pickle
import sys
from pathlib import Path

from support.data.equal_keys import PAIRS, TableWindow, hashable
from support.worlds.saved_states import restored, save

from flinkbuf._core.state.key_context import KeyContext
from flinkbuf.streaming.state.key_groups import KeyGroups
from flinkbuf.streaming.state.rocksdb_backend import LOCAL_DIRECTORIES, RocksDbStateBackend
from flinkbuf.streaming.state.state import MapStateDescriptor, ValueStateDescriptor
from flinkbuf.streaming.state.state_backend import KeyedStateBackend
from flinkbuf.streaming.state.timers import TimerServices
from flinkbuf.testing import ManualClock
from flinkbuf.types.types import Types, object_type

KINDS = ("hashmap", "rocksdb")


def backend_of(kind, folder, restore=None):
    keys, clock = KeyContext(), ManualClock()
    groups = KeyGroups.of_subtask(None, 128, parallelism=1, subtask_index=0)
    timers = TimerServices(keys, clock)
    if kind == "hashmap":
        backend = KeyedStateBackend(keys, groups, clock, timers)
    else:
        backend = RocksDbStateBackend(keys, groups, clock, timers, {LOCAL_DIRECTORIES: str(folder)})
    if restore is not None:
        backend.restore(restore)
    return backend


def counts(backend, half):
    """Count one half of each pair as key, as namespace and as key of a map; returns the numbers by what was counted."""
    found = {}
    state = backend.get_internal_state(ValueStateDescriptor("count", Types.LONG()))
    mapping = backend.get_state(MapStateDescriptor("map", object_type(), Types.LONG()))
    for name, pair in PAIRS.items():
        for key, namespace in [(pair[half], None), ("key", TableWindow(name, pair[half]))]:
            backend.key_context.set_key(("of", name, key))
            state.set_namespace(namespace)
            state.update((state.value() or 0) + 1)
            found[name, namespace is None] = state.value()
        if hashable(pair[half]):
            backend.key_context.set_key(name)
            mapping.put(pair[half], (mapping.get(pair[half]) or 0) + 1)
            found[name, "map"] = list(mapping.values())
    return found


def main(folder, what):
    for before, after in itertools.product(KINDS, KINDS):
        saved = folder / f"{before} {after}"
        if what == "write":
            backend = backend_of(before, folder)
            counts(backend, 0)
            state = save(backend, folder / "saved", "CHECKPOINT" if before == after == "rocksdb" else "SAVEPOINT")
            saved.write_bytes(pickle.dumps(state))
        else:
            backend = backend_of(after, folder, restored([pickle.loads(saved.read_bytes())], 1, 0, 1))
            wrong = {what: number for what, number in counts(backend, 1).items() if number not in (2, [2])}
            print(f"{before} {after}: {wrong}")
        backend.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
