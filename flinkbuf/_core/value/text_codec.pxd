from cpython.object cimport PyObject
from libc.stdint cimport uint8_t

from flinkbuf._core.value.codec cimport codec_node
from flinkbuf._core.ground.data_view cimport fb_data_input, fb_data_output

cdef extern from "_core/value/text_codec.h":
    enum:
        FB_TEXT_CODEC_KEPT
    struct fb_kept_text:
        PyObject* text
    PyObject* fb_text_codec_ascii(const uint8_t* from_, size_t size) except NULL
    PyObject* fb_text_codec_kept_ascii(fb_kept_text* kept, const uint8_t* from_, size_t size) except NULL
    void fb_text_codec_forget(fb_kept_text* kept)

cdef uint8_t* put_text(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL
cdef uint8_t* put_char(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL
cdef bytes pickled(const codec_node* n, PyObject* value, bint always=*)
cdef uint8_t* put_pickled(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL
cdef PyObject* get_text(const codec_node* n, fb_data_input* source) except NULL
cdef PyObject* get_char(const codec_node* n, fb_data_input* source) except NULL
cdef object get_pickled(const codec_node* n, fb_data_input* source)
