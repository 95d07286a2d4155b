/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

#include "perf/counters.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int leader = -1;
static char missing[128];

static int open_counter(uint64_t which, int group) {
  struct perf_event_attr attr = {0};
  attr.type = PERF_TYPE_HARDWARE;
  attr.size = sizeof attr;
  attr.config = which;
  attr.exclude_kernel = 1; /* what an unprivileged user may count */
  attr.exclude_hv = 1;
  attr.read_format = PERF_FORMAT_GROUP;
  return (int)syscall(SYS_perf_event_open, &attr, 0, -1, group, 0);
}

const char *perf_counters_missing(void) {
  static bool tried;
  if (!tried) {
    tried = true;
    leader = open_counter(PERF_COUNT_HW_CPU_CYCLES, -1);
    if (leader < 0 || open_counter(PERF_COUNT_HW_INSTRUCTIONS, leader) < 0) {
      snprintf(missing, sizeof missing, "unavailable: perf_event_open: %s", strerror(errno));
      if (leader >= 0) close(leader);
      leader = -1;
    }
  }
  return leader < 0 ? missing : NULL;
}

bool perf_counters_read(perf_counts *counts) {
  struct {
    uint64_t members, value[2];
  } group;
  if (perf_counters_missing()) return false;
  if (read(leader, &group, sizeof group) != (ssize_t)sizeof group || group.members != 2)
    return false;
  *counts = (perf_counts){group.value[0], group.value[1]};
  return true;
}
