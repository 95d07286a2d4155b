/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* `attn info`: what this build and this machine can do. Nothing is measured, so it answers at once. */
#include "cli.h"

#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct cache {
  int64_t level;
  char type[32]; /* "Data", "Instruction", "Unified" */
  int64_t bytes;
  char cpus[128]; /* that share it with CPU 0, as "0-3,8" */
} cache;

enum { MAX_CACHES = 16 };

/* Reads the first line of a small file. False when there is none. */
static bool read_line(const char *path, char *line, size_t size) {
  FILE *file = fopen(path, "re");
  if (file == NULL) return false;
  bool ok = fgets(line, (int)size, file) != NULL;
  fclose(file);
  if (ok) line[strcspn(line, "\n")] = '\0';
  return ok;
}

static bool read_cache(int index, cache *c) {
  static const char *const fields[] = {"level", "type", "size", "shared_cpu_list"};
  char path[128], text[4][128];
  for (int i = 0; i < 4; i++) {
    snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu0/cache/index%d/%s", index, fields[i]);
    if (!read_line(path, text[i], sizeof(text[i]))) return false;
  }
  size_t digits = strspn(text[2], "0123456789");
  char unit = text[2][digits];
  text[2][digits] = '\0';
  if (!parse_int(text[0], 1, 9, &c->level) || !parse_int(text[2], 1, INT32_MAX, &c->bytes))
    return false;
  c->bytes *= unit == 'K' ? 1024 : unit == 'M' ? 1048576 : 1;
  snprintf(c->type, sizeof(c->type), "%.31s", text[1]);
  snprintf(c->cpus, sizeof(c->cpus), "%s", text[3]);
  return true;
}

/* From the kernel, else from the C library, which knows less. */
static int find_caches(cache caches[MAX_CACHES]) {
  int count = 0;
  while (count < MAX_CACHES && read_cache(count, &caches[count])) count++;
  if (count > 0) return count;
  static const struct {
    int name;
    int64_t level;
    const char *type;
  } known[] = {{_SC_LEVEL1_DCACHE_SIZE, 1, "Data"},
               {_SC_LEVEL2_CACHE_SIZE, 2, "Unified"},
               {_SC_LEVEL3_CACHE_SIZE, 3, "Unified"}};
  for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
    long bytes = sysconf(known[i].name);
    if (bytes <= 0) continue;
    caches[count] = (cache){.level = known[i].level, .bytes = bytes};
    snprintf(caches[count++].type, sizeof(caches[0].type), "%s", known[i].type);
  }
  return count;
}

/* The value of the first line of /proc/cpuinfo that begins with `key`. */
static bool cpuinfo_value(const char *key, char *value, size_t size) {
  FILE *file = fopen("/proc/cpuinfo", "re");
  if (file == NULL) return false;
  char line[4096];
  bool found = false;
  while (!found && fgets(line, sizeof(line), file) != NULL) {
    char *colon = strchr(line, ':');
    if (colon == NULL || strncmp(line, key, strlen(key)) != 0) continue;
    colon += 1 + strspn(colon + 1, " \t");
    colon[strcspn(colon, "\n")] = '\0';
    snprintf(value, size, "%s", colon);
    found = true;
  }
  fclose(file);
  return found;
}

/* Arm kernels name no model, only numbers of maker and part. */
static void find_cpu(char *model, size_t size) {
  char maker[64], part[64];
  if (cpuinfo_value("model name", model, size)) return;
  if (cpuinfo_value("CPU implementer", maker, sizeof(maker)) &&
      cpuinfo_value("CPU part", part, sizeof(part)))
    snprintf(model, size, "Arm implementer %s part %s", maker, part);
  else
    snprintf(model, size, "unknown");
}

/* ---- printing ------------------------------------------------------------------------------- */

static void print_isas(const char *title, bool only_supported) {
  printf("%s", title);
  const char *isa;
  for (int i = 0; (isa = attn_isa_compiled(i)) != NULL; i++)
    if (!only_supported || attn_isa_supported(isa)) printf(" %s", isa);
  printf("\n");
}

static void print_size(int64_t bytes) {
  if (bytes % 1048576 == 0)
    printf("%lld MiB", (long long)(bytes / 1048576));
  else
    printf("%lld KiB", (long long)(bytes / 1024));
}

static void print_text(int32_t threads, const char *cpu, const cache *caches, int count) {
  printf("version        %s\n", attn_version());
  printf("cpu            %s\n", cpu);
  print_isas("isa compiled  ", false);
  print_isas("isa supported ", true);
  printf("isa selected   %s\n", attn_isa_name());
  attn_tile_sizes t;
  if (attn_isa_tile_sizes(attn_isa_name(), &t))
    printf("tile           %d rows x %d lanes, vectors of %d; tasks of up to %d lanes\n",
           (int)t.rows, (int)t.lanes, (int)t.vector, (int)t.task_lanes);
  printf("exp            %s\n", attn_exp_name());
  printf("sleef          %s\n", attn_sleef_version());
  printf("threads        %d\n", (int)threads);
  for (int i = 0; i < count; i++) {
    printf("cache L%lld %-11s ", (long long)caches[i].level, caches[i].type);
    print_size(caches[i].bytes);
    if (caches[i].cpus[0] != '\0') printf(", of CPUs %s", caches[i].cpus);
    printf("\n");
  }
}

static json_t *list_isas(bool only_supported) {
  json_t *list = json_array();
  const char *isa;
  for (int i = 0; (isa = attn_isa_compiled(i)) != NULL; i++)
    if (!only_supported || attn_isa_supported(isa)) json_array_append_new(list, json_string(isa));
  return list;
}

static json_t *tile_sizes(void) {
  attn_tile_sizes t = {0};
  attn_isa_tile_sizes(attn_isa_name(), &t);
  return json_pack("{s:i, s:i, s:i, s:i}", "vector", (int)t.vector, "rows", (int)t.rows, "lanes",
                   (int)t.lanes, "task_lanes", (int)t.task_lanes);
}

static int print_json(int32_t threads, const char *cpu, const cache *caches, int count) {
  json_t *list = json_array();
  for (int i = 0; i < count; i++)
    json_array_append_new(list,
                          json_pack("{s:I, s:s, s:I, s:s}", "level", (json_int_t)caches[i].level,
                                    "type", caches[i].type, "bytes", (json_int_t)caches[i].bytes,
                                    "cpus", caches[i].cpus));
  json_t *all =
      json_pack("{s:s, s:s, s:o, s:o, s:s, s:o, s:s, s:s, s:i, s:o}", "version", attn_version(),
                "cpu", cpu, "isa_compiled", list_isas(false), "isa_supported", list_isas(true),
                "isa_selected", attn_isa_name(), "tile", tile_sizes(), "exp", attn_exp_name(),
                "sleef", attn_sleef_version(), "threads", (int)threads, "caches", list);
  int code = 0;
  if (all == NULL || json_dumpf(all, stdout, JSON_INDENT(2)) != 0)
    code = fail(EXIT_BAD_DATA, "cannot print as JSON: no memory");
  else
    printf("\n");
  json_decref(all);
  return code;
}

int command_info(const options *o) {
  int code = options_select(o);
  if (code != 0) return code;
  char cpu[256];
  cache caches[MAX_CACHES] = {{0}};
  find_cpu(cpu, sizeof(cpu));
  int count = find_caches(caches);
  int32_t threads = o->has_threads ? o->threads : attn_default_threads();
  if (o->json) return print_json(threads, cpu, caches, count);
  print_text(threads, cpu, caches, count);
  return 0;
}
