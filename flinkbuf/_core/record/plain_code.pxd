from flinkbuf._core.record.plain_node cimport Node


cdef Node read_code(object function, object code, tuple arguments, int* kept_count)
