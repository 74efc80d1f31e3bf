"""Finds what in a function, or in what it holds, cannot be pickled: which attribute, or which variable."""

from __future__ import annotations

import functools
import reprlib
import types
from collections.abc import Iterator
from typing import NamedTuple

import cloudpickle

MAX_DEPTH = 12
MAX_PROBES = 2_000  # a list of a million objects is not pickled one by one


class Unpicklable(NamedTuple):
    """What cannot be pickled, and why."""

    place: str  # "closure variable 'connection' of function enrich"; empty: the value itself
    error: Exception  # what pickling that alone raised


class _Part(NamedTuple):
    place: str
    value: object
    is_ours: bool = False  # a place within flinkbuf, of which a user knows nothing


def find_unpicklable(value: object) -> Unpicklable | None:
    """Return the innermost part of a value that cannot be pickled; None: all can.

    Examples
    --------
    >>> import threading
    >>> def enrich_with(connection):
    ...     def enrich(value):
    ...         return connection, value
    ...     return enrich
    >>> found = find_unpicklable([enrich_with(threading.Lock())])
    >>> print(found.place)
    closure variable 'connection' of function enrich, in element 0 of a list
    >>> print(found.error)
    cannot pickle '_thread.lock' object
    """
    return _Search().run(value)


class _Search:
    """One search; counts how often it pickled something."""

    def __init__(self) -> None:
        self._probes = 0
        self._seen: set[int] = set()
        self._kept: list[object] = []  # parts that are made on the way, so that no other gets the id of one

    def run(self, value: object) -> Unpicklable | None:
        error = self._error_of(value)
        if error is None:
            return None
        places: list[_Part] = []
        while len(places) < MAX_DEPTH:
            inner = self._first_bad_part(value)
            if inner is None:
                break
            part, error = inner
            places.append(part)
            value = part.value
        shown = [part.place for part in reversed(places) if not part.is_ours]
        return Unpicklable(", in ".join(shown), error)

    def _first_bad_part(self, value: object) -> tuple[_Part, Exception] | None:
        self._seen.add(id(value))
        self._kept.append(value)
        for part in _parts_of(value):
            if id(part.value) in self._seen:
                continue
            error = self._error_of(part.value)
            if error is not None:
                return part, error
        return None

    def _error_of(self, value: object) -> Exception | None:
        self._probes += 1
        if self._probes > MAX_PROBES:
            return None
        try:
            cloudpickle.dumps(value)
        except Exception as error:
            return error
        return None


def _parts_of(value: object) -> Iterator[_Part]:
    """Yield the parts in a pickle of the value, as far as they can be told without pickling it."""
    if isinstance(value, types.FunctionType):
        yield from _parts_of_function(value)
    elif isinstance(value, types.MethodType):
        yield _Part(f"the object of method {value.__name__}", value.__self__, is_ours=True)
        yield _Part(f"method {value.__name__}", value.__func__, is_ours=True)
    elif isinstance(value, functools.partial):
        yield from _parts_of_partial(value)
    elif isinstance(value, (list, tuple, set, frozenset)):
        kind = type(value).__name__
        yield from (_Part(f"element {index} of a {kind}", each) for index, each in enumerate(value))
    elif isinstance(value, dict):
        for key, each in value.items():
            yield _Part(f"value {reprlib.repr(key)} of a dict", each)
            yield _Part(f"key {reprlib.repr(key)} of a dict", key)
    elif isinstance(value, type):
        yield from _parts_of_class(value)
    else:
        yield from _parts_of_object(value)


def _parts_of_function(function: types.FunctionType) -> Iterator[_Part]:
    name = function.__name__
    for variable, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            yield _Part(f"closure variable {variable!r} of function {name}", cell.cell_contents)
        except ValueError:  # it has no value yet
            continue
    for variable in sorted(_globals_used(function.__code__)):
        if variable in function.__globals__:
            yield _Part(f"global variable {variable!r}, used by function {name}", function.__globals__[variable])
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    defaults = function.__defaults__ or ()
    by_name = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True)) | (function.__kwdefaults__ or {})
    for parameter, default in by_name.items():
        yield _Part(f"the default of parameter {parameter!r} of function {name}", default)
    for attribute, each in vars(function).items():
        yield _Part(f"attribute {attribute!r} of function {name}", each)


def _globals_used(code: types.CodeType) -> set[str]:
    """Names of globals, those of attributes among them, in a function and in those that it defines."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _globals_used(constant)
    return names


def _parts_of_partial(value: functools.partial[object]) -> Iterator[_Part]:
    name = getattr(value.func, "__name__", type(value.func).__name__)
    is_ours = _is_ours(value.func)
    yield _Part(f"the function of a partial of {name}", value.func, is_ours=True)
    for index, argument in enumerate(value.args):
        yield _Part(f"argument {index} of a partial of {name}", argument, is_ours)
    for keyword, argument in value.keywords.items():
        yield _Part(f"argument {keyword!r} of a partial of {name}", argument, is_ours)


def _parts_of_class(kind: type) -> Iterator[_Part]:
    for attribute, each in vars(kind).items():
        if attribute not in ("__dict__", "__weakref__", "__doc__", "__module__"):
            inner = each.__func__ if isinstance(each, (classmethod, staticmethod)) else each
            is_method = isinstance(inner, types.FunctionType)
            yield _Part(f"attribute {attribute!r} of class {kind.__name__}", inner, is_method or _is_ours(kind))
    for base in kind.__bases__:
        yield _Part(f"base class {base.__name__} of class {kind.__name__}", base)


def _parts_of_object(value: object) -> Iterator[_Part]:
    kind = type(value)
    is_ours = _is_ours(kind)
    for attribute, each in _attributes_of(value).items():
        yield _Part(f"attribute {attribute!r} of {_with_article(kind.__name__)}", each, is_ours)
    if kind.__module__ == "__main__" or "<locals>" in kind.__qualname__:  # such a class travels with its objects
        yield _Part(f"class {kind.__name__}", kind, is_ours=True)


def _attributes_of(value: object) -> dict[str, object]:
    """Return the state that the object gives pickle, else all its attributes."""
    state: object = None
    if hasattr(type(value), "__getstate__") and getattr(object, "__getstate__", None) is not type(value).__getstate__:
        try:
            state = value.__getstate__()
        except Exception:
            state = None
    if isinstance(state, dict):
        return {str(name): each for name, each in state.items()}
    attributes = dict(getattr(value, "__dict__", {}))
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(value, name):
                attributes.setdefault(name, getattr(value, name))
    return attributes


def _is_ours(kind: object) -> bool:
    module = getattr(kind, "__module__", None)
    return isinstance(module, str) and (module == "flinkbuf" or module.startswith("flinkbuf."))


def _with_article(name: str) -> str:
    return f"an {name}" if name[:1].lower() in "aeiou" else f"a {name}"
