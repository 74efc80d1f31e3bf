cdef extern from "partition/bounded_data.h" nogil:
    enum fb_bounded_storage:
        FB_BOUNDED_FILE
        FB_BOUNDED_MMAP
        FB_BOUNDED_FILE_MMAP
