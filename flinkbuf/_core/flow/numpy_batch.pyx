"""Arrays of numpy as a batch of columns: structures of the Arrow C data interface over memory that is there already.

Nothing is copied, and nobody but the writers of batches sees the structures: they live as long as the batch.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from libc.stdint cimport int64_t

from flinkbuf._core.columns.arrow_column cimport ARROW_FLAG_NULLABLE, ArrowArray, ArrowBatch, ArrowSchema

cdef enum:
    MAX_BUFFERS = 3

cdef const char* STRUCT = "+s"
cdef const char* NO_NAME = ""

ctypedef struct column_parts:
    ArrowSchema schema
    ArrowArray array
    const void* buffers[MAX_BUFFERS]
    Py_buffer views[MAX_BUFFERS]
    int view_count


cdef void release_schema(ArrowSchema* schema) noexcept:
    schema.release = NULL


cdef void release_array(ArrowArray* array) noexcept:
    array.release = NULL


cdef class NumpyBatch:
    """Columns that lie side by side.

    Parameters
    ----------
    length : int
        Rows.
    columns : list of (name, format, null_count, buffers)
        `name` and `format` as bytes; `buffers` as Arrow wants them for the format, each contiguous, or None.
    """

    cdef ArrowSchema schema
    cdef ArrowArray array
    cdef ArrowSchema** schemas
    cdef ArrowArray** arrays
    cdef const void* validity[1]
    cdef column_parts* parts
    cdef list texts     # what the structures point to
    cdef Py_ssize_t count

    def __cinit__(self, int64_t length, list columns not None):
        cdef Py_ssize_t i
        self.texts = []
        self.count = len(columns)
        self.parts = <column_parts*>PyMem_Calloc(self.count + 1, sizeof(column_parts))
        self.schemas = <ArrowSchema**>PyMem_Calloc(self.count + 1, sizeof(ArrowSchema*))
        self.arrays = <ArrowArray**>PyMem_Calloc(self.count + 1, sizeof(ArrowArray*))
        if self.parts is NULL or self.schemas is NULL or self.arrays is NULL:
            raise MemoryError
        for i in range(self.count):
            name, form, null_count, buffers = columns[i]
            self.add(i, length, name, form, null_count, buffers)
        self.schema.format, self.schema.name = STRUCT, NO_NAME
        self.schema.n_children, self.schema.children = self.count, self.schemas
        self.schema.release = release_schema
        self.array.length, self.array.n_buffers, self.array.buffers = length, 1, self.validity
        self.array.n_children, self.array.children = self.count, self.arrays
        self.array.release = release_array

    cdef int add(self, Py_ssize_t i, int64_t length, bytes name, bytes format_, int64_t null_count,
                 tuple buffers) except -1:
        cdef column_parts* parts = &self.parts[i]
        cdef Py_ssize_t k
        if len(buffers) > MAX_BUFFERS:
            raise ValueError(f"a column has at most {MAX_BUFFERS} buffers, got {len(buffers)}")
        self.texts.append((name, format_))
        parts.schema.name, parts.schema.format, parts.schema.flags = name, format_, ARROW_FLAG_NULLABLE
        parts.schema.release = release_schema
        for k in range(len(buffers)):
            if buffers[k] is not None:
                PyObject_GetBuffer(buffers[k], &parts.views[parts.view_count], PyBUF_SIMPLE)
                parts.buffers[k] = parts.views[parts.view_count].buf
                parts.view_count += 1
        parts.array.length, parts.array.null_count = length, null_count
        parts.array.n_buffers, parts.array.buffers = len(buffers), parts.buffers
        parts.array.release = release_array
        self.schemas[i], self.arrays[i] = &parts.schema, &parts.array
        return 0

    def __dealloc__(self):
        cdef Py_ssize_t i
        cdef int k
        if self.parts is not NULL:
            for i in range(self.count):
                for k in range(self.parts[i].view_count):
                    PyBuffer_Release(&self.parts[i].views[k])
        PyMem_Free(self.parts)
        PyMem_Free(self.schemas)
        PyMem_Free(self.arrays)


def numpy_batch(int64_t length, list columns not None):
    """An ArrowBatch over the buffers of columns; see NumpyBatch."""
    cdef NumpyBatch held = NumpyBatch(length, columns)
    cdef ArrowBatch batch = ArrowBatch()
    batch.schema, batch.array, batch.owner = &held.schema, &held.array, held
    return batch
