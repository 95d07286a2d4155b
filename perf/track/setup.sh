#!/bin/sh
# Makes .venv-track, the Python environment of perf/track, and prints what it installs. Does nothing
# when it is there and up to date. With "test": also the browser that the tests of the report use.
set -eu
cd "$(dirname "$0")/../.."
venv=.venv-track
wanted=perf/track/requirements.txt

install_packages() {
  missing=
  for package; do
    dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed ||
      missing="$missing $package"
  done
  [ -n "$missing" ] || return 0
  command -v apt-get >/dev/null ||
    { echo "track: needs apt-get, or these installed by hand:$missing" >&2; exit 1; }
  root=
  [ "$(id -u)" = 0 ] || root=sudo
  echo "track: installing from the system's packages:$missing"
  $root apt-get update -qq </dev/null
  # Word splitting is meant.
  # shellcheck disable=SC2086
  $root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    -o Dpkg::Use-Pty=0 $missing </dev/null >/dev/null
}

case "${1-}" in
  '') ;;
  test) install_packages chromium chromium-driver fonts-dejavu-core ;;
  *) echo "usage: perf/track/setup.sh [test]" >&2; exit 2 ;;
esac
command -v git >/dev/null || install_packages git
python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
  install_packages python3-venv
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
  { echo "track: needs Python 3.11 or later, python3 is $(python3 -V)" >&2; exit 1; }

if [ -x "$venv/bin/python" ] && cmp -s "$wanted" "$venv/installed.txt"; then
  echo "track: $venv is up to date"
  exit 0
fi
echo "track: making $venv with" $(grep -v '^#' "$wanted")
python3 -m venv "$venv"
"$venv/bin/pip" install --quiet --disable-pip-version-check -r "$wanted"
cp "$wanted" "$venv/installed.txt"
echo "track: done"
