"""Say on an exception of a user's function where it happened; the same exception object goes on.

Flink: ExceptionInChainedOperatorException, which wraps instead.
"""

from __future__ import annotations

import contextlib
import reprlib

from flinkbuf.streaming.chain.operator_config import OperatorConfig, TaskInfo

NO_RECORD = object()
REPR_LIMIT = 400  # characters


class _Bounded(reprlib.Repr):
    """Containers are cut before they are shown, so that a large record costs no more than a small one."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = self.maxlong = 200
        self.maxlist = self.maxtuple = self.maxdict = self.maxset = self.maxfrozenset = self.maxarray = 12


_bounded = _Bounded()


def bounded_repr(value: object) -> str:
    """Return ``repr(value)``, or as much of it as fits; never raises.

    Examples
    --------
    >>> bounded_repr(("a", 1)), len(bounded_repr("x" * 10_000))
    ("('a', 1)", 200)
    """
    try:
        text = _bounded.repr(value)
    except BaseException as error:  # sys.exit(), too, must not take the place of the error that is described
        return f"<{type(value).__name__}, whose repr raises {type(error).__name__}>"
    return text if len(text) <= REPR_LIMIT else text[: REPR_LIMIT - 3] + "..."


def locate_error(
    error: BaseException, info: TaskInfo, config: OperatorConfig, record: object = NO_RECORD, method: str | None = None
) -> None:
    """Set what is known of the place as attributes, and say it in a note where Python has notes.

    Parameters
    ----------
    error : BaseException
        Gets ``operator_name``, ``operator_id``, ``subtask_index``, ``task_name`` and ``record`` (None without one).
    info, config
        The task and the operator.
    record : object, optional
        What the user's function was called with.
    method : str, optional
        What was called, where it was no record: "open", "close", ...
    """
    name = getattr(config.factory, "shown_as", "") or config.name
    place = f"in operator {name!r} of task {info.task_name_with_subtask}"
    if method is not None:
        place += f", in {method}()"
    if record is not NO_RECORD:
        place += f", with the record {bounded_repr(record)}"
    attributes = {
        "operator_name": name,
        "operator_id": config.operator_id,
        "subtask_index": info.subtask_index,
        "task_name": info.task_name_with_subtask,
        "record": None if record is NO_RECORD else record,
    }
    for name, value in attributes.items():
        with contextlib.suppress(Exception):  # a class may have rules of its own
            setattr(error, name, value)
    _add_note(error, place)


def _add_note(error: BaseException, text: str) -> None:
    add_note = getattr(error, "add_note", None)  # Python 3.11
    if add_note is not None and text not in getattr(error, "__notes__", ()):
        with contextlib.suppress(Exception):
            add_note(text)


def keep_as_context(first: BaseException, other: BaseException) -> None:
    """Show an error that came after `first` in its traceback, behind what is there already.

    Examples
    --------
    >>> first, second = ValueError("first"), ValueError("second")
    >>> keep_as_context(first, second)
    >>> first.__context__
    ValueError('second')
    """
    if any(error is first for error in _contexts(other)):
        return
    *_, last = _contexts(first)
    if all(error is not last for error in _contexts(other)):
        last.__context__ = other


def _contexts(error: BaseException) -> list[BaseException]:
    """The error and what it was raised in, each once."""
    chain: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and all(current is not seen for seen in chain):
        chain.append(current)
        current = current.__context__
    return chain
