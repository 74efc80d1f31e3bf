"""The name of a side output."""

from __future__ import annotations

from typing import Generic

from flinkbuf._core.operators.function_results import SideOutput
from flinkbuf.types.type_information import TypeInformation
from flinkbuf.types.type_parameters import T
from flinkbuf.types.types import Types


class OutputTag(SideOutput, Generic[T]):
    """Names a side output and types its records: ``yield tag, value`` sends `value` there. PyFlink's ``OutputTag``.

    Parameters
    ----------
    tag_id : str
        Not empty; tags of one id are one side output.
    type_info : TypeInformation or list of TypeInformation, optional
        Of the records; a list stands for a row of such fields, None for any objects.

    Examples
    --------
    >>> OutputTag("late").tag_id
    'late'
    """

    def __init__(self, tag_id: str, type_info: TypeInformation | list[TypeInformation] | None = None) -> None:
        if not tag_id:
            raise ValueError("OutputTag tag_id cannot be None or empty string")
        if type_info is None:
            type_info = Types.PICKLED_BYTE_ARRAY()
        elif isinstance(type_info, list):
            type_info = Types.ROW(type_info)
        elif not isinstance(type_info, TypeInformation):
            raise TypeError("OutputTag type_info must be None, list or TypeInformation")
        super().__init__(tag_id)
        self.type_info: TypeInformation = type_info

    def __reduce__(self) -> tuple[object, ...]:
        return OutputTag, (self.tag_id, self.type_info)

    def __repr__(self) -> str:
        return f"OutputTag({self.tag_id!r})"
