# A native x86-64 build whose tests run on an emulated older processor, where an instruction that
# it lacks traps: ATTN_QEMU_CPU is Nehalem (no AVX), Haswell (AVX2, FMA) or another of qemu's names.
# (qemu has no AVX-512.) Changing it needs no recompilation.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
set(ATTN_QEMU_CPU Haswell CACHE STRING "processor that qemu emulates")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES ATTN_QEMU_CPU)

find_program(ATTN_QEMU NAMES qemu-x86_64-static qemu-x86_64 REQUIRED)
set(CMAKE_CROSSCOMPILING_EMULATOR ${ATTN_QEMU} -cpu ${ATTN_QEMU_CPU})
