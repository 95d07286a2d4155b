/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* What `attn run` found, for people or as JSON. */
#include "job.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>

static int32_t thread_limit(const options *o) {
  return o->has_threads ? o->threads : attn_default_threads();
}

static void report_check(const check *c) {
  printf("error   %s against %s: %.2f of %g tolerance units in the worst row, rms %.2f eps%s%s\n",
         c->result, c->name, c->worst, c->allowed, c->rms, c->exact ? ", correctly rounded" : "",
         c->ok ? "" : "  TOO LARGE");
}

static void report_text(const job *j, const options *o, const timing *t) {
  if (o->weights != NULL) printf("weights %s\n", o->weights);
  printf("%s%s\n", o->weights != NULL ? "input   " : "", j->path);
  printf("shape   %s: %s\n", j->form, j->shape);
  printf("with    %s, exp %s, threads up to %d\n", attn_isa_name(), attn_exp_name(),
         (int)thread_limit(o));
  printf("time    %.3f ms", 1e3 * t->best);
  if (t->runs == 1) printf(", a first call");
  if (t->runs > 1)
    printf(" best, %.3f ms median of %lld runs", 1e3 * t->median, (long long)t->runs);
  printf("; %.2f GFLOP/s%s\n", j->flops / t->best * 1e-9, t->runs > 1 ? " at best" : "");
  for (int i = 0; i < j->check_count; i++) report_check(&j->checks[i]);
  if (j->check_count == 0 && o->case_path != NULL)
    printf("check   none: the case does not hold the truth\n");
  if (o->output != NULL) printf("wrote   %s\n", o->output);
}

/* JSON has no infinities and no NaN. */
static json_t *number(double value) { return isfinite(value) ? json_real(value) : json_null(); }

static json_t *describe_check(const check *c) {
  return json_pack("{s:s, s:s, s:o, s:f, s:I, s:o, s:b, s:b}", "result", c->result, "truth",
                   c->name, "worst_units", number(c->worst), "allowed_units", c->allowed,
                   "worst_row", (json_int_t)c->worst_row, "rms_eps", number(c->rms),
                   "correctly_rounded", (int)c->exact, "ok", (int)c->ok);
}

static int report_json(const job *j, const options *o, const timing *t) {
  json_t *checks = json_array();
  bool ok = true;
  for (int i = 0; i < j->check_count; i++) {
    json_array_append_new(checks, describe_check(&j->checks[i]));
    ok = ok && j->checks[i].ok;
  }
  json_t *all =
      json_pack("{s:s, s:s?, s:s, s:s, s:s, s:s, s:i, s:I, s:f, s:f, s:f, s:f, s:o, s:b, s:s?}",
                o->weights != NULL ? "input" : "case", j->path, "weights", o->weights, "form",
                j->form, "shape", j->shape, "isa", attn_isa_name(), "exp", attn_exp_name(),
                "threads", (int)thread_limit(o), "repeat", (json_int_t)t->runs, "seconds_best",
                t->best, "seconds_median", t->median, "flops", j->flops, "gflops_per_second",
                j->flops / t->best * 1e-9, "checks", checks, "ok", (int)ok, "output", o->output);
  int code = 0;
  if (all == NULL || json_dumpf(all, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) != 0)
    code = fail(EXIT_BAD_DATA,
                "cannot print the result as JSON: a path that is not UTF-8, or no memory");
  else
    printf("\n");
  json_decref(all);
  return code;
}

int report(const job *j, const options *o, const timing *t) {
  if (o->json) return report_json(j, o, t);
  report_text(j, o, t);
  return 0;
}
