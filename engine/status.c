/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

#include "status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char message[512];

/* Bytes of the UTF-8 character that begins here; 0 for a control character or half a character, such as a name cut
 * short ends with: a message is one line that everybody can print. */
static size_t character(const char *text) {
  const unsigned char first = (unsigned char)text[0];
  if (first < 0x80) return first >= ' ' && first != 0x7f;
  const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4) return 0;
  for (size_t i = 1; i < length; i++) {
    if (((unsigned char)text[i] & 0xc0) != 0x80) return 0;
  }
  return length;
}

attn_status attn_fail(attn_status status, const char *format, ...) {
  /* Formatted aside first: an argument may be the old message itself. */
  char text[sizeof(message)];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  for (size_t i = 0, length; text[i] != '\0'; i += length) {
    length = character(text + i);
    if (length == 0) text[i] = '?', length = 1;
  }
  memcpy(message, text, strlen(text) + 1);
  return status;
}

attn_status attn_fail_memory(const char *name, const void *memory, size_t size, size_t needed,
                             const char *units, const char *function) {
  if (!memory) {
    return attn_fail(ATTN_INVALID_ARGUMENT, "%s is NULL; it must point to %zu %s, as %s() says",
                     name, needed, units, function);
  }
  return attn_fail(ATTN_INVALID_ARGUMENT,
                   "%s_size is %zu; it must be at least %zu %s, as %s() says", name, size, needed,
                   units, function);
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
