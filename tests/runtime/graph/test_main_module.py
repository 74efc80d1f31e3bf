"""Records of classes that a script defines cross to other processes and back."""

import pickle
import subprocess
import sys
import threading
import types

import cloudpickle
import pytest

from flinkbuf.runtime.graph import main_module
from flinkbuf.runtime.graph.main_module import install_main_classes, main_classes

SCRIPT = """
import sys
from dataclasses import dataclass
from flinkbuf.common import Configuration
from flinkbuf.datastream import StreamExecutionEnvironment


@dataclass(DATACLASS)
class Flight:
    airport: str
    delay: int

    def late(self):
        return Flight(self.airport, self.delay + OFFSET)


OFFSET = 10


def main():
    configuration = Configuration()
    configuration.set_string("execution.target", sys.argv[1])
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    out = []
    flights = env.add_source([Flight("JFK" if delay % 2 else "LAX", delay) for delay in range(100)])
    flights.map(lambda flight: flight.late()).key_by(lambda flight: flight.airport).map(same).add_sink(out.append)
    env.execute("flights")
    assert all(type(flight) is Flight for flight in out)
    print(sorted(flight.delay for flight in out) == list(range(10, 110)))


def same(flight):
    assert isinstance(flight, Flight)
    return flight


if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(
    ("target", "options"),
    [
        ("embedded", "frozen=True"),
        ("local", "frozen=True"),
        ("embedded", "slots=True"),
        ("local", "slots=True"),
        ("local", "frozen=True, slots=True"),
    ],
)
def test_records_of_a_class_of_the_script_cross_in_both_directions(target, options, tmp_path):
    script = tmp_path / "flights.py"
    script.write_text(SCRIPT.replace("DATACLASS", options))
    ended = subprocess.run([sys.executable, script, target], capture_output=True, text=True, timeout=120)
    assert (ended.stdout, ended.returncode) == ("True\n", 0), ended.stderr


@pytest.fixture
def main(monkeypatch):
    """A main module of a program, as if it were this process's."""
    module = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", module)
    monkeypatch.setattr(main_module, "_installed", {})
    exec(
        "class Point:\n    x = 1\n"
        "class Locked:\n    pass\n"
        "number = 7\n"
        "def f():\n    class Inner: pass\n    return Inner\n"
        "Inner = f()\n",
        vars(module),
    )
    module.Locked.lock = threading.Lock()
    module.Other = pytest.Item  # from elsewhere
    return module


def test_only_classes_of_the_main_module_that_can_be_copied_go_along(main):
    assert set(main_classes()) == {"Point"}


def test_a_class_is_found_by_its_name_in_a_process_that_has_another_main_module(main, monkeypatch):
    copies, data = main_classes(), pickle.dumps(main.Point())
    elsewhere = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", elsewhere)
    with pytest.raises(AttributeError, match="Point"):
        pickle.loads(data)
    install_main_classes(copies)
    point = pickle.loads(data)
    assert type(point) is elsewhere.Point and point.x == 1
    assert pickle.loads(pickle.dumps(point)).x == 1


@pytest.mark.parametrize(
    "slots", ["'x', 'y'", "'x', '__private'", "'x', '__dict__'", "'x', '__weakref__'", "*{'x': 'a dict of docs'}", "x"]
)
def test_a_class_with_slots_has_them_elsewhere(main, monkeypatch, slots):
    """So its objects are unpickled where the class itself is."""
    slots = repr(slots) if slots == "x" else f"[{slots}]"
    exec(f"class Slotted:\n    __slots__ = {slots}\n    def __init__(self, x):\n        self.x = x\n", vars(main))
    own, copies, data = main.Slotted, main_classes(), pickle.dumps(main.Slotted(1))
    elsewhere = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", elsewhere)
    tracker = cloudpickle.cloudpickle  # knows the class again that it has copied, which another process does not
    tracker._DYNAMIC_CLASS_TRACKER_BY_ID.pop(tracker._DYNAMIC_CLASS_TRACKER_BY_CLASS.pop(own))
    install_main_classes(copies)
    there = pickle.loads(data)
    assert type(there) is elsewhere.Slotted and type(there) is not own and there.x == 1
    assert (hasattr(there, "__dict__"), hasattr(there, "__weakref__")) == tuple(
        hasattr(own(1), name) for name in ("__dict__", "__weakref__")
    )
    back = pickle.dumps(there)
    monkeypatch.setitem(sys.modules, "__main__", main)
    assert type(pickle.loads(back)) is own and pickle.loads(back).x == 1


def test_what_a_process_has_itself_is_left_alone_and_what_a_job_before_has_put_there_is_not(main, monkeypatch):
    copies = main_classes()
    elsewhere = types.ModuleType("__main__")
    elsewhere.Point = "its own"
    monkeypatch.setitem(sys.modules, "__main__", elsewhere)
    install_main_classes(copies)
    assert elsewhere.Point == "its own"
    del elsewhere.Point
    install_main_classes(copies)
    first = elsewhere.Point
    exec("class Point:\n    x = 2\n", vars(main))
    monkeypatch.setitem(sys.modules, "__main__", main)
    copies = main_classes()
    monkeypatch.setitem(sys.modules, "__main__", elsewhere)
    install_main_classes(copies)
    assert (first.x, elsewhere.Point.x) == (1, 2)


def test_a_class_that_cannot_be_made_there_is_left_out(main):
    install_main_classes({"Broken": b"no pickle", "Point2": main_classes()["Point"]})
    assert not hasattr(main, "Broken") and main.Point2.x == 1
