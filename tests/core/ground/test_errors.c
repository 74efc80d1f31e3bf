#include "ground/errors.h"

#include <string.h>

#include "check.h"

static const int CODES[] = {
#define X(name, code, text) FB_E##name,
    FB_ERRORS(X)
#undef X
};
enum { COUNT = sizeof CODES / sizeof CODES[0] };

static void every_code_is_negative_and_has_a_text_of_its_own(void) {
  for (int i = 0; i < COUNT; i++) {
    CHECK(CODES[i] == -1 - i); /* in order and without a gap: none is used twice */
    CHECK(strlen(fb_strerror(CODES[i])) > 0 && strcmp(fb_strerror(CODES[i]), "unknown error") != 0);
    for (int j = 0; j < i; j++) CHECK(strcmp(fb_strerror(CODES[i]), fb_strerror(CODES[j])) != 0);
  }
}

static void any_number_has_a_text(void) {
  CHECK(strcmp(fb_strerror(FB_OK), "success") == 0);
  CHECK(strcmp(fb_strerror(-1 - COUNT), "unknown error") == 0);
  CHECK(strcmp(fb_strerror(1000), "unknown error") == 0);
}

static void states_of_work_are_no_errors(void) {
  CHECK((int)FB_RECORD == FB_OK && FB_NEEDS_INPUT > 0 && FB_NEEDS_BUFFER > 0);
}

int main(void) {
  every_code_is_negative_and_has_a_text_of_its_own();
  any_number_has_a_text();
  states_of_work_are_no_errors();
  return 0;
}
