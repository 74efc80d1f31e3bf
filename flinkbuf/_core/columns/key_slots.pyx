"""Keys of column batches as dense slots: numbers by which accumulators and states lie side by side in arrays."""

import os

from cpython.mem cimport PyMem_Calloc, PyMem_Free
from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

from flinkbuf._core.columns.arrow_column cimport (
    FB_ARROW_STRUCT, ArrowArray, ArrowSchema, arrow_name, fb_arrow_column, fb_arrow_column_bind, fb_arrow_fault,
    fb_arrow_type_parse, name_of, path_of,
)
from flinkbuf._core.ground.errors cimport check


cdef class PlainColumns:
    """The columns of a schema by their formats alone, without types of ours: to be put on batch after batch."""

    def __dealloc__(self):
        PyMem_Free(self.root.children)

    cdef int open(self, ArrowSchema* schema) except -1:
        """Take the children of a struct; TypeError for what has none, and for formats that are none."""
        cdef int64_t i
        if schema.release is NULL:
            raise ValueError("the Arrow schema has been released")
        if fb_arrow_type_parse(schema.format, &self.root.arrow) < 0 or self.root.arrow.kind != FB_ARROW_STRUCT:
            raise TypeError(f"columns come as a batch, got {arrow_name(schema.format)}")
        self.root.children = <fb_arrow_column*>PyMem_Calloc(max(schema.n_children, 1), sizeof(fb_arrow_column))
        if self.root.children is NULL:
            raise MemoryError
        self.root.child_count = self.root.array_child_count = <uint32_t>schema.n_children
        self.root.path = b""
        self.formats, self.names = formats_of(schema), names_of(schema)
        for i in range(schema.n_children):
            self.root.children[i].path = <bytes>self.names[i]
            self.root.children[i].place = <uint32_t>i
            if schema.children[i].dictionary is not NULL:
                raise TypeError(f"{path_of(&self.root.children[i])}: a dictionary; cast the column to its values")
            if fb_arrow_type_parse(schema.children[i].format, &self.root.children[i].arrow) < 0:
                raise TypeError(f"{path_of(&self.root.children[i])}: {arrow_name(schema.children[i].format)} is no "
                                "plain column")
        return 0

    cdef int bind(self, object batch) except -1:
        """Put the columns on a batch, which is held from then on; TypeError if it has other columns."""
        cdef ArrowSchema* schema
        capsules = batch.__arrow_c_array__()
        schema = <ArrowSchema*>PyCapsule_GetPointer(capsules[0], "arrow_schema")
        if formats_of(schema) != self.formats:
            raise TypeError(f"the columns are {described(formats_of(schema), names_of(schema))}, but declared are "
                            f"{described(self.formats, self.names)}")
        self.bound = bind_column(&self.root, capsules)
        return 0


cdef object bind_column(fb_arrow_column* column, object capsules):
    """Put a column on an array of its format; returned is what holds the array. ValueError for a malformed one."""
    cdef ArrowArray* array = <ArrowArray*>PyCapsule_GetPointer(capsules[1], "arrow_array")
    cdef fb_arrow_fault fault
    cdef int code
    with nogil:
        code = fb_arrow_column_bind(column, array, &fault)
    if code < 0:
        raise ValueError(f"{path_of(fault.column)}: {(<bytes>fault.reason).decode('ascii')}; the array is malformed")
    if column.arrow.kind == FB_ARROW_STRUCT and array.null_count != 0 and array.buffers[0] is not NULL:
        raise ValueError(f"{path_of(column)}: rows that are null; take out such rows")
    return capsules


cdef tuple formats_of(ArrowSchema* schema):
    cdef int64_t i
    return tuple([b"" if schema.children[i].format is NULL else <bytes>schema.children[i].format
                  for i in range(schema.n_children)])


cdef tuple names_of(ArrowSchema* schema):
    cdef int64_t i
    return tuple([name_of(schema.children[i]).encode("utf-8", "replace") for i in range(schema.n_children)])


cdef str described(tuple formats, tuple names):
    return ", ".join([f"{name.decode()} {arrow_name(<bytes>form)}" for name, form in zip(names, formats)]) or "none"


cdef class KeySlots:
    """A table from the keys of column batches to dense slots: 0, 1, 2 and so on, in the order of first sight.

    It keeps of the keys what it needs to tell them apart; whoever wants to see them keeps them beside it, by the rows
    that are new. Null is a key like any other. Keys are equal as in Java: every NaN is one key, -0.0 and 0.0 are two.

    Parameters
    ----------
    schema : pyarrow.Schema
        Of the key columns, one or more: of booleans, integers, float and double, decimals, dates, times, timestamps,
        durations, strings and binary.

    Raises
    ------
    TypeError
        For columns of other types.

    Examples
    --------
    >>> import pyarrow as pa
    >>> batch = pa.record_batch({"word": ["a", "b", "a", None]})
    >>> keys = KeySlots(batch.schema)
    >>> slots, new_rows = keys.find_or_add(batch)
    >>> slots.tolist(), new_rows.tolist(), len(keys)
    ([0, 1, 0, 2], [0, 1, 3], 3)
    """

    def __cinit__(self, schema):
        cdef uint32_t i
        cdef uint64_t[FB_SLOT_TABLE_SEEDS] seeds
        cdef fb_arrow_column* column
        cdef bytes secret = os.urandom(sizeof(seeds))
        capsule = schema.__arrow_c_schema__()
        self.columns = PlainColumns()
        self.columns.open(<ArrowSchema*>PyCapsule_GetPointer(capsule, "arrow_schema"))
        if self.columns.root.child_count == 0:
            raise TypeError("a key has one column or more, got none")
        for i in range(self.columns.root.child_count):
            column = &self.columns.root.children[i]
            if not fb_slot_table_takes(&column.arrow):
                raise TypeError(f"{path_of(column)}: values of {arrow_name(<bytes>self.columns.formats[i])} are no "
                                "keys; keys are numbers, booleans, dates, times, timestamps, durations, decimals, "
                                "strings and binary: cast views and dictionaries, or take the parts of what is nested")
        memcpy(seeds, <const char*>secret, sizeof(seeds))
        fb_slot_table_open(&self.c, &self.columns.root, seeds)

    def __dealloc__(self):
        fb_slot_table_clear(&self.c)

    def __len__(self):
        return self.c.count

    @property
    def nbytes(self):
        """The bytes of memory that the table has."""
        return fb_slot_table_bytes(&self.c)

    def clear(self):
        """Forget all keys and give their memory back; the next key has slot 0."""
        fb_slot_table_clear(&self.c)

    def find_or_add(self, batch):
        """Return the slot of each row, and the rows in which a key was first seen.

        Parameters
        ----------
        batch : pyarrow.RecordBatch
            Or another object with ``__arrow_c_array__``; its columns are those of the schema, in this order.

        Returns
        -------
        slots : numpy.ndarray of uint32
        new_rows : numpy.ndarray of int64
            In the order of their slots: ``batch.take(new_rows)`` has the keys from slot ``len(self)``, as it was
            before, on.

        Raises
        ------
        TypeError
            If the batch has other columns.
        MemoryError
            The keys of some rows may then have slots.
        """
        import numpy  # not before somebody wants columns

        cdef int64_t new_count
        cdef int code
        self.columns.bind(batch)
        slots = numpy.empty(self.columns.root.length, numpy.uint32)
        new_rows = numpy.empty(self.columns.root.length, numpy.int64)
        cdef uint32_t[::1] slots_view = slots
        cdef int64_t[::1] rows_view = new_rows
        with nogil:
            code = fb_slot_table_find_or_add(&self.c, &slots_view[0], &rows_view[0], &new_count)
        self.columns.bound = None
        check(code)
        return slots, new_rows[:new_count].copy()
