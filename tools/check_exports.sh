#!/bin/sh
# usage: tools/check_exports.sh BUILD
# libattn exports exactly the functions that the public headers declare, and has its soname.
set -eu
cd "$(dirname "$0")/.."
library=$1/libattn.so

declared=$(grep -hv '^ *#' include/attn/*.h | tr '\n' ' ' | grep -oE 'ATTN_API [^(;]*\(' |
  grep -oE 'attn_[a-z0-9_]+\($' | tr -d '(' | sort -u)
exported=$(nm -D --defined-only "$library" | awk '{ print $3 }' | sort -u)
[ -n "$declared" ] || { echo "no declarations found in include/attn" >&2; exit 1; }

surplus=$(printf '%s\n%s\n%s\n' "$declared" "$declared" "$exported" | sort | uniq -u)
missing=$(printf '%s\n%s\n%s\n' "$exported" "$exported" "$declared" | sort | uniq -u)
[ -z "$surplus" ] || { echo "exported, but not declared: $surplus" >&2; exit 1; }
[ -z "$missing" ] || { echo "declared, but not exported: $missing" >&2; exit 1; }

soname=$(readelf -d "$library" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')
case "$soname" in
  libattn.so.[0-9]*) ;;
  *) echo "soname is '$soname', expected libattn.so.<major>" >&2; exit 1 ;;
esac
echo "$(echo "$declared" | wc -l) functions exported, soname $soname"
