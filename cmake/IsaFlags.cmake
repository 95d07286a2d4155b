# One row per instruction set: name, processors it exists on, compiler flags.
# A row here, a line in simd/isa.inc and a header simd/isa_<name>.h make a new one.
# ATTN_ISAS are those that are compiled; ATTN_ISA_DEFINITIONS tell it of all to simd/dispatch.c.
set(ATTN_ISAS)
set(ATTN_ISA_DEFINITIONS)
macro(attn_isa name processors)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "${processors}")
    list(APPEND ATTN_ISAS ${name})
    list(APPEND ATTN_ISA_DEFINITIONS ATTN_HAVE_${name}=1)
    set(ATTN_ISA_FLAGS_${name} ${ARGN})
  else()
    list(APPEND ATTN_ISA_DEFINITIONS ATTN_HAVE_${name}=0)
  endif()
endmacro()

attn_isa(generic "x86_64|AMD64|aarch64|arm64")
attn_isa(avx2    "x86_64|AMD64" -mavx2 -mfma)
attn_isa(avx512  "x86_64|AMD64" -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma
                                -mprefer-vector-width=512)
attn_isa(neon    "aarch64|arm64")
