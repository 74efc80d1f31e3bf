# What a piece of work on an input has come to; the numbers of flinkbuf.streaming.sources.input_status.
cdef enum input_status:
    MORE_AVAILABLE = 0
    NOTHING_AVAILABLE = 1
    END_OF_DATA = 2
    END_OF_INPUT = 3
    STOPPED = 4
