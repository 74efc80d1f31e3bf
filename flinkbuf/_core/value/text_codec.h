/* ASCII bytes as Python's text, and the short texts that a field had last. */
#ifndef FB_TEXT_CODEC_H
#define FB_TEXT_CODEC_H

#include <Python.h>

#include "value/text.h"

/* The short texts of real data repeat, and making an object costs three times as much as finding one: those of 2 to 8
 * bytes are looked up in a small table of the field's own, in which the newest wins. Immutable, so nobody can tell but
 * by `is`. Under the GIL. */
#define FB_TEXT_CODEC_KEPT_BITS 9
#define FB_TEXT_CODEC_KEPT      (1 << FB_TEXT_CODEC_KEPT_BITS) /* of each field */

struct fb_kept_text {
  uint64_t word; /* of its bytes */
  PyObject* text;
};

/* A str of `size` ASCII bytes; those of length 0 and 1 exist once in the process. */
static inline PyObject* fb_text_codec_ascii(const uint8_t* from, size_t size) {
  PyObject* text;
  if (size < 2) return size == 0 ? PyUnicode_New(0, 0) : PyUnicode_FromOrdinal(from[0]);
  text = PyUnicode_New((Py_ssize_t)size, 127);
  if (text != NULL) fb_text_copy(PyUnicode_1BYTE_DATA(text), from, size);
  return text;
}

/* As above, out of the table where it is there; `kept` may be NULL. */
static inline PyObject* fb_text_codec_kept_ascii(struct fb_kept_text* kept, const uint8_t* from, size_t size) {
  struct fb_kept_text* slot;
  uint64_t word;
  if (kept == NULL || size < 2 || size > 8) return fb_text_codec_ascii(from, size);
  word = fb_text_word(from, size);
  slot = &kept[(word * 0x9e3779b97f4a7c15u) >> (64 - FB_TEXT_CODEC_KEPT_BITS)];
  if (slot->text == NULL || slot->word != word || (size_t)PyUnicode_GET_LENGTH(slot->text) != size) {
    PyObject *old = slot->text, *text = fb_text_codec_ascii(from, size);
    if (text == NULL) return NULL;
    slot->word = word;
    slot->text = text;
    Py_XDECREF(old);
  }
  Py_INCREF(slot->text);
  return slot->text;
}

static inline void fb_text_codec_forget(struct fb_kept_text* kept) {
  for (size_t i = 0; kept != NULL && i < FB_TEXT_CODEC_KEPT; i++) Py_CLEAR(kept[i].text);
}

#endif
