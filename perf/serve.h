/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* attn_perf --serve: samples on demand, one JSON object per line. Two such processes, of two builds,
 * can be asked in turn within milliseconds, which is what comparing on a shared machine needs.
 *
 *   at the start             what the machine and the build are, and every workload with its work
 *   sample NAME CALLS        {"wall": [seconds, ...], "cpu": [...]}: one per call; also "cycles" and
 *                            "instructions" (one thread, where they can be counted), and "phases"
 *                            (share of the threads' time, in builds with ATTN_PHASES). NAME is that
 *                            of the benchmark, as P2/f32/threads:1. The first sample of a workload
 *                            sets up, runs once and checks the result before anything is timed.
 *   peak THREADS             {"gflops": the multiply-add peak}
 *   bandwidth THREADS        {"gbs": GB/s of reading 64 MiB of memory}
 *
 * A request that fails is answered by {"error": "..."}; the end of the input ends the process. */
#ifndef ATTN_PERF_SERVE_H
#define ATTN_PERF_SERVE_H

/* Returns the exit status. */
int perf_serve(void);

#endif
