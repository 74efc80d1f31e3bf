"""What an input or a source says at the end of a turn.

Flink: InputStatus, DataInputStatus.
"""

from enum import IntEnum


class InputStatus(IntEnum):
    """What is to be expected of the next turn.

    Attributes
    ----------
    MORE_AVAILABLE
        Something can be emitted at once.
    NOTHING_AVAILABLE
        Nothing for now; the task is woken when there is.
    END_OF_DATA
        The last record was emitted, and event time ends. END_OF_INPUT follows.
    END_OF_INPUT
        Nothing comes any more.
    STOPPED
        As END_OF_DATA, but event time goes on in another run.
    """

    MORE_AVAILABLE = 0
    NOTHING_AVAILABLE = 1
    END_OF_DATA = 2
    END_OF_INPUT = 3
    STOPPED = 4
