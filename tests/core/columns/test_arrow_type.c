#include "columns/arrow_type.h"

#include "check.h"

static struct fb_arrow_type parse(const char* format) {
  struct fb_arrow_type type;

  CHECK(fb_arrow_type_parse(format, &type) == FB_OK);
  return type;
}

static void every_format_says_how_its_values_lie(void) {
  static const struct {
    const char* format;
    enum fb_arrow_kind kind;
    uint32_t width;
  } CASES[] = {{"n", FB_ARROW_NULL, 0},
               {"b", FB_ARROW_BOOLEAN, 0},
               {"C", FB_ARROW_INTEGER, 1},
               {"l", FB_ARROW_INTEGER, 8},
               {"e", FB_ARROW_FLOAT, 2},
               {"u", FB_ARROW_TEXT, 0},
               {"vu", FB_ARROW_TEXT_VIEW, 0},
               {"w:16", FB_ARROW_FIXED_BINARY, 16},
               {"d:9,2", FB_ARROW_DECIMAL, 16},
               {"d:9,2,32", FB_ARROW_DECIMAL, 4},
               {"tdD", FB_ARROW_DATE, 4},
               {"tdm", FB_ARROW_DATE, 8},
               {"ttm", FB_ARROW_TIME, 4},
               {"ttn", FB_ARROW_TIME, 8},
               {"tsu:UTC", FB_ARROW_TIMESTAMP, 8},
               {"tDs", FB_ARROW_DURATION, 8},
               {"tiM", FB_ARROW_MONTHS, 4},
               {"tin", FB_ARROW_MONTH_DAY_NANO, 16},
               {"+l", FB_ARROW_LIST, 0},
               {"+w:3", FB_ARROW_FIXED_LIST, 3},
               {"+vL", FB_ARROW_LARGE_LIST_VIEW, 0},
               {"+m", FB_ARROW_MAP, 0},
               {"+r", FB_ARROW_RUN_ENDS, 0}};

  for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
    struct fb_arrow_type type = parse(CASES[i].format);
    CHECK(type.kind == CASES[i].kind && type.width == CASES[i].width);
  }
  CHECK(parse("d:5,-3").scale == -3 && parse("ttu").per_second == 1000000);
  CHECK(parse("tsn:Asia/Tokyo").has_zone && !parse("tsn:").has_zone);
}

static void what_is_no_format_is_refused(void) {
  static const char* const WRONG[] = {"",     "x",    "ll",     "d:",     "d:5",           "d:5,2,7", "d:0,0",
                                      "w:",   "w:-1", "w:1x",   "td",     "tdx",           "tts:",    "tsu",
                                      "tsx:", "ti",   "+",      "+x",     "+w:",           "+ud:0",   "+v",
                                      "+vx",  "vx",   "d: 5,2", "d:+5,2", "w:99999999999", "tDm:",    "+lx",
                                      "+s1"};
  struct fb_arrow_type type;

  for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) CHECK(fb_arrow_type_parse(WRONG[i], &type) == FB_EARGUMENT);
  CHECK(fb_arrow_type_parse(NULL, &type) == FB_EARGUMENT);
}

static bool fits(const char* format, struct fb_type type) {
  struct fb_arrow_type arrow = parse(format);

  return fb_arrow_type_fits(&arrow, &type);
}

#define OF(...) ((struct fb_type){.kind = FB_TYPE_##__VA_ARGS__})

static void a_column_fits_where_every_value_of_it_does(void) {
  CHECK(fits("I", OF(LONG)) && !fits("I", OF(INT)) && fits("L", OF(BIG_INT)) && !fits("L", OF(LONG)));
  CHECK(fits("e", OF(FLOAT)) && !fits("g", OF(FLOAT)) && fits("f", OF(DOUBLE)) && !fits("l", OF(DOUBLE)));
  CHECK(fits("u", OF(STRING)) && fits("vu", OF(STRING_DATA)) && !fits("z", OF(STRING_DATA)));
  CHECK(fits("tsu:", OF(LOCAL_DATE_TIME)) && !fits("tsu:Z", OF(LOCAL_DATE_TIME)) && fits("tsu:Z", OF(INSTANT)));
  CHECK(fits("tsu:", OF(TIMESTAMP_DATA)) && fits("tsu:Z", OF(TIMESTAMP_LTZ_DATA)) && !fits("tsu:", OF(INSTANT)));
  CHECK(fits("d:9,2", OF(BIG_DEC)) && fits("d:9,2", OF(DECIMAL_DATA, .precision = 20, .scale = 2)));
  CHECK(!fits("d:9,3", OF(DECIMAL_DATA, .precision = 20, .scale = 2))); /* digits would be lost */
  CHECK(fits("L", OF(DECIMAL_DATA, .precision = 20)) && !fits("tDs", OF(DECIMAL_DATA, .precision = 20)));
  CHECK(fits("tdm", OF(DATE_DATA)) && fits("ttn", OF(TIME_DATA)) && !fits("ttn", OF(LONG)) && fits("tDn", OF(LONG)));
  CHECK(fits("+l", OF(ARRAY_DATA)) && fits("+m", OF(MAP_DATA)) && fits("+s", OF(ROW_DATA)) && !fits("+s", OF(MAP)));
}

int main(void) {
  every_format_says_how_its_values_lie();
  what_is_no_format_is_refused();
  a_column_fits_where_every_value_of_it_does();
  return 0;
}
