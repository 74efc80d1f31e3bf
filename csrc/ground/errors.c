#include "ground/errors.h"

const char* fb_strerror(int code) {
  switch (code) {
    case FB_OK: return "success";
#define X(name, number, text) \
  case FB_E##name: return text;
      FB_ERRORS(X)
#undef X
    default: return "unknown error";
  }
}
