#!/bin/sh
# Sets up a fresh machine, builds everything, runs all tests. Arguments go to ctest: -L quick, -R name.
set -eu
cd "$(dirname "$0")/.."
tools/setup.sh test
echo "== configure"
cmake -S . -B build -D ATTN_TESTS=ON -D ATTN_PERF=ON
echo "== build"
cmake --build build --parallel "$(nproc)"
echo "== test"
# Tests run beside each other: threads that wait must not spin.
export OMP_WAIT_POLICY="${OMP_WAIT_POLICY-passive}"
exec ctest --test-dir build --output-on-failure --parallel "$(nproc)" "$@" </dev/null
