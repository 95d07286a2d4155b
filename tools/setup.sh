#!/bin/sh
# Installs what attn needs from Debian 12 or 13, and prints what. Does nothing when all is there.
set -eu

usage() {
  cat <<'END'
usage: tools/setup.sh [run | test | ci]

  run   compiler, CMake and libraries: enough to build and run the library and the program
  test  (default) also what the tests and benchmarks use
  ci    also clang, sanitizers, lint, and an emulated 64-bit Arm: what .ci/run uses
END
}

fail() {
  echo "setup: $*" >&2
  exit 1
}

run='gcc libc6-dev cmake make pkgconf libsleef-dev libjansson-dev'
test="$run g++ libbenchmark-dev libsimde-dev"
ci="$test binutils git clang-19 clang-format-19 clang-tidy-19 libomp-19-dev libclang-rt-19-dev
  qemu-user-static gcc-aarch64-linux-gnu g++-aarch64-linux-gnu libc6-dev-arm64-cross"
ci_arm64='libc6:arm64 libstdc++6:arm64 libgomp1:arm64 libsleef-dev:arm64 libbenchmark-dev:arm64
  libjansson-dev:arm64'

[ $# -le 1 ] || { usage >&2; exit 2; }
case "${1-test}" in
  run) wanted=$run foreign= ;;
  test) wanted=$test foreign= ;;
  ci) wanted=$ci foreign=$ci_arm64 ;;
  -h | --help) usage; exit 0 ;;
  *) usage >&2; exit 2 ;;
esac

[ "$(uname -s)" = Linux ] ||
  fail "$(uname -s) is not supported: attn runs on Linux, on x86-64 and 64-bit Arm"
machine=$(uname -m)
case "$machine" in
  x86_64 | aarch64) ;;
  *) fail "the processor $machine is not supported: attn runs on x86-64 and 64-bit Arm" ;;
esac
[ -z "$foreign" ] || [ "$machine" = x86_64 ] || fail "the tier ci needs x86-64, this is $machine"
system=$(. /etc/os-release 2>/dev/null && echo "${ID-unknown} ${VERSION_ID-}") || system=unknown
case "$system" in
  'debian 12' | 'debian 13') ;;
  *) fail "knows the packages of debian 12 and debian 13 only, this is $system; README.md says" \
       "what to install otherwise" ;;
esac

# A package may be installed for several architectures; this machine's own is meant unless one is named.
native=$(dpkg --print-architecture)
missing=
for package in $wanted $foreign; do
  case "$package" in *:*) architecture=${package#*:} ;; *) architecture="$native|all" ;; esac
  dpkg-query -W -f '${db:Status-Status} ${Architecture}\n' "$package" 2>/dev/null |
    grep -qE "^installed ($architecture)$" || missing="$missing $package"
done
if [ -z "$missing" ]; then
  echo "setup: everything is installed"
  exit 0
fi

if [ "$(id -u)" = 0 ]; then
  root=
elif command -v sudo >/dev/null; then
  root=sudo
else
  fail "needs root or sudo to install:$missing"
fi

echo "setup: installing from $system (takes about a minute):$missing"
if [ -n "$foreign" ]; then
  $root dpkg --add-architecture arm64
fi
$root apt-get update -qq </dev/null
# Word splitting is meant. Debian's progress goes to /dev/null, its complaints do not.
# shellcheck disable=SC2086
$root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
  -o Dpkg::Use-Pty=0 $missing </dev/null >/dev/null
echo "setup: done"
