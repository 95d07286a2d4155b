#!/bin/sh
# Sets up a fresh machine, builds the program, and runs the layer on bundled data: the error against the
# truth, the instruction set and the speed.
set -eu
cd "$(dirname "$0")/.."
tools/setup.sh run
echo "== configure"
cmake -S . -B build
echo "== build"
cmake --build build --parallel "$(nproc)" --target attn_cli
# The machine may be busy: threads that wait for each other should not spin.
export OMP_WAIT_POLICY="${OMP_WAIT_POLICY-passive}"
echo "== the machine"
build/cli/attn info
echo "== the layer, on bundled data"
for case in nnx_d256_h2_T20 linen_d128_h4_T257_B3; do
  build/cli/attn run "tests/data/$case.safetensors" --repeat 100
done
