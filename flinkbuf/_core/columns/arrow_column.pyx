"""Batches of columns, as other libraries hand them over, and what their columns are in a type of ours.

The Arrow PyCapsule interface gives a schema and an array, or a stream of arrays; pyarrow is not needed for it. A plan
is made once for a schema: it finds the column of each field by name and refuses, naming the column, what the type
cannot hold. Then it is put on batch after batch.
"""

from cpython.mem cimport PyMem_Calloc, PyMem_Free
from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport int32_t
from libc.string cimport memcpy

cdef dict NAMES = {
    "n": "null", "b": "bool", "c": "int8", "C": "uint8", "s": "int16", "S": "uint16", "i": "int32", "I": "uint32",
    "l": "int64", "L": "uint64", "e": "halffloat", "f": "float", "g": "double", "z": "binary", "Z": "large_binary",
    "vz": "binary_view", "u": "string", "U": "large_string", "vu": "string_view", "tdD": "date32", "tdm": "date64",
    "tts": "time32[s]", "ttm": "time32[ms]", "ttu": "time64[us]", "ttn": "time64[ns]", "tDs": "duration[s]",
    "tDm": "duration[ms]", "tDu": "duration[us]", "tDn": "duration[ns]", "tiM": "month_interval",
    "tiD": "day_time_interval", "tin": "month_day_nano_interval", "+l": "list", "+L": "large_list", "+vl": "list_view",
    "+vL": "large_list_view", "+s": "struct", "+m": "map", "+r": "run_end_encoded",
}
cdef dict UNITS = {"s": "s", "m": "ms", "u": "us", "n": "ns"}


# Values of the table runtime that are no rows.
cdef frozenset DATA_KINDS = frozenset([
    "STRING_DATA", "DECIMAL_DATA", "DATE_DATA", "TIME_DATA", "TIMESTAMP_DATA", "TIMESTAMP_LTZ_DATA", "ARRAY_DATA",
    "MAP_DATA",
])


cdef str arrow_name(const char* format_):
    """What pyarrow calls the type of a format."""
    text = "" if format_ is NULL else (<bytes>format_).decode("utf-8", "replace")
    if text in NAMES:
        return NAMES[text]
    head, _, rest = text.partition(":")
    if head[:2] == "ts" and head[2:] in UNITS:
        return f"timestamp[{UNITS[head[2:]]}{', tz=' + rest if rest else ''}]"
    if head == "d":
        return f"decimal({rest})"
    if head[:2] == "+u":
        return "union"
    return {"w": f"fixed_size_binary[{rest}]", "+w": f"fixed_size_list[{rest}]"}.get(head, f"the Arrow format {text!r}")


cdef str path_of(const fb_arrow_column* column):
    """What messages call a column."""
    if column is NULL or column.path is NULL or column.path[0] == 0:
        return "the batch"
    return f"column {(<bytes>column.path).decode('utf-8')!r}"


cdef str name_of(ArrowSchema* schema):
    return "" if schema.name is NULL else (<bytes>schema.name).decode("utf-8", "replace")


def metadata_of(schema):
    """The metadata of a schema in order, as pairs of text; pyarrow's own is a dict, which has each key once.

    Parameters
    ----------
    schema : pyarrow.Schema
        Or another object with ``__arrow_c_schema__``.

    Examples
    --------
    >>> import pyarrow as pa
    >>> metadata_of(pa.schema([], metadata={"a": "1", "b": "2"})), metadata_of(pa.schema([]))
    ([('a', '1'), ('b', '2')], [])
    """
    cdef int32_t count = 0, size = 0
    cdef const char* place
    capsule = schema.__arrow_c_schema__()
    place = (<ArrowSchema*>PyCapsule_GetPointer(capsule, "arrow_schema")).metadata
    texts = []
    if place is not NULL:
        memcpy(&count, place, sizeof(count))
        place += sizeof(count)
    for _ in range(2 * count):
        memcpy(&size, place, sizeof(size))
        texts.append((<bytes>place[sizeof(size):sizeof(size) + size]).decode("utf-8"))
        place += sizeof(size) + size
    return list(zip(texts[::2], texts[1::2]))


cdef class ArrowBatch:
    """One array with its schema; made by `batches_of`."""

    def __dealloc__(self):
        if self.own.release is not NULL:
            self.own.release(&self.own)

    def __len__(self):
        return self.array.length


cdef class ArrowStream:
    """The batches of a stream that another library gives."""

    cdef ArrowArrayStream* stream
    cdef ArrowSchema schema
    cdef object capsule

    def __cinit__(self, capsule):
        self.stream = <ArrowArrayStream*>PyCapsule_GetPointer(capsule, "arrow_array_stream")
        self.capsule = capsule
        if self.stream.release is NULL:
            raise ValueError("the Arrow stream has been read already")
        self.check(self.stream.get_schema(self.stream, &self.schema))

    def __dealloc__(self):
        if self.schema.release is not NULL:
            self.schema.release(&self.schema)

    def __iter__(self):
        return self

    def __next__(self):
        cdef ArrowBatch batch = ArrowBatch()
        self.check(self.stream.get_next(self.stream, &batch.own))
        if batch.own.release is NULL:
            raise StopIteration
        batch.array, batch.schema, batch.owner = &batch.own, &self.schema, self
        return batch

    cdef int check(self, int code) except -1:
        cdef const char* text
        if code == 0:
            return 0
        text = self.stream.get_last_error(self.stream)
        raise OSError(code, "the Arrow stream failed: " + (
            "no reason was given" if text is NULL else (<bytes>text).decode("utf-8", "replace")))


def batches_of(source):
    """The batches in an object with the Arrow PyCapsule interface, one after the other.

    Raises
    ------
    TypeError
        If it has none.
    """
    cdef ArrowBatch batch
    if hasattr(source, "__arrow_c_array__"):
        batch = ArrowBatch()
        schema, array = source.__arrow_c_array__()
        batch.schema = <ArrowSchema*>PyCapsule_GetPointer(schema, "arrow_schema")
        batch.array = <ArrowArray*>PyCapsule_GetPointer(array, "arrow_array")
        batch.owner = (schema, array)
        return iter((batch,))
    if hasattr(source, "__arrow_c_stream__"):
        return ArrowStream(source.__arrow_c_stream__())
    raise TypeError(f"a batch is a pyarrow RecordBatch or Table, another object with __arrow_c_array__ or "
                    f"__arrow_c_stream__, a structured numpy array or a dict of numpy arrays; got {type(source)}")


cdef int free_children(fb_arrow_column* column) noexcept:
    cdef uint32_t i
    if column.children is not NULL:
        for i in range(column.child_count):
            free_children(&column.children[i])
        PyMem_Free(column.children)
    column.children = NULL
    return 0


cdef class ArrowPlan:
    """The columns of an Arrow schema as the fields of a type.

    Parameters
    ----------
    codec : TypeCodec
        Of the records. A ROW or TUPLE takes a struct, field by field; another type a column, or a struct of one.
    schema : PyCapsule
        ``arrow_schema``; it is only read.
    is_strict : bool, default False
        A field that `schema` does not call nullable must not be null, else one that the codec requires.
    skipped : collection of str
        Fields of records that are read and not wanted: their columns are of Arrow's null type.

    Raises
    ------
    TypeError
        For a column that the field of its name cannot hold, and one that is missing or too many.
    """

    def __cinit__(self, TypeCodec codec not None, schema, bint is_strict=False, skipped=()):
        cdef uint32_t i
        cdef ArrowSchema* found
        self.is_strict = is_strict
        if isinstance(schema, ArrowBatch):
            found = (<ArrowBatch>schema).schema
        else:
            found = <ArrowSchema*>PyCapsule_GetPointer(schema, "arrow_schema")
        self.codec, self.paths = codec, []
        if found.release is NULL:
            raise ValueError("the Arrow schema has been released")
        is_struct = found.format is not NULL and <bytes>found.format == b"+s"
        if codec.kind in DATA_KINDS or (codec.kind == "ROW_DATA" and not is_struct):
            raise TypeError(f"{codec.describe()} is no type of batches: the columns of a batch are the fields of a "
                            "ROW_DATA")
        if codec.kind not in ("ROW", "TUPLE", "ROW_DATA") and found.format is not NULL and <bytes>found.format == b"+s":
            if found.n_children != 1:
                raise TypeError(f"a batch of records of {codec.describe()} has one column, got {found.n_children}")
            self.is_wrapped = True
            self.build(&self.root, codec, found.children[0], name_of(found.children[0]))
        else:
            self.build(&self.root, codec, found, "")
        for i in range(self.root.child_count if skipped else 0):
            self.root.children[i].is_skipped = (<bytes>self.root.children[i].path).decode("utf-8") in skipped

    def __dealloc__(self):
        free_children(&self.root)

    cdef int build(self, fb_arrow_column* column, TypeCodec codec, ArrowSchema* schema, str path) except -1:
        cdef bytes text = path.encode("utf-8", "replace")
        self.paths.append(text)
        column.path = text
        if codec.kind == "NULLABLE":
            column.nullable = &codec.type
            codec = codec.children[0]
        column.type = &codec.type
        column.array_child_count = <uint32_t>schema.n_children
        if (codec.kind in DATA_KINDS or codec.kind == "ROW_DATA") and self.codec.kind != "ROW_DATA":
            raise TypeError(f"{path_of(column)}: {codec.describe()} has a column only as a field of a ROW_DATA")
        if fb_arrow_type_parse(schema.format, &column.arrow) < 0 or not fb_arrow_type_fits(&column.arrow, column.type) \
                and schema.dictionary is NULL:
            raise TypeError(f"{path_of(column)}: {arrow_name(schema.format)} is no {codec.describe()}, which the field "
                            "is declared to be; cast the column, or declare another type")
        if self.codec.kind == "ROW_DATA" and codec.kind == "PRIMITIVE_ARRAY" and schema.dictionary is NULL and \
                FB_ARROW_LIST <= column.arrow.kind < FB_ARROW_DICTIONARY:
            raise TypeError(f"{path_of(column)}: {arrow_name(schema.format)} is not the bytes that the field of a "
                            "ROW_DATA is declared to be; cast the column to binary, or declare ARRAY_DATA(BYTE)")
        if schema.dictionary is not NULL:
            if column.arrow.kind != FB_ARROW_INTEGER:
                raise TypeError(f"{path_of(column)}: a dictionary has integers as indices, got "
                                f"{arrow_name(schema.format)}")
            column.arrow.kind = FB_ARROW_DICTIONARY
            open_children(column, 1)
            return self.build(&column.children[0], codec, schema.dictionary, path)
        if column.arrow.kind >= FB_ARROW_LIST:
            self.build_children(column, codec, schema, path)
        elif schema.n_children != 0:
            raise TypeError(f"{path_of(column)}: {arrow_name(schema.format)} has no children")
        return 0

    cdef int build_children(self, fb_arrow_column* column, TypeCodec codec, ArrowSchema* schema, str path) except -1:
        cdef fb_arrow_type ends
        cdef ArrowSchema* entries
        if column.arrow.kind == FB_ARROW_STRUCT:
            return self.build_fields(column, codec, schema, path)
        if schema.n_children != (2 if column.arrow.kind == FB_ARROW_RUN_ENDS else 1):
            raise TypeError(f"{path_of(column)}: {arrow_name(schema.format)} of {schema.n_children} children")
        if column.arrow.kind == FB_ARROW_RUN_ENDS:
            if fb_arrow_type_parse(schema.children[0].format, &ends) < 0 or ends.kind != FB_ARROW_INTEGER:
                raise TypeError(f"{path_of(column)}: run ends are integers, got "
                                f"{arrow_name(schema.children[0].format)}")
            column.arrow.width = ends.width
            open_children(column, 1)
            return self.build(&column.children[0], codec, schema.children[1], path)
        if column.arrow.kind == FB_ARROW_MAP:
            entries = schema.children[0]
            if entries.n_children != 2:
                raise TypeError(f"{path_of(column)}: a map of {entries.n_children} children")
            open_children(column, 2)
            self.build(&column.children[0], codec.children[0], entries.children[0], path + ".key")
            return self.build(&column.children[1], codec.children[1], entries.children[1], path + ".value")
        open_children(column, 1)
        return self.build(&column.children[0], codec.children[0], schema.children[0], path + ".element")

    cdef int build_fields(self, fb_arrow_column* column, TypeCodec codec, ArrowSchema* schema, str path) except -1:
        cdef int64_t i
        cdef list given = [name_of(schema.children[i]) for i in range(schema.n_children)]
        cdef list places = list(range(len(given)))
        prefix = f"{path}." if path else ""
        if codec.names is not None and codec.kind in ("ROW", "ROW_DATA"):
            for name in given:
                if name not in codec.names or given.count(name) > 1:
                    why = "is there twice" if name in codec.names else f"is not declared; declared are " \
                        f"{', '.join(codec.names) or 'none'}"
                    raise TypeError(f"column {prefix + name!r} {why}")
            for name in codec.names:
                if name not in given:
                    raise TypeError(f"column {prefix + name!r} is missing; there are {', '.join(given) or 'none'}")
            places = [given.index(name) for name in codec.names]
        elif len(given) != len(codec.children):
            raise TypeError(f"{path_of(column)} has {len(given)} columns, but {len(codec.children)} are declared")
        open_children(column, len(places))
        for i in range(len(places)):
            column.children[i].place = <uint32_t>places[i]
            if self.is_strict:
                column.children[i].is_required = not schema.children[<int64_t>places[i]].flags & ARROW_FLAG_NULLABLE
            elif codec.required is not None:
                column.children[i].is_required = codec.required[i]
            self.build(&column.children[i], codec.children[i], schema.children[<int64_t>places[i]],
                       prefix + given[places[i]])
        return 0

    cdef int bind(self, ArrowBatch batch) except -1:
        """Put the columns on the arrays of a batch; ValueError for arrays that are not what they should be."""
        cdef fb_arrow_fault fault
        cdef const ArrowArray* array = batch.array
        cdef const ArrowArray* outer = array
        cdef int code
        if self.is_wrapped:
            if array.release is NULL or array.n_children != 1 or array.length < 0 or array.offset < 0:
                raise ValueError("the batch: its array is not one of its schema; the array is malformed")
            array = array.children[0]
        with nogil:
            code = fb_arrow_column_bind(&self.root, array, &fault)
        if code < 0:
            reason = (<bytes>fault.reason).decode("ascii")
            raise ValueError(f"{path_of(fault.column)}: {reason}; the array is malformed")
        if self.is_wrapped:
            if outer.length > self.root.length or outer.offset > self.root.length - outer.length:
                raise ValueError("the batch: its column is shorter than itself; the array is malformed")
            self.root.offset += outer.offset
            self.root.length = outer.length
        return 0


cdef int open_children(fb_arrow_column* column, Py_ssize_t count) except -1:
    if count > 0:
        column.children = <fb_arrow_column*>PyMem_Calloc(count, sizeof(fb_arrow_column))
        if column.children is NULL:
            raise MemoryError
    column.child_count = <uint32_t>count
    return 0
