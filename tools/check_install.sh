#!/bin/sh
# usage: tools/check_install.sh DIRECTORY
# Builds and installs libattn into DIRECTORY, shared and static, and moves the shared one elsewhere;
# tests/consumer then finds each by its CMake package and by pkg-config, builds, and runs.
set -eu
cd "$(dirname "$0")/.."
rm -rf "$1"
mkdir -p "$1"
out=$(cd "$1" && pwd)

# consume NAME PREFIX PKG-CONFIG-OPTIONS
consume() {
  cmake -S tests/consumer -B "$out/$1-cmake" -D CMAKE_PREFIX_PATH="$2"
  cmake --build "$out/$1-cmake"
  "$out/$1-cmake/consumer"
  if command -v c++ >/dev/null; then
    cmake -S tests/consumer/cxx -B "$out/$1-cxx" -D CMAKE_PREFIX_PATH="$2"
    cmake --build "$out/$1-cxx"
    "$out/$1-cxx/consumer"
  fi
  flags=$(PKG_CONFIG_PATH=$2/lib/pkgconfig pkg-config $3 --cflags --libs attn)
  # shellcheck disable=SC2086
  cc -std=c11 -Wall -Wextra -Werror tests/consumer/main.c -o "$out/$1-pkgconfig" $flags \
    -Wl,-rpath,"$2/lib"
  "$out/$1-pkgconfig"
  "$2/bin/attn" info
}

for kind in shared static; do
  [ "$kind" = shared ] && shared=ON || shared=OFF
  cmake -S . -B "$out/build-$kind" -D BUILD_SHARED_LIBS=$shared -D ATTN_TESTS=OFF \
    -D CMAKE_INSTALL_LIBDIR=lib -D CMAKE_INSTALL_PREFIX="$out/$kind"
  cmake --build "$out/build-$kind" --parallel "$(nproc)"
  cmake --install "$out/build-$kind"
done
mv "$out/shared" "$out/moved"
# What a shared libattn is linked to is not its user's business: no other file of pkg-config is needed.
(
  export PKG_CONFIG_LIBDIR="$out/none"
  consume shared "$out/moved" ''
)
consume static "$out/static" --static
echo "found and used: shared and static, by CMake and by pkg-config"
