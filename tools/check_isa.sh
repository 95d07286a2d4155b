#!/bin/sh
# usage: tools/check_isa.sh BUILD        (x86-64 builds)
# No instruction sits outside the objects of its instruction set: a processor without AVX must never
# meet one. Nothing is compiled for speed at the price of meaning, nor links the start-up code that
# flushes subnormals.
set -eu
cd "$1"

fail() {
  echo "$*" >&2
  exit 1
}

# Instructions of an object, one a line: bytes, tab, text.
instructions() {
  objdump -d --insn-width=16 "$1" | awk -F '\t' 'NF >= 3 { print $2 "\t" $3 }'
}

# VEX and EVEX mnemonics begin with v; wide and mask registers; bit instructions that came with AVX2.
beyond_base='	v|%[yz]mm|%k[0-7]|	(andn|bextr|bls[irm]|bls(msk|ic)|bzhi|mulx|pdep|pext|rorx|sarx|shlx|shrx|movbe)[lq]? '
# 0x62 opens every EVEX instruction, and nothing else in 64-bit code.
evex='^(67 )?62 |%zmm|%k[0-7]'

count=0
for object in $(find . -path '*/attn*.dir/*.c.o' ! -path './tests/*'); do
  case "$object" in
    */attn_simd_avx512.dir/*) continue ;;
    */attn_simd_avx2.dir/*) forbidden=$evex ;;
    *) forbidden=$beyond_base ;;
  esac
  count=$((count + 1))
  if found=$(instructions "$object" | grep -m 3 -E "$forbidden"); then
    fail "$object holds instructions beyond its set:
$found"
  fi
done

# The check itself must see something.
instructions "$(find . -path '*/attn_simd_avx2.dir/*/attention.c.o')" | grep -q '%ymm' ||
  fail "the avx2 kernel has no ymm register: objects were not read"
instructions "$(find . -path '*/attn_simd_avx512.dir/*/attention.c.o')" | grep -qE "$evex" ||
  fail "the avx512 kernel has no EVEX instruction: objects were not read"
[ "$count" -ge 10 ] || fail "only $count objects found in $1"

! grep -nE -m 3 -e '-ffast-math|-Ofast|-funsafe-math|-march=native' compile_commands.json ||
  fail "forbidden compiler flags"
linked=0
for binary in $(find . -type f \( -name 'libattn.so*' -o -perm -u+x \) ! -name '*.sh' \
  ! -path '*/CMakeFiles/*'); do
  symbols=$(nm "$binary" 2>/dev/null) || continue
  linked=$((linked + 1))
  case "$symbols" in *set_fast_math*) fail "$binary links crtfastmath" ;; esac
done
[ "$linked" -ge 2 ] || fail "only $linked linked files found in $1"
echo "$count objects and $linked linked files hold nothing beyond their instruction set"
