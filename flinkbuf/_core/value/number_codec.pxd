from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint8_t

from flinkbuf._core.value.codec cimport codec_node
from flinkbuf._core.ground.data_view cimport fb_data_input, fb_data_output

cdef extern from "_core/value/number_codec.h":
    enum:
        FB_NUMBER_CODEC_KEPT
    bint fb_number_codec_small_int(PyObject* value, int64_t* number)
    PyObject* fb_number_codec_int(PyObject** kept, int64_t number) except NULL

cdef PyObject* kept_ints[FB_NUMBER_CODEC_KEPT]  # of the process, made when they are first read

cdef uint8_t* put_boolean(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL
cdef uint8_t* put_byte(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL
cdef uint8_t* put_short(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL
cdef uint8_t* put_int(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL
cdef uint8_t* put_long(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL
cdef uint8_t* put_float(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL
cdef uint8_t* put_double(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL
cdef uint8_t* put_big_int(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL
cdef uint8_t* put_big_dec(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL
cdef PyObject* get_boolean(const codec_node* n, fb_data_input* source) except NULL
cdef PyObject* get_byte(const codec_node* n, fb_data_input* source) except NULL
cdef PyObject* get_short(const codec_node* n, fb_data_input* source) except NULL
cdef PyObject* get_int(const codec_node* n, fb_data_input* source) except NULL
cdef PyObject* get_long(const codec_node* n, fb_data_input* source) except NULL
cdef PyObject* get_float(const codec_node* n, fb_data_input* source) except NULL
cdef PyObject* get_double(const codec_node* n, fb_data_input* source) except NULL
cdef object get_big_int(const codec_node* n, fb_data_input* source)
cdef object get_big_dec(const codec_node* n, fb_data_input* source)

cdef int refuse_array(const codec_node* n, PyObject* value) except -1
