# cmake -D BUILD=<build directory> -D SOURCE=<tests/consumer> -D WORK=<scratch> -P run.cmake
# Installs what is built there into WORK/prefix, and builds and runs the consumer against it, found by
# the CMake package and by pkg-config, from C and C++.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "failed (${failed}): ${ARGN}")
  endif()
endfunction()

file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
# A sanitizer of another compiler than C++ has would not link.
set(cxx ON)
if(FLAGS MATCHES "-fsanitize")
  set(cxx OFF)
endif()
run(${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK}/build -D CMAKE_PREFIX_PATH=${WORK}/prefix
    -D CMAKE_C_COMPILER=${COMPILER} "-DCMAKE_C_FLAGS=${FLAGS}" -D CONSUMER_CXX=${cxx})
run(${CMAKE_COMMAND} --build ${WORK}/build)
run(${WORK}/build/consumer)

find_program(PKG_CONFIG pkg-config REQUIRED)
file(GLOB_RECURSE pc ${WORK}/prefix/*/attn.pc)
if(NOT pc)
  message(FATAL_ERROR "no attn.pc was installed")
endif()
get_filename_component(pc_dir ${pc} DIRECTORY)
set(ENV{PKG_CONFIG_PATH} ${pc_dir})
if(SHARED)
  # What libattn itself is linked to is not the user's business: no other file of pkg-config is needed.
  set(ENV{PKG_CONFIG_LIBDIR} ${pc_dir})
endif()
execute_process(COMMAND ${PKG_CONFIG} --cflags --libs attn OUTPUT_VARIABLE flags
                OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "pkg-config does not find attn in ${pc_dir}")
endif()
separate_arguments(flags UNIX_COMMAND "${flags}")
separate_arguments(more UNIX_COMMAND "${FLAGS}")
get_filename_component(lib_dir ${pc_dir} DIRECTORY)
run(${COMPILER} -std=c11 ${more} ${SOURCE}/main.c -o ${WORK}/by_pkg_config ${flags}
    -Wl,-rpath,${lib_dir})
run(${WORK}/by_pkg_config)
