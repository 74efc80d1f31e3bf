"""From what a user's function returns or yields to records: on the main output, or on the side output of a tag.

PyFlink: _emit_results in fn_execution/datastream/process/input_handler.py.
"""

from libc.stdint cimport int64_t

from flinkbuf._core.operators.stream_operator cimport Output, StreamOperator


cdef class SideOutput:
    """What a tag is to an operator: the id of a side output."""

    def __init__(self, str tag_id not None):
        self.tag_id = tag_id


cdef int refuse(object results, str what) except -1:
    raise TypeError(
        f"{what} must return an iterable of results or None, or yield them; it returned "
        f"{type(results).__name__}, {results!r:.80}"
    )


cdef int emit_results(StreamOperator operator, object results, int64_t timestamp, str what) except -1:
    """Emit each result of a call of the user's function `what`; called while `is_in_function` is set, and clears it.

    The function runs on between two results, so each error of it, and no other, is found `is_in_function`.
    """
    cdef Output output = operator.output
    cdef object result
    if results is None:
        operator.is_in_function = False
        return 0
    try:
        iterator = iter(results)
    except TypeError:
        if hasattr(results, "__iter__"):
            raise
        refuse(results, what)
    for result in iterator:
        operator.is_in_function = False
        if type(result) is tuple and (<tuple>result) and isinstance((<tuple>result)[0], SideOutput):
            if len(<tuple>result) != 2:
                operator.is_in_function = True
                raise ValueError(f"{what} must yield a pair of tag and value, got {len(<tuple>result)} items")
            output.collect_side((<SideOutput>(<tuple>result)[0]).tag_id, (<tuple>result)[1], timestamp)
        else:
            output.collect(result, timestamp)
        operator.is_in_function = True
    operator.is_in_function = False
    return 0
