"""Rows as the values of a binary column and back, for functions of columns: whole arrays at a time, without the GIL."""

from libc.stdint cimport int64_t

from flinkbuf._core.columns.arrow_binary cimport fb_arrow_binary_is, fb_arrow_binary_read, fb_arrow_binary_write
from flinkbuf._core.columns.arrow_column cimport ArrowBatch, ArrowPlan, ArrowSchema, fb_arrow_fault, path_of
from flinkbuf._core.columns.arrow_rows cimport fb_arrow_rows, fb_arrow_rows_close, fb_arrow_rows_open
from flinkbuf._core.flow.batch_reader cimport BatchBuilder
from flinkbuf._core.ground.errors cimport FB_EBOUNDS, check
from flinkbuf._core.value.type_codec cimport TypeCodec

from flinkbuf.errors import record_refused


def write_values(TypeCodec codec not None, batches, BatchBuilder values not None):
    """All rows of the batches, an array of bytes: each is what `codec` makes of the row, null where that is null.

    Parameters
    ----------
    codec : TypeCodec
        Of the rows.
    batches : iterable of ArrowBatch
    values : BatchBuilder
        Of the bytes.

    Raises
    ------
    ValueError
        For a row that the type cannot hold, and where the array has no room for it.
    TypeError
        For columns that are not those of the type.
    """
    cdef ArrowBatch batch
    cdef ArrowPlan plan = None
    cdef ArrowSchema* planned_for = NULL
    cdef object planned_owner = None
    cdef fb_arrow_rows rows
    cdef fb_arrow_fault fault
    cdef int64_t row = 0
    cdef int code
    for batch in batches:
        if plan is None or planned_for != batch.schema or planned_owner is not batch.owner:
            plan = ArrowPlan(codec, batch)
            planned_for, planned_owner = batch.schema, batch.owner
        plan.bind(batch)
        check(fb_arrow_rows_open(&rows, &plan.root))
        with nogil:
            code = fb_arrow_binary_write(&rows, &values.builder, &fault)
            fb_arrow_rows_close(&rows)
        check(code)
        if fault.column is not NULL:
            where, row = path_of(fault.column), row + fault.row
            reason = (<bytes>fault.reason).decode("ascii")
            raise record_refused(ValueError(f"row {row}: {where}: {reason}"), row, "type", where)
        row += plan.root.length
    return values.hand_over()


def read_values(TypeCodec bytes_codec not None, batches, BatchBuilder rows not None, bint is_permissive):
    """The rows in all values of the batches, null where a value is null.

    Parameters
    ----------
    bytes_codec : TypeCodec
        Of the bytes.
    batches : iterable of ArrowBatch
        Of one column of bytes.
    rows : BatchBuilder
    is_permissive : bool
        What is no record becomes null.

    Raises
    ------
    CorruptDataError
        For a value that is no record; the rows before it are lost.
    ValueError
        Where a column has no room for all rows.
    TypeError
        For a column that holds no bytes.
    """
    cdef ArrowBatch batch
    cdef ArrowPlan plan
    cdef int64_t before = 0, taken
    for batch in batches:
        plan = ArrowPlan(bytes_codec, batch)
        if not fb_arrow_binary_is(&plan.root):
            raise TypeError(f"{path_of(&plan.root)}: the values are no bytes; give a column of binary")
        plan.bind(batch)
        with nogil:
            taken = fb_arrow_binary_read(&plan.root, &rows.builder, is_permissive, &rows.reading)
        check(<int>min(taken, 0))
        if rows.reading.code == FB_EBOUNDS:
            raise ValueError(str(rows.error(f"row {before + taken}", "give fewer values at a time")))
        if rows.reading.code != 0:
            raise rows.error(f"row {before + taken}", "")
        before += taken
    return rows.hand_over()
