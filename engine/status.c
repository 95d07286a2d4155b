/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

#include "status.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local char message[512];

attn_status attn_fail(attn_status status, const char *format, ...) {
  /* Formatted aside first: an argument may be the old message itself. */
  char text[sizeof(message)];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  for (size_t i = 0; i < sizeof(text); i++) {
    /* One line, whatever a hostile file put into a name. */
    message[i] = (text[i] > 0 && text[i] < ' ') ? '?' : text[i];
    if (text[i] == '\0') break;
  }
  return status;
}

const char *attn_last_error(void) { return message; }

const char *attn_status_string(attn_status status) {
  switch (status) {
  case ATTN_OK: return "ok";
  case ATTN_INVALID_ARGUMENT: return "invalid argument";
  case ATTN_UNSUPPORTED: return "unsupported";
  case ATTN_OUT_OF_MEMORY: return "out of memory";
  case ATTN_IO_ERROR: return "i/o error";
  case ATTN_BAD_FILE: return "bad file";
  case ATTN_CANCELLED: return "cancelled";
  }
  return "unknown status";
}

#define ATTN_TEXT_(x) #x
#define ATTN_TEXT(x) ATTN_TEXT_(x)

const char *attn_version(void) {
  return ATTN_TEXT(ATTN_VERSION_MAJOR) "." ATTN_TEXT(ATTN_VERSION_MINOR) "." ATTN_TEXT(
      ATTN_VERSION_PATCH);
}
