"""Values of Python ↔ the bytes of Flink's TypeSerializers: the codec of one type, made of the pairs of its kinds.

A type is a tree; each node points to the two functions of its kind, one that writes a value and one that reads one.
They stand in a table below and in a module for each family of kinds: a new kind is one pair and one row.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from libc.stdint cimport INT32_MAX, uint32_t
from libc.string cimport memset

from flinkbuf._core.value.codec cimport Codec, codec_node, explain, get_function, measured, put_function
from flinkbuf._core.value.container_codec cimport (
    get_array, get_bytes, get_list, get_map, get_set, put_any_list, put_array, put_bytes, put_list, put_map,
    put_set,
)
from flinkbuf._core.ground.data_view cimport fb_data_output_close, fb_data_output_size, fb_data_output_start
from flinkbuf._core.value.number_codec cimport (
    get_big_dec, get_big_int, get_boolean, get_byte, get_double, get_float, get_int, get_long, get_short,
    put_big_dec, put_big_int, put_boolean, put_byte, put_double, put_float, put_int, put_long, put_short,
)
from flinkbuf._core.value.object_codec cimport get_object, put_object
from flinkbuf._core.value.python_object cimport FB_IDENTITY
from flinkbuf._core.value.row_codec cimport check_row_class, get_row, get_tuple, put_row, put_tuple
from flinkbuf._core.value.row_data_codec cimport get_leaf_data, get_sized_data, put_leaf_data, put_sized_data
from flinkbuf._core.value.text_codec cimport (
    FB_TEXT_CODEC_KEPT, fb_kept_text, fb_text_codec_forget, get_char, get_pickled, get_text, put_char, put_pickled,
    put_text,
)
from flinkbuf._core.value.time_codec cimport (
    get_instant, get_local, get_millis, get_own_instant, put_instant, put_local, put_millis, put_own_instant,
    put_timestamp,
)
from flinkbuf._core.value.type cimport (
    FB_TYPE_BIG_DEC, FB_TYPE_BIG_INT, FB_TYPE_BOOLEAN, FB_TYPE_BYTE, FB_TYPE_CHAR, FB_TYPE_DATE, FB_TYPE_DOUBLE,
    FB_TYPE_EITHER, FB_TYPE_ENUM, FB_TYPE_FLOAT, FB_TYPE_INSTANT, FB_TYPE_INT, FB_TYPE_KIND_COUNT, FB_TYPE_LIST,
    FB_TYPE_LOCAL_DATE, FB_TYPE_LOCAL_DATE_TIME, FB_TYPE_LOCAL_TIME, FB_TYPE_LONG, FB_TYPE_MAP, FB_TYPE_NULLABLE,
    FB_TYPE_NULL_VALUE, FB_TYPE_OBJECT, FB_TYPE_OBJECT_ARRAY, FB_TYPE_PICKLED_BYTES, FB_TYPE_PRIMITIVE_ARRAY,
    FB_TYPE_ROW, FB_TYPE_SET, FB_TYPE_SHORT, FB_TYPE_SQL_DATE, FB_TYPE_SQL_TIME, FB_TYPE_SQL_TIMESTAMP,
    FB_TYPE_ARRAY_DATA, FB_TYPE_DATE_DATA, FB_TYPE_DECIMAL_DATA, FB_TYPE_MAP_DATA, FB_TYPE_ROW_DATA,
    FB_TYPE_STREAM_ELEMENT, FB_TYPE_STRING, FB_TYPE_STRING_ARRAY, FB_TYPE_STRING_DATA, FB_TYPE_STRING_VALUE,
    FB_TYPE_TIMESTAMP_DATA, FB_TYPE_TIMESTAMP_LTZ_DATA, FB_TYPE_TIME_DATA, FB_TYPE_TUPLE, FB_TYPE_VOID, fb_type,
    fb_type_kind, fb_type_measure,
)
from flinkbuf._core.value.variant_codec cimport (
    get_either, get_element, get_enum, get_null_value, get_nullable, get_void, put_either, put_element, put_enum,
    put_null_value, put_nullable, put_void,
)
from flinkbuf.errors import CorruptDataError


cdef struct codec_pair:
    put_function put
    get_function get

cdef dict KINDS = {
    "BOOLEAN": FB_TYPE_BOOLEAN, "BYTE": FB_TYPE_BYTE, "SHORT": FB_TYPE_SHORT, "CHAR": FB_TYPE_CHAR, "INT": FB_TYPE_INT,
    "LONG": FB_TYPE_LONG, "FLOAT": FB_TYPE_FLOAT, "DOUBLE": FB_TYPE_DOUBLE, "STRING": FB_TYPE_STRING,
    "STRING_VALUE": FB_TYPE_STRING_VALUE, "VOID": FB_TYPE_VOID, "NULL_VALUE": FB_TYPE_NULL_VALUE,
    "BIG_INT": FB_TYPE_BIG_INT, "BIG_DEC": FB_TYPE_BIG_DEC, "INSTANT": FB_TYPE_INSTANT,
    "LOCAL_DATE": FB_TYPE_LOCAL_DATE, "LOCAL_TIME": FB_TYPE_LOCAL_TIME, "LOCAL_DATE_TIME": FB_TYPE_LOCAL_DATE_TIME,
    "DATE": FB_TYPE_DATE, "SQL_DATE": FB_TYPE_SQL_DATE, "SQL_TIME": FB_TYPE_SQL_TIME,
    "SQL_TIMESTAMP": FB_TYPE_SQL_TIMESTAMP, "ENUM": FB_TYPE_ENUM, "PICKLED_BYTES": FB_TYPE_PICKLED_BYTES,
    "OBJECT": FB_TYPE_OBJECT,
    "PRIMITIVE_ARRAY": FB_TYPE_PRIMITIVE_ARRAY, "STRING_ARRAY": FB_TYPE_STRING_ARRAY,
    "OBJECT_ARRAY": FB_TYPE_OBJECT_ARRAY, "LIST": FB_TYPE_LIST, "SET": FB_TYPE_SET, "MAP": FB_TYPE_MAP,
    "TUPLE": FB_TYPE_TUPLE, "ROW": FB_TYPE_ROW, "EITHER": FB_TYPE_EITHER, "NULLABLE": FB_TYPE_NULLABLE,
    "STREAM_ELEMENT": FB_TYPE_STREAM_ELEMENT, "STRING_DATA": FB_TYPE_STRING_DATA, "DECIMAL_DATA": FB_TYPE_DECIMAL_DATA,
    "DATE_DATA": FB_TYPE_DATE_DATA, "TIME_DATA": FB_TYPE_TIME_DATA, "TIMESTAMP_DATA": FB_TYPE_TIMESTAMP_DATA,
    "TIMESTAMP_LTZ_DATA": FB_TYPE_TIMESTAMP_LTZ_DATA, "ARRAY_DATA": FB_TYPE_ARRAY_DATA, "MAP_DATA": FB_TYPE_MAP_DATA,
    "ROW_DATA": FB_TYPE_ROW_DATA,
}
# The plain type that a leaf of the table runtime has its Python values from: its child.
cdef dict PLAIN_KINDS = {
    "DECIMAL_DATA": "BIG_DEC", "DATE_DATA": "LOCAL_DATE", "TIME_DATA": "LOCAL_TIME",
    "TIMESTAMP_DATA": "LOCAL_DATE_TIME", "TIMESTAMP_LTZ_DATA": "INSTANT",
}
# What may lie in the slots of a ROW_DATA, ARRAY_DATA or MAP_DATA.
cdef frozenset SLOT_KINDS = frozenset([
    "BOOLEAN", "BYTE", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "PRIMITIVE_ARRAY", "VOID", "STRING_DATA",
    "ARRAY_DATA", "MAP_DATA", "ROW_DATA", *PLAIN_KINDS,
])
# How many children and classes a kind has; any number where it says None.
cdef dict CHILD_COUNTS = {
    "PRIMITIVE_ARRAY": 1, "OBJECT_ARRAY": 1, "LIST": 1, "SET": 1, "MAP": 2, "TUPLE": None, "ROW": None, "EITHER": 2,
    "NULLABLE": 1, "STREAM_ELEMENT": 1, "ARRAY_DATA": 1, "MAP_DATA": 2, "ROW_DATA": None,
    **dict.fromkeys(PLAIN_KINDS, 1),
}
cdef dict CLASS_COUNTS = {
    "ROW": 4, "EITHER": 2, "INSTANT": 1, "LOCAL_DATE": 1, "LOCAL_TIME": 1, "LOCAL_DATE_TIME": 1, "DATE": 1,
    "SQL_DATE": 1, "SQL_TIME": 1, "SQL_TIMESTAMP": 1, "STREAM_ELEMENT": 6, "ROW_DATA": 4,
}
# What a PRIMITIVE_ARRAY can hold: the numpy dtype, and the buffer formats that need no conversion but byte order.
cdef dict ARRAY_TYPES = {
    "BOOLEAN": ("bool", "?"), "BYTE": ("int8", "bBc?"), "SHORT": ("int16", "h"), "CHAR": ("uint16", "H"),
    "INT": ("int32", "il"), "LONG": ("int64", "lq"), "FLOAT": ("float32", "f"), "DOUBLE": ("float64", "d"),
}
cdef tuple UNHASHABLE = (
    "LIST", "SET", "MAP", "PRIMITIVE_ARRAY", "OBJECT_ARRAY", "STRING_ARRAY", "ARRAY_DATA", "MAP_DATA",
)
# Their Python values hold no other objects, so a row of them is no concern of the garbage collector; it finds that out
# by itself for plain tuples only.
cdef frozenset ACYCLIC = frozenset([
    "BOOLEAN", "BYTE", "SHORT", "CHAR", "INT", "LONG", "FLOAT", "DOUBLE", "STRING", "STRING_VALUE", "VOID",
    "NULL_VALUE", "BIG_INT", "BIG_DEC", "STRING_DATA", "DECIMAL_DATA",
])
# Kinds with several Python values for the same bytes: what is rounded, what has a class of ours beside Python's own.
cdef frozenset MERGING = frozenset([
    "FLOAT", "INSTANT", "LOCAL_DATE", "LOCAL_TIME", "LOCAL_DATE_TIME", "DATE", "SQL_DATE", "SQL_TIME", "SQL_TIMESTAMP",
])

cdef codec_pair PAIRS[FB_TYPE_KIND_COUNT]


cdef int pair(fb_type_kind kind, put_function writing, get_function reading) except -1:
    PAIRS[<int>kind].put = writing
    PAIRS[<int>kind].get = reading
    return 0


pair(FB_TYPE_BOOLEAN, <put_function>put_boolean, <get_function>get_boolean)
pair(FB_TYPE_BYTE, <put_function>put_byte, <get_function>get_byte)
pair(FB_TYPE_SHORT, <put_function>put_short, <get_function>get_short)
pair(FB_TYPE_CHAR, <put_function>put_char, <get_function>get_char)
pair(FB_TYPE_INT, <put_function>put_int, <get_function>get_int)
pair(FB_TYPE_LONG, <put_function>put_long, <get_function>get_long)
pair(FB_TYPE_FLOAT, <put_function>put_float, <get_function>get_float)
pair(FB_TYPE_DOUBLE, <put_function>put_double, <get_function>get_double)
pair(FB_TYPE_STRING, <put_function>put_text, <get_function>get_text)
pair(FB_TYPE_STRING_VALUE, <put_function>put_text, <get_function>get_text)
pair(FB_TYPE_VOID, <put_function>put_void, <get_function>get_void)
pair(FB_TYPE_NULL_VALUE, <put_function>put_null_value, <get_function>get_null_value)
pair(FB_TYPE_BIG_INT, <put_function>put_big_int, <get_function>get_big_int)
pair(FB_TYPE_BIG_DEC, <put_function>put_big_dec, <get_function>get_big_dec)
pair(FB_TYPE_INSTANT, <put_function>put_instant, <get_function>get_instant)
pair(FB_TYPE_LOCAL_DATE, <put_function>put_local, <get_function>get_local)
pair(FB_TYPE_LOCAL_TIME, <put_function>put_local, <get_function>get_local)
pair(FB_TYPE_LOCAL_DATE_TIME, <put_function>put_local, <get_function>get_local)
pair(FB_TYPE_DATE, <put_function>put_millis, <get_function>get_millis)
pair(FB_TYPE_SQL_DATE, <put_function>put_millis, <get_function>get_millis)
pair(FB_TYPE_SQL_TIME, <put_function>put_millis, <get_function>get_millis)
pair(FB_TYPE_SQL_TIMESTAMP, <put_function>put_timestamp, <get_function>get_instant)
pair(FB_TYPE_ENUM, <put_function>put_enum, <get_function>get_enum)
pair(FB_TYPE_PICKLED_BYTES, <put_function>put_pickled, <get_function>get_pickled)
pair(FB_TYPE_OBJECT, <put_function>put_object, <get_function>get_object)
pair(FB_TYPE_PRIMITIVE_ARRAY, <put_function>put_array, <get_function>get_array)
pair(FB_TYPE_STRING_ARRAY, <put_function>put_any_list, <get_function>get_list)
pair(FB_TYPE_OBJECT_ARRAY, <put_function>put_any_list, <get_function>get_list)
pair(FB_TYPE_LIST, <put_function>put_list, <get_function>get_list)
pair(FB_TYPE_SET, <put_function>put_set, <get_function>get_set)
pair(FB_TYPE_MAP, <put_function>put_map, <get_function>get_map)
pair(FB_TYPE_TUPLE, <put_function>put_tuple, <get_function>get_tuple)
pair(FB_TYPE_ROW, <put_function>put_row, <get_function>get_row)
pair(FB_TYPE_EITHER, <put_function>put_either, <get_function>get_either)
pair(FB_TYPE_NULLABLE, <put_function>put_nullable, <get_function>get_nullable)
pair(FB_TYPE_STREAM_ELEMENT, <put_function>put_element, <get_function>get_element)
pair(FB_TYPE_STRING_DATA, <put_function>put_leaf_data, <get_function>get_leaf_data)
pair(FB_TYPE_DECIMAL_DATA, <put_function>put_leaf_data, <get_function>get_leaf_data)
pair(FB_TYPE_DATE_DATA, <put_function>put_leaf_data, <get_function>get_leaf_data)
pair(FB_TYPE_TIME_DATA, <put_function>put_leaf_data, <get_function>get_leaf_data)
pair(FB_TYPE_TIMESTAMP_DATA, <put_function>put_leaf_data, <get_function>get_leaf_data)
pair(FB_TYPE_TIMESTAMP_LTZ_DATA, <put_function>put_leaf_data, <get_function>get_leaf_data)
pair(FB_TYPE_ARRAY_DATA, <put_function>put_sized_data, <get_function>get_sized_data)
pair(FB_TYPE_MAP_DATA, <put_function>put_sized_data, <get_function>get_sized_data)
pair(FB_TYPE_ROW_DATA, <put_function>put_sized_data, <get_function>get_sized_data)


cdef inline bint keeps_texts(const codec_node* n) noexcept:
    return n.kind == FB_TYPE_STRING or n.kind == FB_TYPE_OBJECT


cdef class TypeCodec(Codec):
    """Encodes and decodes values of one type, as Flink's TypeSerializer of that type does.

    Parameters
    ----------
    kind : str
        A name of ``FB_TYPE_KINDS`` in csrc/value/type.h, such as ``"LONG"`` or ``"ROW"``.
    children : tuple of TypeCodec
        The types inside: of fields, of elements, of key and value.
    names : tuple of str, optional
        TUPLE, ROW and ROW_DATA: field names, for messages and for rows given as dict or pyspark Row.
    symbols : tuple, optional
        ENUM: the values in ordinal order.
    padding : int, default 0
        NULLABLE: bytes that null takes beside its mask byte.
    classes : tuple of type, optional
        What to build and accept. ROW: the classes of the four kinds. EITHER: left and right. INSTANT, LOCAL_*, DATE,
        SQL_*: for values that Python's own class cannot hold. STREAM_ELEMENT: record, watermark, internal watermark,
        latency marker, watermark status, record attributes.
    numpy : bool, default False
        PRIMITIVE_ARRAY: decode to numpy arrays.
    own_class : bool, default False
        INSTANT: take and give the class in `classes` only, never a datetime.
    field_path_name : str, optional
        What messages call the value itself, such as ``"key"``.
    trusted : bool, default True
        OBJECT: unpickle what is pickled; else such bytes are refused, and builtin values are read all the same.
    is_key : bool, default False
        OBJECT: write the form that a value has as a key, which is compared and hashed and never read.
    row_classes : callable, optional
        OBJECT: gives, for a tuple of field names or None, the classes of rows by kind of change.
    precision, scale : int, default 0
        DECIMAL_DATA: digits, and those behind the point. TIMESTAMP_DATA and TIMESTAMP_LTZ_DATA: digits of a second.
    required : tuple of bool, optional
        ROW and ROW_DATA: whether each field is declared NOT NULL. Batches are held to it, and what a ROW_DATA is given.

    Raises
    ------
    ValueError
        If the arguments do not make a type.
    """

    def __cinit__(self, str kind, tuple children=(), *, names=None, symbols=None, padding=0, classes=None, numpy=False,
                  field_path_name=None, trusted=True, is_key=False, row_classes=None, precision=0, scale=0,
                  required=None, own_class=False):
        cdef uint32_t i
        if kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}, got {kind!r}")
        if kind == "STRING_ARRAY":
            children = (TypeCodec("STRING"),)
        self.kind, self.children, self.classes = kind, children, tuple(classes or ())
        self.names = None if names is None else tuple(names)
        self.symbols = None if symbols is None else tuple(symbols)
        self.numpy, self.field_path_name, self.own_class = numpy, field_path_name, own_class
        self.trusted, self.row_classes, self.row_heads, self.classes_of_heads = trusted, row_classes, {}, {}
        self.required = None if required is None or not any(required) else tuple(required)
        self.check_arguments(padding)
        check_data(self, precision, scale)
        self.child_types = <const fb_type**>PyMem_Calloc(len(children) + 1, sizeof(fb_type*))
        self.node.children = <codec_node*>PyMem_Calloc(len(children) + 1, sizeof(codec_node))
        if self.child_types == NULL or self.node.children == NULL:
            raise MemoryError
        for i, child in enumerate(children):
            self.child_types[i] = &(<TypeCodec>child).type
            self.node.children[i] = (<TypeCodec>child).node
            if keeps_texts(&self.node.children[i]):
                self.node.children[i].texts = PyMem_Calloc(FB_TEXT_CODEC_KEPT, sizeof(fb_kept_text))
        self.type.kind = KINDS[kind]
        self.type.child_count = len(children)
        self.type.children = self.child_types
        self.type.symbol_count = len(self.symbols or ())
        self.type.padding = padding
        if kind in PLAIN_KINDS:  # in the same places
            self.type.precision, self.type.scale = precision, scale
        fb_type_measure(&self.type)
        self.node.kind = self.type.kind
        self.node.put = PAIRS[<int>self.type.kind].put
        self.node.get = PAIRS[<int>self.type.kind].get
        self.node.child_count = self.type.child_count
        self.node.min_size = self.type.min_size
        self.node.mask_size = (self.type.child_count + 2 + 7) // 8
        self.node.codec = <PyObject*>self
        self.node.is_key = is_key
        for i in range(min(len(self.classes), 4)):
            self.node.classes[i] = <PyObject*>(self.classes[i])
        if kind == "INSTANT" and self.own_class:
            self.node.put, self.node.get = <put_function>put_own_instant, <get_function>get_own_instant
        holds_bytes = kind == "PRIMITIVE_ARRAY" and children[0].kind == "BYTE" and not self.numpy
        if holds_bytes:
            self.node.put, self.node.get = <put_function>put_bytes, <get_function>get_bytes
        self.node.acyclic = holds_bytes or (
            (kind in ACYCLIC if not children or kind in PLAIN_KINDS else kind in ("ROW", "TUPLE", "ROW_DATA")) and all(
                [(<TypeCodec>child).node.acyclic for child in children]))
        # A named ROW is taken by its names, in any order of them.
        self.node.merges = kind in MERGING or (kind in ("ROW", "ROW_DATA") and self.names is not None) or any(
            [(<TypeCodec>child).node.merges for child in children])
        if keeps_texts(&self.node):
            self.node.texts = PyMem_Calloc(FB_TEXT_CODEC_KEPT, sizeof(fb_kept_text))
        if kind == "ENUM":
            self.ordinals = {symbol: i for i, symbol in enumerate(self.symbols)}
        if kind == "PRIMITIVE_ARRAY":
            self.array_dtype, self.array_formats = ARRAY_TYPES[children[0].kind]

    def __dealloc__(self):
        fb_text_codec_forget(<fb_kept_text*>self.node.texts)
        PyMem_Free(self.node.texts)
        if self.node.children != NULL:
            for i in range(self.node.child_count):
                if keeps_texts(&self.node.children[i]):
                    fb_text_codec_forget(<fb_kept_text*>self.node.children[i].texts)
                    PyMem_Free(self.node.children[i].texts)
        PyMem_Free(self.child_types)
        PyMem_Free(self.node.children)

    cdef int check_arguments(self, padding) except -1:
        cdef str kind = self.kind
        count = CHILD_COUNTS.get(kind, len(self.children) if kind == "STRING_ARRAY" else 0)
        if count is not None and len(self.children) != count:
            raise ValueError(f"{kind} has {count} types inside, got {len(self.children)}")
        if not all(isinstance(child, TypeCodec) for child in self.children):
            raise TypeError(f"the types inside {kind} must be TypeCodec, got {self.children!r}")
        if kind == "TUPLE" and not self.children:
            raise ValueError("a TUPLE has at least one field")
        if self.names is not None and not len(self.names) == len(set(self.names)) == len(self.children):
            raise ValueError(f"{kind} needs {len(self.children)} different field names, got {list(self.names)}")
        if len(self.classes) != CLASS_COUNTS.get(kind, 0):
            raise ValueError(f"{kind} needs {CLASS_COUNTS.get(kind, 0)} classes, got {len(self.classes)}")
        if kind == "ROW" or kind == "ROW_DATA":
            for row in self.classes:
                check_row_class(row)
        if kind == "ENUM" and (not self.symbols or len(set(self.symbols)) != len(self.symbols)):
            raise ValueError(f"ENUM needs different symbols, got {self.symbols!r}")
        if kind == "PRIMITIVE_ARRAY" and self.children[0].kind not in ARRAY_TYPES:
            raise ValueError(f"PRIMITIVE_ARRAY holds {', '.join(ARRAY_TYPES)}, got {self.children[0].kind}")
        if not 0 <= padding <= INT32_MAX:
            raise ValueError(f"padding must be within 0..{INT32_MAX} bytes, got {padding}")
        if kind in ("SET", "MAP", "MAP_DATA") and not hashable(self.children[0]):
            raise ValueError(f"{(<TypeCodec>self.children[0]).describe()} gives no hashable value in Python, so no "
                             f"{kind} can hold it" + (" as key" if kind != "SET" else ""))
        if self.required is not None and (kind not in ("ROW", "ROW_DATA") or len(self.required) != len(self.children)):
            raise ValueError(f"required says of each field of a ROW or ROW_DATA whether it may be null, got "
                             f"{self.required} for {kind} of {len(self.children)} types")
        return 0

    cdef TypeCodec as_key(self):
        """The codec that writes equal values of this type as equal bytes: itself, unless undeclared values, sets or
        maps are inside.
        """
        cdef list children = [(<TypeCodec>child).as_key() for child in self.children]
        cdef bint has_form = self.kind == "OBJECT" or self.kind == "SET" or self.kind == "MAP"
        if has_form:
            if self.node.is_key:
                return self
        elif all([child is own for child, own in zip(children, self.children)]):
            return self
        return TypeCodec(
            self.kind, tuple(children), names=self.names, symbols=self.symbols, padding=self.type.padding,
            classes=self.classes, numpy=self.numpy, field_path_name=self.field_path_name, is_key=has_form,
            row_classes=self.row_classes, required=self.required)

    cdef int fail_encode(self, fb_data_output* output, size_t used) except -1:
        """Takes back what a refused value has written, and makes the user's exception of the one that is set."""
        output.pos = output.start + used
        return explain(output.record_number, self.field_path_name)

    def serialize(self, value):
        """The bytes that Flink's serializer writes for `value`."""
        cdef fb_data_output output
        cdef uint8_t small[512]  # most values fit, and nothing has to be allocated
        memset(&output, 0, sizeof(output))
        output.record_number = -1
        fb_data_output_start(&output, small, small + sizeof(small))
        try:
            encode_value(self, value, &output)
            return PyBytes_FromStringAndSize(<const char*>output.start, fb_data_output_size(&output))
        finally:
            fb_data_output_close(&output)

    def deserialize(self, data):
        """The value whose bytes are `data`, all of them."""
        cdef Py_buffer view
        cdef fb_data_input input
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            input.start = input.pos = <const uint8_t*>view.buf
            input.end = input.start + view.len
            input.record_number = input.channel = -1
            value = FB_IDENTITY(decode_value(self, &input))
            if input.pos != input.end:
                raise CorruptDataError(f"{self.describe()} ends at byte {input.pos - input.start} of {view.len}: "
                                       f"{input.end - input.pos} bytes are left over")
            return value
        finally:
            PyBuffer_Release(&view)

    def skip(self, data):
        """How many bytes of `data` the value at its start takes, without building it.

        Raises CorruptDataError for bytes that `deserialize` would refuse; only the elements of a SET and the keys of
        a MAP are not compared with each other.
        """
        cdef Py_buffer view
        cdef fb_data_input input
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            input.start = input.pos = <const uint8_t*>view.buf
            input.end = input.start + view.len
            input.record_number = input.channel = -1
            measured(&self.node, &input)
            return input.pos - input.start
        finally:
            PyBuffer_Release(&view)

    def __repr__(self):
        return f"TypeCodec({self.describe()})"


cdef bint hashable(TypeCodec codec):
    if codec.kind == "PRIMITIVE_ARRAY":
        return codec.children[0].kind == "BYTE" and not codec.numpy
    return codec.kind not in UNHASHABLE and all([hashable(child) for child in codec.children])


cdef int check_data(TypeCodec codec, precision, scale) except -1:
    """The digits, and what may lie in slots."""
    cdef str kind = codec.kind
    if kind == "DECIMAL_DATA" and not (1 <= precision <= 38 and 0 <= scale <= precision):
        raise ValueError(f"a decimal has 1 to 38 digits, of which none to all are behind the point; got precision "
                         f"{precision} and scale {scale}")
    if kind in ("TIMESTAMP_DATA", "TIMESTAMP_LTZ_DATA") and not 0 <= precision <= 9:
        raise ValueError(f"a timestamp has 0 to 9 digits behind the second, got {precision}")
    if kind in PLAIN_KINDS and codec.children[0].kind != PLAIN_KINDS[kind]:
        raise ValueError(f"{kind} has its values from a {PLAIN_KINDS[kind]}, got {codec.children[0]!r}")
    if kind in ("ARRAY_DATA", "MAP_DATA", "ROW_DATA"):
        for child in codec.children:
            if child.kind not in SLOT_KINDS or child.numpy or (
                    child.kind == "PRIMITIVE_ARRAY" and child.children[0].kind != "BYTE"):
                raise ValueError(f"{kind} cannot hold {(<TypeCodec>child).describe()}")
    return 0
