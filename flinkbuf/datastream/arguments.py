"""What the methods of streams check and read of their arguments."""

from __future__ import annotations

import importlib
import inspect
from dataclasses import replace
from types import ModuleType
from typing import TYPE_CHECKING, Generic, TypeVar

from flinkbuf.datastream.slot_sharing_group import SlotSharingGroup
from flinkbuf.runtime.graph.transformation import OperatorTransformation
from flinkbuf.streaming.chain.functions import Function, MapFunction
from flinkbuf.types.type_information import RowTypeInfo, TypeInformation, basic_type
from flinkbuf.types.types import Types, as_type

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from typing_extensions import Self

Options = TypeVar("Options", bound="DataclassInstance")

MAX_PARALLELISM_LIMIT = 32768
_HEX_DIGITS = frozenset("0123456789abcdefABCDEF")


class OptionsBuilder(Generic[Options]):
    """Gathers options in a frozen dataclass; each method of a builder returns the builder."""

    _options: Options

    def _with(self, **changes: object) -> Self:
        self._options = replace(self._options, **changes)
        return self


def checked_uid_hash(uid_hash: str) -> str:
    """Return 32 hex digits as they are."""
    if not isinstance(uid_hash, str) or len(uid_hash) != 32 or not set(uid_hash) <= _HEX_DIGITS:
        raise ValueError(f"Node hash must be a 32 character String that describes a hex code. Found: {uid_hash}")
    return uid_hash.lower()


def group_name(slot_sharing_group: str | SlotSharingGroup) -> str:
    """Return the name of a slot sharing group."""
    if isinstance(slot_sharing_group, SlotSharingGroup):
        return slot_sharing_group.get_name()
    if not isinstance(slot_sharing_group, str):
        raise TypeError(f"a slot sharing group is a str or a SlotSharingGroup, got {slot_sharing_group!r}")
    return slot_sharing_group


def checked_max_parallelism(max_parallelism: int) -> int:
    """Return a number of key groups as it is."""
    if isinstance(max_parallelism, bool) or not isinstance(max_parallelism, int):
        raise TypeError(f"max_parallelism must be an int, got {max_parallelism!r}")
    if max_parallelism <= 0:
        raise ValueError(f"The maximum parallelism must be greater than 0, got {max_parallelism}")
    if max_parallelism > MAX_PARALLELISM_LIMIT:
        raise ValueError(f"Maximum parallelism must be between 1 and {MAX_PARALLELISM_LIMIT}. Found: {max_parallelism}")
    return max_parallelism


def set_parallelism(transformation: OperatorTransformation, parallelism: int) -> None:
    """Give an operator a parallelism; -1 is the environment's."""
    if isinstance(parallelism, bool) or not isinstance(parallelism, int):
        raise TypeError(f"parallelism must be an int, got {parallelism!r}")
    if parallelism < 1 and parallelism != -1:
        raise ValueError(
            "The parallelism of an operator must be at least 1, or ExecutionConfig.PARALLELISM_DEFAULT "
            f"(use system default), got {parallelism}"
        )
    if transformation.max_allowed_parallelism == 1 and parallelism != 1:
        raise ValueError(
            f"The parallelism of non parallel operator must be 1, got {parallelism} for {transformation.name!r}"
        )
    transformation.parallelism = None if parallelism == -1 else parallelism
    transformation.is_parallelism_configured = parallelism != -1


def declared(type_info: object) -> TypeInformation | None:
    """Return a declared type; None for PICKLED_BYTE_ARRAY, which says that nobody knows. A list stands for a ROW."""
    if type_info is None:
        return None
    type_info = Types.ROW(type_info) if isinstance(type_info, list) else as_type(type_info)
    return None if type_info == basic_type("PICKLED_BYTE_ARRAY") else type_info


def declared_rows(description: object) -> TypeInformation | None:
    """Return the declared type of the rows of batches; None: nobody declared one."""
    from flinkbuf.records.arrow_batches import record_type  # not before somebody has columns

    return None if description is None else record_type(description)


def said(type_info: TypeInformation | None) -> TypeInformation:
    """Return what a stream says its type is."""
    return with_names(type_info) or basic_type("PICKLED_BYTE_ARRAY")


def with_names(type_info: TypeInformation | None) -> TypeInformation | None:
    """Return a ROW without names as one with Flink's, f0, f1 and so on, as PyFlink gives it to programs."""
    if isinstance(type_info, RowTypeInfo) and type_info.names is None:
        return Types.ROW_NAMED(type_info.field_names, type_info.field_types)
    return type_info


def check_function(function: object, kind: type[Function], message: str) -> None:
    """Refuse what is neither an instance of a function class nor callable, and what would give no results."""
    check_is_object(function)
    if not isinstance(function, kind) and not callable(function):
        raise TypeError(f"{message}, got {type(function).__name__} {function!r}")
    if inspect.iscoroutinefunction(function):
        raise TypeError(
            f"{function.__name__} is a coroutine function, and what it gives would not be awaited: make it the "
            "async_invoke of an AsyncFunction, for AsyncDataStream.unordered_wait"
        )


def check_is_object(function: object) -> None:
    """Refuse a function class where an object of it is needed: as a callable it would make objects of records."""
    if isinstance(function, type) and issubclass(function, Function):
        raise TypeError(f"{function.__name__} is a class, and an object of it is needed: {function.__name__}(...)")


def check_gives_values(function: object) -> None:
    """Refuse a generator function where each call is to give one result."""
    method = function.map if isinstance(function, MapFunction) else function
    if inspect.isgeneratorfunction(method):
        raise TypeError(
            f"{getattr(method, '__qualname__', 'the function')} yields, so that each result would be a generator: use "
            "flat_map, or return"
        )


def of_spark(name: str) -> ModuleType:
    """Return a module of ``flinkbuf.spark``, which stands above this and needs pyspark: it is imported when asked for.

    Raises
    ------
    ImportError
        If pyspark is missing, with what to install.
    """
    try:
        importlib.import_module("pyspark")
    except ImportError as error:
        raise ImportError(f"this needs pyspark ({error}): install flinkbuf[spark]") from error
    return importlib.import_module(f"flinkbuf.spark.{name}")
