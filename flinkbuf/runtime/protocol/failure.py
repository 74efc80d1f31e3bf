"""An exception on its way between processes: what it said, where it was, and whether it is the cause or an echo.

In the process that raised it the object itself goes along, so that a job on threads of the program fails with the very
exception of the user's function. Elsewhere its texts become an exception that is caught by the same names.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import re
import traceback as tracebacks
from dataclasses import dataclass, field, replace
from typing import Any, Final

from flinkbuf import errors
from flinkbuf.errors import CancelTaskError, FlinkbufError, RemoteTransportError
from flinkbuf.streaming.chain.error_location import bounded_repr

MESSAGE_LIMIT: Final = 64 * 1024  # characters; a message of the control plane has a limit, too
TRACEBACK_LIMIT: Final = 256 * 1024  # of which the last are kept: they say most
LOCATION: Final = ("operator_name", "operator_id", "subtask_index", "task_name", "record")

_OF_PARTITIONS: Final = (FlinkbufError, OSError)  # what a channel raises names its partition
_PARTITION_ID: Final = re.compile(r"\b[0-9a-f]{120}\b")

# Raised anew elsewhere, these would end a loop, a generator, a thread or the program.
_NEVER_AGAIN: Final = (StopIteration, StopAsyncIteration)


class JobCanceledError(FlinkbufError):
    """The job was canceled before it had ended."""


class JobSuspendedError(FlinkbufError):
    """The job has not ended, but it does not go on in this program: another one has taken it over, or may."""


class TracebackElsewhere(Exception):
    """The traceback of an exception in another process, as it was printed there: the cause of what is raised here."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


class JobFailedError(FlinkbufError):
    """A job failed in another process: made of what that process told.

    What ``except ValueError`` catches there is caught here, too: the exception is of the builtin class, or that of
    ``flinkbuf.errors``, which the original had or came from. Its text is the original's, its cause has the traceback.
    Flink: JobExecutionException, SerializedThrowable.

    Attributes
    ----------
    failure : Failure
    operator_name, operator_id, task_name, record : str or None
        Where it was, as texts.
    subtask_index : int or None
    """

    def __init__(self, failure: Failure) -> None:
        self.failure = failure
        self.args = (failure.message or failure.type_name.removeprefix("builtins."),)
        if failure.traceback:
            self.__cause__ = TracebackElsewhere(failure.text)
        if failure.place:
            add_note(self, failure.place)
        for name in LOCATION:
            setattr(self, name, failure.location.get(name))
        index = failure.location.get("subtask_index", "")
        self.subtask_index = int(index) if index.isdecimal() else None

    def __str__(self) -> str:
        return str(self.args[0])

    def __reduce__(self) -> tuple[object, ...]:
        return _job_failed, (self.failure,)


class InternalJobError(FlinkbufError, RuntimeError):
    """Something in flinkbuf went wrong while it ran a job; not the user's doing.

    Attributes
    ----------
    story : list of (int, object, list)
        The time, what the job master was told, and what it wanted done; the last is what failed.
    """

    can_restart = False

    def __init__(self, text: str, story: list[tuple[int, object, list[object]]] | None = None) -> None:
        super().__init__(text)
        self.story = story or []


@dataclass(frozen=True)
class Failure:
    """Why a task, a source's enumerator or a task manager failed. Flink: SerializedThrowable, ErrorInfo.

    Attributes
    ----------
    type_name : str
        The exception's class with its module, such as "builtins.ValueError".
    message : str
        What it says.
    traceback : str
        As Python prints it; empty where no exception was raised.
    location : dict
        What the exception carries as attributes about its place: operator, subtask, record and so on, as texts.
    is_echo : bool
        The failure only says that another process has gone: a failure of the same moment is the cause.
    can_restart : bool
        Whether the restart strategy is asked; if not, the job fails at once.
    exception : BaseException or None
        The object itself, in the process where it was raised; it never travels.
    lost_partition : str
        Id of a result partition that could not be read: it is written again; empty where it is not about one.
    base_names : tuple of str
        Classes that it came from and that every process has, the nearest first, such as "builtins.OSError".
    """

    type_name: str
    message: str
    traceback: str = ""
    location: dict[str, str] = field(default_factory=dict)
    is_echo: bool = False
    can_restart: bool = True
    exception: BaseException | None = field(default=None, compare=False, repr=False, metadata={"travels": False})
    base_names: tuple[str, ...] = ()
    lost_partition: str = ""

    @classmethod
    def of(cls, error: BaseException, **changes: Any) -> Failure:
        """Describe an exception; never raises, whatever the exception's own methods do.

        An exception with an attribute ``can_restart = False`` fails its job without asking the restart strategy.
        `changes` are attributes that are known better, such as ``is_echo=True``.

        Examples
        --------
        >>> failure = Failure.of(KeyError("thirty"))
        >>> failure.type_name, failure.message, failure.is_echo
        ('builtins.KeyError', "'thirty'", False)
        """
        if isinstance(error, JobFailedError):
            return replace(error.failure, exception=error, **changes)
        kind = type(error)
        failure = cls(
            type_name=_name_of(kind),
            message=_text_of(error),
            traceback=_traceback_of(error),
            location=_location_of(error),
            is_echo=isinstance(error, (CancelTaskError, RemoteTransportError)),
            can_restart=getattr(error, "can_restart", True) is not False,
            exception=error,
            lost_partition=_lost_partition_of(error),
            base_names=tuple(_name_of(base) for base in kind.__mro__ if _found(_name_of(base)) is base),
        )
        return replace(failure, **changes) if changes else failure

    @property
    def text(self) -> str:
        """The traceback as it was printed there, then the place; without one, class and message."""
        head = self.traceback.rstrip() or f"{self.type_name.removeprefix('builtins.')}: {self.message}"
        place = self.place
        return head if not place or place in head else f"{head}\n{place}"

    @property
    def place(self) -> str:
        """Return the place of the failure, as `locate_error` says it; '' if it was in no operator."""
        name, task = self.location.get("operator_name"), self.location.get("task_name")
        if name is None or task is None:
            return ""
        place = f"in operator {name!r} of task {task}"
        record = self.location.get("record")
        return place if record is None else f"{place}, with the record {record}"

    def to_exception(self) -> BaseException:
        """Return what the program raises: the object itself where it is there, else a `JobFailedError`.

        Examples
        --------
        >>> error = Failure("builtins.KeyError", "'thirty'", location={"operator_name": "first"}).to_exception()
        >>> isinstance(error, JobFailedError), isinstance(error, KeyError), error.operator_name
        (True, True, 'first')
        """
        return self.exception if self.exception is not None else _job_failed(self)

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "exception": None}


def add_note(error: BaseException, text: str) -> None:
    """Add a note to an exception, where Python has notes; never raises."""
    with contextlib.suppress(Exception):
        if text not in getattr(error, "__notes__", ()):
            error.add_note(text)  # Python 3.11


def _name_of(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _text_of(error: BaseException) -> str:
    try:
        text = str(error)
    except BaseException as raised:  # sys.exit() in it, too
        return f"<{type(error).__name__}, whose str raises {type(raised).__name__}>"
    return text if len(text) <= MESSAGE_LIMIT else text[: MESSAGE_LIMIT - 3] + "..."


def _traceback_of(error: BaseException) -> str:
    try:
        text = "".join(tracebacks.format_exception(type(error), error, error.__traceback__))
    except BaseException:  # a str or a repr of the user's that raises
        text = "".join(tracebacks.format_tb(error.__traceback__)) + f"{type(error).__name__}: {_text_of(error)}\n"
    return text if len(text) <= TRACEBACK_LIMIT else "..." + text[3 - TRACEBACK_LIMIT :]


def _location_of(error: BaseException) -> dict[str, str]:
    location = {}
    for name in LOCATION:
        value = getattr(error, name, None)
        if value is not None:
            location[name] = value if isinstance(value, str) and name != "record" else bounded_repr(value)
    return location


def _lost_partition_of(error: BaseException) -> str:
    """Return the lost partition that an exception names, or that its cause names."""
    seen: set[int] = set()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        partition_id = getattr(each, "partition_id", None)
        if partition_id is not None:
            return partition_id if isinstance(partition_id, str) else bytes(partition_id).hex()
        found = _PARTITION_ID.search(_text_of(each)) if isinstance(each, _OF_PARTITIONS) else None
        if found is not None:
            return found.group()
        each = each.__cause__ or each.__context__
    return ""


@functools.lru_cache(maxsize=256)
def _found(name: str) -> type[Exception] | None:
    """Return the class of that name in every process; None for classes not to be raised anew, and for the plainest."""
    module_name, _, class_name = name.rpartition(".")
    module = {"builtins": builtins, "flinkbuf.errors": errors}.get(module_name)
    kind = getattr(module, class_name, None)
    if not isinstance(kind, type) or not issubclass(kind, Exception) or issubclass(kind, _NEVER_AGAIN):
        return None
    return None if kind in (Exception, FlinkbufError) else kind


@functools.lru_cache(maxsize=256)
def _class_of(name: str) -> type[JobFailedError] | None:
    """Return the JobFailedError that also is of the class by that name; one for each, so that it can be compared."""
    base = _found(name)
    if base is None:
        return None
    namespace = {"__module__": __name__, "__doc__": f"A job failed in another process with {base.__name__}."}
    return type("JobFailedError", (JobFailedError, base), namespace)


def _job_failed(failure: Failure) -> JobFailedError:
    for name in (failure.type_name, *failure.base_names):
        with contextlib.suppress(Exception):  # some classes want more than a text, or share no layout with ours
            kind = _class_of(name)
            if kind is not None:
                return kind(failure)
    return JobFailedError(failure)
