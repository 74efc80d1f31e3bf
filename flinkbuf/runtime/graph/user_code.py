"""How the user's functions get into the subtasks: each has a copy of its own, made by cloudpickle.

So functions that keep something in themselves do not meet in another subtask, whether that is a thread of the same
process or a process elsewhere. What is meant to be shared says so: `flinkbuf.streaming.chain.by_reference`.
"""

from __future__ import annotations

import importlib
import io
import pickle
import sys
import threading
from collections import ChainMap
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType
from typing import TYPE_CHECKING, ClassVar

import cloudpickle

from flinkbuf.runtime.graph.unpicklable import find_unpicklable
from flinkbuf.streaming.chain.operator_config import ChainConfig

if TYPE_CHECKING:
    from flinkbuf.runtime.graph.job_graph import JobVertex

DYNAMIC_CODE = "<dynamic-code>"  # what cloudpickle 3.1.2 and later write instead of a function's file


def _reduce_code(code: CodeType) -> tuple[Callable[..., CodeType], tuple[object, ...]]:
    """Reduce code as cloudpickle does, but with its file: a traceback shows the lines."""
    make, arguments = cloudpickle.CloudPickler.dispatch_table[CodeType](code)
    return make, tuple(code.co_filename if each == DYNAMIC_CODE else each for each in arguments)


class UserCodePickler(cloudpickle.CloudPickler):
    """Pickles functions by value with the names of their files, and classes by value with their slots."""

    dispatch_table: ClassVar[object] = ChainMap({CodeType: _reduce_code}, cloudpickle.CloudPickler.dispatch_table)

    def reducer_override(self, value: object) -> object:
        """Reduce as cloudpickle does, which gives the copy of a class with slots a ``__dict__`` instead of them.

        Objects of such a copy could not be unpickled where the class itself is.
        """
        reduced = super().reducer_override(value)
        if isinstance(value, type) and isinstance(reduced, tuple) and "__slots__" in vars(value):
            make, (*before, attributes, tracker, extra), *rest = reduced
            if isinstance(attributes, dict):
                slots = vars(value)["__slots__"]
                attributes = {"__slots__": slots if isinstance(slots, str) else tuple(slots), **attributes}
            return make, (*before, attributes, tracker, extra), *rest
        return reduced


def pickled(value: object) -> bytes:
    """Pickle what has functions of the user's in it."""
    with io.BytesIO() as file:
        UserCodePickler(file).dump(value)
        return file.getvalue()


# Tasks of a process start side by side, and what they unpickle imports modules.
_unpickling = threading.RLock()


class _UserCodeUnpickler(pickle.Unpickler):
    """Imports a package before the module in it that a pickle names.

    Python locks the module that it is asked for, and then its package. Another thread that imports the package at that
    moment has locked that, and wants the module: Python sees the deadlock, and lets one of them have a module that is
    half imported, which fails.
    """

    def find_class(self, module: str, name: str) -> object:
        """Find a class or a function by the name of its module."""
        if module not in sys.modules:
            parts = module.split(".")
            for count in range(1, len(parts)):
                importlib.import_module(".".join(parts[:count]))
        return super().find_class(module, name)


def unpickled(data: bytes) -> object:
    """Return a copy of what `pickled` has made bytes of; one thread after the other, since that imports modules."""
    with _unpickling:
        return _UserCodeUnpickler(io.BytesIO(data)).load()


@dataclass(frozen=True)
class PickledChain:
    """The chain of a vertex, as bytes: one copy for each subtask comes out."""

    vertex_name: str
    data: bytes

    @classmethod
    def of(cls, vertex: JobVertex) -> PickledChain:
        """Pickle the operators of a vertex; an error says which function cannot be.

        Raises
        ------
        TypeError
            A function, or what it holds, cannot be pickled.
        """
        try:
            return cls(vertex.name, pickled(vertex.chain))
        except Exception:
            _find_culprit(vertex)
            raise

    def copy(self) -> ChainConfig:
        """Return operators' factories and partitioners of their own for one subtask."""
        chain = unpickled(self.data)
        assert isinstance(chain, ChainConfig)
        return chain


def _find_culprit(vertex: JobVertex) -> None:
    """Pickle one by one what cannot be pickled as a whole: the first error names its operator."""
    for operator in vertex.chain.operators:
        _check_picklable(operator.factory, operator.name)
    partitioners = [edge.partitioner for operator in vertex.chain.operators for edge in operator.network_edges]
    for partitioner in partitioners:
        _check_picklable(partitioner, f"{vertex.name}, partitioner")


def _check_picklable(value: object, name: str) -> None:
    found = find_unpicklable(value)
    if found is not None:
        what = found.place or "its function, or something that it holds,"
        raise TypeError(
            f"operator {name!r}: {what} cannot be pickled, but each subtask gets a copy: "
            f"{type(found.error).__name__}: {found.error}; make what cannot be copied in open() instead"
        ) from found.error
