#include "record/record_serializer.h"

void fb_record_serializer_close(struct fb_record_serializer* self) { fb_data_output_close(&self->output); }
