"""An exception on its way between processes: what it said, where it was, and whether it is the cause or an echo."""

from __future__ import annotations

from dataclasses import dataclass, field


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
        As Python prints it; empty where nobody raised anything.
    location : dict
        What the exception carries as attributes about its place: operator, subtask, record and so on, as texts.
    is_echo : bool
        It says only that somebody else has gone: another failure of the same moment is the cause.
    can_restart : bool
        Whether the restart strategy is asked; a job whose failure says no fails at once.
    exception : BaseException or None
        The object itself, in the process where it was raised; it never travels.
    """

    type_name: str
    message: str
    traceback: str = ""
    location: dict[str, str] = field(default_factory=dict)
    is_echo: bool = False
    can_restart: bool = True
    exception: BaseException | None = field(default=None, compare=False, repr=False, metadata={"travels": False})
