"""Values whose type nobody declared: what Python builds in is walked here, what it does not is pickled as a whole.

The result is that of a pickle, whatever the value. So a value in which one object stands at two places, or which holds
itself, is pickled too, since the walk would make two objects of the one: each container that something else may hold
beside its own container is remembered until the walk ends.

As a key, a value has an order and no history: sets and dicts are sorted, and of other objects those parts are written
that a pickle would have (object_key.pyx). So equal bytes mean the same key in every process.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.exc cimport PyErr_NoMemory, PyErr_Occurred
from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

from flinkbuf._core.ground.byte_order cimport fb_load_le64, fb_store_le32, fb_store_le64
from flinkbuf._core.value.codec cimport Codec, corrupt, make_room, refuse
from flinkbuf._core.ground.data_view cimport fb_data_input_left
from flinkbuf._core.ground.errors cimport FB_ECORRUPT, FB_ETOO_LARGE, FB_ETRUNCATED
from flinkbuf._core.value.number_codec cimport fb_number_codec_int, fb_number_codec_small_int, kept_ints
from flinkbuf._core.value.object cimport (
    FB_OBJECT_DICT, FB_OBJECT_FLOAT, FB_OBJECT_FROZENSET, FB_OBJECT_INT, FB_OBJECT_LIST, FB_OBJECT_MAX_DEPTH,
    FB_OBJECT_MAX_SHORT, FB_OBJECT_MAX_SHORT_TEXT, FB_OBJECT_NONE, FB_OBJECT_PICKLED, FB_OBJECT_ROW, FB_OBJECT_SET,
    FB_OBJECT_SHORT_LIST, FB_OBJECT_SHORT_TUPLE, FB_OBJECT_TUPLE, fb_object_int, fb_object_put_int,
)
from flinkbuf._core.value.object_key cimport parts_of
from flinkbuf._core.value.object_leaf cimport LEAF_ROOM, get_leaf, get_size, put_bytes, put_leaf
from flinkbuf._core.value.object_row cimport get_row_class, row_head
from flinkbuf._core.value.python_object cimport (
    FB_IDENTITY, FB_NONE, FB_TUPLE_ITEMS, FB_TYPE_OF, PyDict_Next, PyDict_Size, PyFloat_AS_DOUBLE, PyFloat_FromDouble,
    PyList_GET_ITEM, PyList_GET_SIZE, PyList_New, PyList_SET_ITEM, PyObject_GC_Track, PyTuple_Check, PyTuple_GET_SIZE,
    PyTuple_New, PyTuple_SET_ITEM, PyUnicode_DATA, PyUnicode_GET_LENGTH, PyUnicode_IS_COMPACT_ASCII, Py_DECREF,
    Py_INCREF, Py_None, Py_REFCNT,
)
from flinkbuf._core.value.row_codec cimport new_row
from flinkbuf._core.value.text cimport fb_text_copy, fb_text_is_ascii
from flinkbuf._core.value.text_codec cimport fb_kept_text, fb_text_codec_kept_ascii, pickled

cdef extern from "_core/value/object_codec.h":
    struct fb_object_codec_seen:
        size_t count
        const void** slots
    int fb_object_codec_met(fb_object_codec_seen* self, const void* object)
    void fb_object_codec_forget(fb_object_codec_seen* self)

cdef struct walk:
    const codec_node* n
    fb_data_output* out
    unsigned depth
    fb_object_codec_seen seen

# For callers that have something to do after a failure before they pass it on.
ctypedef uint8_t* (*walk_put)(walk* w, PyObject* value, uint8_t* pos) noexcept
ctypedef PyObject* (*walk_get)(const codec_node* n, const uint8_t** at, fb_data_input* source, unsigned depth) noexcept


# --- encode -------------------------------------------------------------------------------------------
# NULL without an exception: the value cannot be walked.


cdef uint8_t* put_object(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL:
    cdef size_t start = pos - out.start  # which moves when the record does
    cdef walk w
    w.n, w.out, w.depth, w.seen.count, w.seen.slots = n, out, 0, 0, NULL
    pos = (<walk_put>put_value)(&w, value, pos)
    if w.seen.slots != NULL:
        fb_object_codec_forget(&w.seen)
    if pos == NULL and PyErr_Occurred() == NULL:
        return put_pickled(n, value, out.start + start, out)
    return pos


cdef uint8_t* put_pickled(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL:
    cdef bytes data
    if n.is_key:
        refuse(n, value, ValueError, f"a key holds neither itself nor more than {FB_OBJECT_MAX_DEPTH} levels")
    try:
        data = pickled(n, value, True)
    except RecursionError:
        refuse(n, value, ValueError, "it nests too deep to be pickled")
    return put_bytes(n, value, FB_OBJECT_PICKLED, PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data), pos, out)


cdef inline uint8_t* put_value(walk* w, PyObject* value, uint8_t* pos) except? NULL:
    """What records are mostly made of, here; the rest elsewhere."""
    cdef PyObject* kind = FB_TYPE_OF(value)
    cdef Py_ssize_t left = w.out.end - pos
    cdef Py_ssize_t length
    cdef int64_t number = 0
    cdef uint64_t bits
    cdef double real
    if kind == <PyObject*>str:
        if PyUnicode_IS_COMPACT_ASCII(value):
            length = PyUnicode_GET_LENGTH(value)
            if length <= FB_OBJECT_MAX_SHORT_TEXT and left > length:
                pos[0] = <uint8_t>length
                fb_text_copy(pos + 1, <const uint8_t*>PyUnicode_DATA(value), length)
                return pos + 1 + length
    elif kind == <PyObject*>int:
        if left >= 9 and fb_number_codec_small_int(value, &number):
            return fb_object_put_int(pos, number)
    elif kind == <PyObject*>float:
        if left >= 9 and not w.n.is_key:
            real = PyFloat_AS_DOUBLE(value)
            memcpy(&bits, &real, 8)
            pos[0] = FB_OBJECT_FLOAT
            fb_store_le64(pos + 1, bits)
            return pos + 9
    elif value == Py_None:
        if left >= 1:
            pos[0] = FB_OBJECT_NONE
            return pos + 1
    return put_other(w, value, pos)


cdef uint8_t* put_other(walk* w, PyObject* value, uint8_t* pos) except? NULL:
    """Holds the value, which its container may lose when code of others runs."""
    Py_INCREF(value)
    pos = (<walk_put>put_held)(w, value, pos)
    Py_DECREF(value)
    return pos


cdef uint8_t* put_held(walk* w, PyObject* value, uint8_t* pos) except? NULL:
    cdef PyObject* kind = FB_TYPE_OF(value)
    cdef uint8_t* end
    if kind == <PyObject*>tuple:
        return put_tuple(w, value, pos)
    if kind == <PyObject*>list:
        return put_list(w, value, pos)
    if kind == <PyObject*>dict:
        return put_dict(w, value, pos)
    if kind == <PyObject*>set or kind == <PyObject*>frozenset:
        return put_set(w, value, pos)
    pos = make_room(w.out, pos, LEAF_ROOM)
    end = put_leaf(w.n, value, pos, w.out)
    if end != NULL:
        return end
    if PyTuple_Check(value):
        head = row_head(w.n, <object>kind)
        if head is not None:
            return put_row(w, value, head, pos)
    return put_parts(w, value, pos) if w.n.is_key else NULL


cdef bint enter(walk* w, PyObject* value) except -1:
    """Whether the walk can go into a container. What only its container holds, and the caller, stands at one place."""
    cdef int met = 0
    if w.depth >= FB_OBJECT_MAX_DEPTH:
        return False
    if not w.n.is_key and (Py_REFCNT(value) > 2 or w.depth == 0):
        met = fb_object_codec_met(&w.seen, value)
        if met < 0:
            PyErr_NoMemory()
    w.depth += 1
    return met == 0


cdef uint8_t* put_head(walk* w, PyObject* value, uint8_t tag, Py_ssize_t count, uint8_t* pos) except NULL:
    if count > 0x7fffffff:
        refuse(w.n, value, OverflowError, "the length must fit 31 bits")
    pos = make_room(w.out, pos, 5)
    pos[0] = tag
    fb_store_le32(pos + 1, <uint32_t>count)
    return pos + 5


cdef uint8_t* put_short_head(walk* w, uint8_t tag, Py_ssize_t count, uint8_t* pos) except NULL:
    pos = make_room(w.out, pos, 1)
    pos[0] = <uint8_t>(tag + count)
    return pos + 1


cdef uint8_t* put_tuple(walk* w, PyObject* value, uint8_t* pos) except? NULL:
    cdef Py_ssize_t size = PyTuple_GET_SIZE(value)
    if size == 0:  # there is only one
        return put_short_head(w, FB_OBJECT_SHORT_TUPLE, 0, pos)
    if not enter(w, value):
        return NULL
    if size <= FB_OBJECT_MAX_SHORT:
        pos = put_short_head(w, FB_OBJECT_SHORT_TUPLE, size, pos)
    else:
        pos = put_head(w, value, FB_OBJECT_TUPLE, size, pos)
    return put_items(w, value, pos)


cdef uint8_t* put_items(walk* w, PyObject* value, uint8_t* pos) except? NULL:
    """The items of a tuple or row, and the way out of it."""
    cdef PyObject** items = FB_TUPLE_ITEMS(value)
    cdef Py_ssize_t i
    for i in range(PyTuple_GET_SIZE(value)):
        pos = put_value(w, items[i], pos)
        if pos == NULL:
            return NULL
    w.depth -= 1
    return pos


cdef uint8_t* put_row(walk* w, PyObject* value, bytes head, uint8_t* pos) except? NULL:
    cdef Py_ssize_t size = PyBytes_GET_SIZE(head)
    if not enter(w, value):
        return NULL
    pos = make_room(w.out, pos, size + 4)
    memcpy(pos, PyBytes_AS_STRING(head), size)
    pos += size
    if (pos - size)[2] == 0:  # without names
        fb_store_le32(pos, <uint32_t>PyTuple_GET_SIZE(value))
        pos += 4
    return put_items(w, value, pos)


cdef uint8_t* put_list(walk* w, PyObject* value, uint8_t* pos) except? NULL:
    cdef Py_ssize_t i
    cdef Py_ssize_t size = PyList_GET_SIZE(value)
    if not enter(w, value):
        return NULL
    if size <= FB_OBJECT_MAX_SHORT:
        pos = put_short_head(w, FB_OBJECT_SHORT_LIST, size, pos)
    else:
        pos = put_head(w, value, FB_OBJECT_LIST, size, pos)
    for i in range(size):
        if i >= PyList_GET_SIZE(value):
            break
        pos = put_value(w, PyList_GET_ITEM(value, i), pos)
        if pos == NULL:
            return NULL
    if PyList_GET_SIZE(value) != size:
        raise RuntimeError("a list changed its size while it was encoded")
    w.depth -= 1
    return pos


cdef uint8_t* put_dict(walk* w, PyObject* value, uint8_t* pos) except? NULL:
    cdef Py_ssize_t place = 0
    cdef Py_ssize_t written = 0
    cdef Py_ssize_t size = PyDict_Size(value)
    cdef PyObject* key
    cdef PyObject* item
    if not enter(w, value):
        return NULL
    pos = put_head(w, value, FB_OBJECT_DICT, size, pos)
    if w.n.is_key:
        return put_sorted_dict(w, <dict><object>value, pos)
    while PyDict_Next(value, &place, &key, &item):
        Py_INCREF(item)
        pos = (<walk_put>put_value)(w, key, pos)
        if pos != NULL:
            pos = (<walk_put>put_value)(w, item, pos)
        Py_DECREF(item)
        if pos == NULL:
            return NULL
        written += 1
        if PyDict_Size(value) != size or written > size:
            break
    if written != size or PyDict_Size(value) != size:
        raise RuntimeError("a dict changed its size while it was encoded")
    w.depth -= 1
    return pos


cdef uint8_t* put_set(walk* w, PyObject* value, uint8_t* pos) except? NULL:
    cdef object v = <object>value
    cdef uint8_t tag = FB_OBJECT_SET if FB_TYPE_OF(value) == <PyObject*>set else FB_OBJECT_FROZENSET
    if not enter(w, value):
        return NULL
    pos = put_head(w, value, tag, len(v), pos)
    if w.n.is_key:
        return put_sorted_set(w, v, pos)
    for item in v:  # raises by itself if code of others changes the size
        pos = put_value(w, <PyObject*>item, pos)
        if pos == NULL:
            return NULL
    w.depth -= 1
    return pos


# --- encode a key -------------------------------------------------------------------------------------


cdef bytes cut_value(walk* w, object value, uint8_t** pos):
    """The bytes of a value, which are taken back from the output; None where it cannot be walked."""
    cdef size_t start = pos[0] - w.out.start
    cdef uint8_t* end = put_value(w, <PyObject*>value, pos[0])
    pos[0] = w.out.start + start
    return None if end == NULL else PyBytes_FromStringAndSize(<const char*>pos[0], end - pos[0])


cdef uint8_t* put_sorted(walk* w, list parts, uint8_t* pos) except NULL:
    parts.sort()
    cdef bytes data = b"".join(parts)
    pos = make_room(w.out, pos, PyBytes_GET_SIZE(data))
    memcpy(pos, PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
    w.depth -= 1
    return pos + PyBytes_GET_SIZE(data)


cdef uint8_t* put_sorted_set(walk* w, object value, uint8_t* pos) except? NULL:
    cdef list parts = []
    for item in value:
        part = cut_value(w, item, &pos)
        if part is None:
            return NULL
        parts.append(part)
    return put_sorted(w, parts, pos)


cdef uint8_t* put_sorted_dict(walk* w, dict value, uint8_t* pos) except? NULL:
    """By the bytes of the keys, of which no two are the same and none is the beginning of another."""
    cdef list parts = []
    for key, item in value.items():
        first, second = cut_value(w, key, &pos), cut_value(w, item, &pos)
        if first is None or second is None:
            return NULL
        parts.append(first + second)
    return put_sorted(w, parts, pos)


cdef uint8_t* put_parts(walk* w, PyObject* value, uint8_t* pos) except? NULL:
    cdef int tag = 0
    cdef tuple parts
    if not enter(w, value):
        return NULL
    parts = parts_of(w.n, <object>value, &tag)
    pos = put_short_head(w, <uint8_t>tag, 0, pos)
    pos = put_value(w, <PyObject*>parts, pos)
    w.depth -= 1
    return pos


# --- decode -------------------------------------------------------------------------------------------


cdef PyObject* get_object(const codec_node* n, fb_data_input* source) except NULL:
    cdef const uint8_t* pos = source.pos
    cdef PyObject* value = get_value(n, &pos, source, 0)
    source.pos = pos
    return value


cdef inline PyObject* get_value(const codec_node* n, const uint8_t** at, fb_data_input* source,
                                unsigned depth) except NULL:
    """Reads one value at `at` and moves that past it; a new reference. `source.pos` is not kept up to date."""
    cdef const uint8_t* pos = at[0]
    cdef size_t left = source.end - pos
    cdef uint64_t bits
    cdef unsigned tag
    cdef double real
    if left > 0:
        tag = pos[0]
        if tag <= FB_OBJECT_MAX_SHORT_TEXT:
            if left > tag and fb_text_is_ascii(pos + 1, tag):
                at[0] = pos + 1 + tag
                return fb_text_codec_kept_ascii(<fb_kept_text*>n.texts, pos + 1, tag)
        elif tag - FB_OBJECT_INT - 1 < 8:
            tag -= FB_OBJECT_INT
            if left > tag:
                at[0] = pos + 1 + tag
                return fb_number_codec_int(kept_ints, fb_object_int(pos + 1, tag, left - 1))
        elif tag == FB_OBJECT_FLOAT:
            if left >= 9:
                at[0] = pos + 9
                bits = fb_load_le64(pos + 1)
                memcpy(&real, &bits, 8)
                return PyFloat_FromDouble(real)
        elif tag == FB_OBJECT_NONE:
            at[0] = pos + 1
            return FB_NONE()
    return get_other(n, at, source, depth)


cdef PyObject* get_other(const codec_node* n, const uint8_t** at, fb_data_input* source, unsigned depth) except NULL:
    cdef PyObject* value
    cdef uint8_t tag
    source.pos = at[0]
    if source.pos == source.end:
        corrupt(n, source, FB_ETRUNCATED)
    tag = source.pos[0]
    if FB_OBJECT_SHORT_TUPLE <= tag < FB_OBJECT_NONE or FB_OBJECT_TUPLE <= tag <= FB_OBJECT_DICT \
            or tag == FB_OBJECT_ROW:
        if depth >= FB_OBJECT_MAX_DEPTH:
            corrupt(n, source, FB_ETOO_LARGE, f"it nests deeper than {FB_OBJECT_MAX_DEPTH} levels")
        source.pos += 1
        value = get_container(n, tag, source, depth + 1)
    elif tag == FB_OBJECT_PICKLED and depth == 0:
        unpickled = get_pickled(n, source)
        value = <PyObject*>unpickled
        Py_INCREF(value)
    else:
        source.pos += 1
        leaf = get_leaf(n, tag, source)
        value = <PyObject*>leaf
        Py_INCREF(value)
    at[0] = source.pos
    return value


cdef PyObject* get_container(const codec_node* n, uint8_t tag, fb_data_input* source, unsigned depth) except NULL:
    cdef object found
    if tag < FB_OBJECT_NONE:
        return get_items(n, tag < FB_OBJECT_SHORT_LIST, tag & FB_OBJECT_MAX_SHORT, source, depth)
    if tag == FB_OBJECT_TUPLE or tag == FB_OBJECT_LIST:
        return get_items(n, tag == FB_OBJECT_TUPLE, get_size(n, source, 1), source, depth)
    if tag == FB_OBJECT_ROW:
        return get_row(n, source, depth)
    try:
        found = get_dict(n, source, depth) if tag == FB_OBJECT_DICT else get_set(n, tag, source, depth)
    except TypeError as error:  # only of hash(): nothing here but builtin values
        corrupt(n, source, FB_ECORRUPT, str(error))
    Py_INCREF(<PyObject*>found)
    return <PyObject*>found


cdef PyObject* get_items(const codec_node* n, bint is_tuple, size_t count, fb_data_input* source,
                         unsigned depth) except NULL:
    cdef const uint8_t* pos = source.pos
    cdef size_t i
    cdef PyObject* items
    cdef PyObject* item
    if count > fb_data_input_left(source):
        corrupt(n, source, FB_ETRUNCATED)
    items = PyTuple_New(count) if is_tuple else PyList_New(count)
    for i in range(count):
        item = (<walk_get>get_value)(n, &pos, source, depth)
        if item == NULL:
            Py_DECREF(items)
            return NULL
        if is_tuple:
            PyTuple_SET_ITEM(items, i, item)
        else:
            PyList_SET_ITEM(items, i, item)
    source.pos = pos
    return items


cdef PyObject* get_row(const codec_node* n, fb_data_input* source, unsigned depth) except NULL:
    cdef size_t count = 0
    cdef PyObject* class_ = get_row_class(n, source, &count)
    cdef PyObject* row = new_row(class_, count)
    cdef PyObject* item
    cdef const uint8_t* pos = source.pos
    cdef size_t i
    for i in range(count):
        item = (<walk_get>get_value)(n, &pos, source, depth)
        if item == NULL:
            Py_DECREF(row)
            return NULL
        PyTuple_SET_ITEM(row, i, item)
    source.pos = pos
    PyObject_GC_Track(row)
    return row


cdef object get_here(const codec_node* n, fb_data_input* source, unsigned depth):
    cdef const uint8_t* pos = source.pos
    cdef PyObject* value = get_value(n, &pos, source, depth)
    source.pos = pos
    return FB_IDENTITY(value)


cdef object get_dict(const codec_node* n, fb_data_input* source, unsigned depth):
    cdef size_t _
    cdef size_t count = get_size(n, source, 2)
    cdef dict found = {}
    for _ in range(count):
        key = get_here(n, source, depth)
        found[key] = get_here(n, source, depth)
    if <size_t>len(found) != count:
        corrupt(n, source, FB_ECORRUPT, f"{count - len(found)} of {count} keys are equal to others in Python")
    return found


cdef object get_set(const codec_node* n, uint8_t tag, fb_data_input* source, unsigned depth):
    cdef size_t _
    cdef size_t count = get_size(n, source, 1)
    cdef set found = set()
    for _ in range(count):
        found.add(get_here(n, source, depth))
    if <size_t>len(found) != count:
        corrupt(n, source, FB_ECORRUPT, f"{count - len(found)} of {count} elements are equal to others in Python")
    return found if tag == FB_OBJECT_SET else frozenset(found)


cdef object get_pickled(const codec_node* n, fb_data_input* source):
    import pickle
    cdef size_t size
    if not (<Codec>n.codec).trusted:
        corrupt(n, source, FB_ECORRUPT, "a pickled value from somebody who has not proved the secret is not unpickled",
                "set a secret on both sides, or declare the type of the records")
    source.pos += 1
    size = get_size(n, source, 1)
    source.pos += size
    return pickle.loads((<const char*>source.pos - size)[:size])
