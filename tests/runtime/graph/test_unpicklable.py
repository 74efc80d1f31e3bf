"""Functions that cannot be copied: the text says which attribute, or which variable, it is."""

import functools
import sqlite3
import threading

import pytest

from flinkbuf.runtime.graph.unpicklable import MAX_PROBES, find_unpicklable
from flinkbuf.streaming.chain.functions import MapFunction

LOCK = threading.Lock()


def closure():
    connection = threading.Lock()

    def enrich(value):
        return connection, value

    return enrich


def nested_closure():
    enrich = closure()
    return lambda value: enrich(value)


def default():
    def enrich(value, lock=LOCK):
        return lock, value

    return enrich


def keyword_default():
    return lambda value, *, lock=LOCK: (lock, value)


def decorated():
    def enrich(value):
        return value

    enrich.lock = LOCK
    return enrich


def from_globals():
    namespace = {"LOCK": LOCK, "__name__": "__main__"}
    exec("def enrich(value):\n    return [LOCK for _ in range(value)]\n", namespace)
    return namespace["enrich"]


class Enrich(MapFunction):
    def __init__(self, session):
        self.name = "enrich"
        self.session = session

    def map(self, value):
        return self.session, value


class Client:
    def __init__(self):
        self.url = "x"
        self.lock = LOCK


class Slotted:
    __slots__ = ("first", "lock")

    def __init__(self):
        self.lock = LOCK


class Chosen:
    def __init__(self):
        self.ignored = threading.Lock()

    def __getstate__(self):
        return {"kept": sqlite3.connect(":memory:")}


def local_class():
    class Local(MapFunction):
        shared = LOCK

        def map(self, value):
            return value

    return Local()


def local_method():
    lock = LOCK

    class Local(MapFunction):
        def map(self, value):
            return lock, value

    return Local()


CASES = [
    (closure, "closure variable 'connection' of function enrich"),
    (
        nested_closure,
        "closure variable 'connection' of function enrich, in closure variable 'enrich' of function <lambda>",
    ),
    (default, "the default of parameter 'lock' of function enrich"),
    (keyword_default, "the default of parameter 'lock' of function <lambda>"),
    (decorated, "attribute 'lock' of function enrich"),
    (from_globals, "global variable 'LOCK', used by function enrich"),
    (lambda: Enrich(LOCK), "attribute 'session' of an Enrich"),
    (lambda: Enrich(LOCK).map, "attribute 'session' of an Enrich"),
    (lambda: Enrich(Client()), "attribute 'lock' of a Client, in attribute 'session' of an Enrich"),
    (
        lambda: Enrich([1, {"main": LOCK}]),
        "value 'main' of a dict, in element 1 of a list, in attribute 'session' of an Enrich",
    ),
    (lambda: functools.partial(print, 1, file=LOCK), "argument 'file' of a partial of print"),
    (Slotted, "attribute 'lock' of a Slotted"),
    (Chosen, "attribute 'kept' of a Chosen"),
    (local_class, "attribute 'shared' of class Local"),
    (local_method, "closure variable 'lock' of function map"),
]


@pytest.mark.parametrize(("make", "place"), CASES)
def test_what_cannot_be_pickled_is_found(make, place):
    found = find_unpicklable(make())
    assert found.place == place
    assert str(found.error).startswith("cannot pickle")


@pytest.mark.parametrize("value", [print, Enrich("x"), lambda value: value, [1, {2: 3}], Client])
def test_what_can_be_pickled_has_nothing_to_find(value):
    assert find_unpicklable(value) is None


def test_what_holds_itself_is_searched_once():
    around = [1]
    around.append(around)
    around.append(LOCK)
    assert find_unpicklable(around).place == "element 2 of a list"


def test_a_search_ends():
    many = [object() for _ in range(MAX_PROBES)] + [LOCK]
    assert find_unpicklable(many).place == ""


def test_a_value_that_is_itself_the_culprit_has_no_place():
    assert find_unpicklable(LOCK).place == ""
