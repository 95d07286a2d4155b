# Run at every build: writes OUTPUT with the git revision, and leaves the file alone when nothing
# changed, so that only main.c is ever compiled again for it.
execute_process(COMMAND git describe --always --dirty --abbrev=12 --exclude=*
  WORKING_DIRECTORY ${SOURCE_DIR} OUTPUT_VARIABLE REVISION OUTPUT_STRIP_TRAILING_WHITESPACE
  ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
  set(REVISION unknown)
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT
"#define ATTN_PERF_REVISION \"${REVISION}\"
#define ATTN_PERF_COMPILER \"${COMPILER}\"
#define ATTN_PERF_FLAGS \"${FLAGS}\"
")
