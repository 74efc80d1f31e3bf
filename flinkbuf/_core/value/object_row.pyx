"""Rows among values that nobody declared: the head that says of each row what its kind of change and its names are."""

import struct

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t
from libc.string cimport memcmp

from flinkbuf._core.ground.byte_order cimport fb_load_le32
from flinkbuf._core.value.codec cimport Codec, corrupt
from flinkbuf._core.ground.data_view cimport fb_data_input_left
from flinkbuf._core.ground.errors cimport FB_ECORRUPT, FB_ETRUNCATED
from flinkbuf._core.value.object cimport FB_OBJECT_ROW
from flinkbuf._core.value.object_leaf cimport get_size
from flinkbuf._core.value.row_codec cimport check_row_class

from flinkbuf._core.value.row_codec import NamedFields

cdef enum:
    MAX_HEADS = 4096  # so many are known at once


cdef bytes row_head(const codec_node* n, object type_):
    """What stands before the values of a row of that class, the tag first; None if it is no class of `row_classes`."""
    cdef Codec codec = <Codec>n.codec
    head = codec.row_heads.get(type_)
    if head is not None or codec.row_classes is None or not issubclass(type_, NamedFields):
        return head
    classes = codec.row_classes(type_._names)
    if type_ not in classes:
        return None  # a class below those, which may have more than its fields
    head = make_head(classes.index(type_), type_._names)
    codec.row_heads[type_] = head
    return head


cdef bytes make_head(kind, names):
    """Without names, rows of one class differ in their count, which then follows the head."""
    if names is None:
        return struct.pack("<BBB", FB_OBJECT_ROW, kind, 0)
    texts = [name.encode("utf-8", "surrogatepass") for name in names]
    blob = b"".join([struct.pack("<I", len(text)) + text for text in texts])
    return struct.pack("<BBBII", FB_OBJECT_ROW, kind, 1, len(names), len(blob)) + blob


cdef PyObject* get_row_class(const codec_node* n, fb_data_input* source, size_t* count) except NULL:
    """The class of the row whose tag has been read, held by the codec, and how many values follow."""
    cdef Codec codec = <Codec>n.codec
    cdef const uint8_t* start = source.pos
    cdef size_t size = 0 if codec.last_head is None else PyBytes_GET_SIZE(codec.last_head)
    if size > 0 and fb_data_input_left(source) >= size and memcmp(start, PyBytes_AS_STRING(codec.last_head), size) == 0:
        source.pos += size
    else:
        find_class(codec, n, source)
    if start[1] == 0:
        count[0] = get_size(n, source, 1)
    else:
        count[0] = fb_load_le32(start + 2)
        if count[0] > fb_data_input_left(source):
            corrupt(n, source, FB_ETRUNCATED)
    return <PyObject*>codec.last_class


cdef int find_class(Codec codec, const codec_node* n, fb_data_input* source) except -1:
    """Reads a head and keeps it, with its class, as the last one."""
    cdef const uint8_t* start = source.pos
    if fb_data_input_left(source) < 2:
        corrupt(n, source, FB_ETRUNCATED)
    if start[0] > 3 or start[1] > 1 or codec.row_classes is None:
        corrupt(n, source, FB_ECORRUPT, "no kind of row")
    source.pos += 2
    names = get_names(n, source) if start[1] == 1 else None
    head = PyBytes_FromStringAndSize(<const char*>start, source.pos - start)
    class_ = codec.classes_of_heads.get(head)
    if class_ is None:
        try:
            class_ = codec.row_classes(names)[start[0]]
        except ValueError as error:
            corrupt(n, source, FB_ECORRUPT, str(error))
        if len(codec.classes_of_heads) >= MAX_HEADS:
            codec.classes_of_heads.clear()
        codec.classes_of_heads[head] = class_
    check_row_class(class_)
    codec.last_head, codec.last_class = head, class_
    return 0


cdef tuple get_names(const codec_node* n, fb_data_input* source):
    cdef size_t count = get_size(n, source, 1)
    cdef size_t size = get_size(n, source, 1)
    cdef fb_data_input part = source[0]
    cdef size_t _, length
    cdef list names = []
    part.end = part.pos + size
    for _ in range(count):
        length = get_size(n, &part, 1)
        try:
            names.append((<const char*>part.pos)[:length].decode("utf-8", "surrogatepass"))
        except UnicodeDecodeError:
            corrupt(n, &part, FB_ECORRUPT, "a name of a row is no UTF-8")
        part.pos += length
    if part.pos != part.end:
        corrupt(n, &part, FB_ECORRUPT, "there is more than the names of a row")
    source.pos = part.end
    return tuple(names)
