#!/bin/sh
# The one-way rule of the layers, and OpenMP and intrinsics only where they belong.
set -eu
cd "$(dirname "$0")/.."
bad=0

# complain WHAT MATCHES
complain() {
  [ -z "$2" ] || { printf '%s:\n%s\n' "$1" "$2" >&2; bad=1; }
}

# includes DIRECTORY: file:line:#include "..." of the project's own headers
includes() {
  grep -rnE '^ *# *include *[<"](attn|engine|simd|cli|perf|tests)/' "$1" --include='*.[ch]' \
    --include='*.cc' --include='*.inc' || true
}

only() {
  complain "$1/ may include only $2" "$(includes "$1" | grep -vE "[<\"]($2)" || true)"
}

only include 'attn/'
only simd 'simd/'
only engine 'attn/|engine/|simd/kernels\.h'
only cli 'attn/|cli/'
only perf 'attn/|perf/|simd/(kernels|phase)\.h|engine/(philox|linear)\.h'

complain "includes are relative to the root or to the own directory" \
  "$(grep -rnE '^ *# *include *"\.\.?/' include engine simd cli perf || true)"
complain "OpenMP belongs into engine/" \
  "$(grep -rnE '<omp\.h>|pragma omp' include simd cli || true)"
complain "intrinsics belong into simd/" \
  "$(grep -rnE '<(([a-z]*mm|arm_neon|arm_sve)intrin|arm_neon|arm_sve|cpuid)\.h>' \
    include engine cli || true)"
complain "instruction sets are chosen per object, by cmake/IsaFlags.cmake, not by attribute" \
  "$(grep -rnE '__attribute__ *\(\( *(__)?target|pragma (GCC|clang) (target|optimize)' \
    include engine simd cli perf || true)"
[ "$bad" = 0 ] && echo "includes point one way"
