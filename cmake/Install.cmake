# Library, headers, program, CMake package (attn::attn) and attn.pc. Everything is found relative to the
# place of these files, so that a prefix may be moved.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/attn)
file(RELATIVE_PATH program_to_library ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})

install(TARGETS attn EXPORT attnTargets)
install(DIRECTORY include/attn TYPE INCLUDE FILES_MATCHING PATTERN "*.h")
install(FILES LICENSE NOTICE TYPE DOC)
if(TARGET attn_cli)
  set_target_properties(attn_cli PROPERTIES INSTALL_RPATH "$ORIGIN/${program_to_library}")
  install(TARGETS attn_cli)
endif()

install(EXPORT attnTargets NAMESPACE attn:: DESTINATION ${package_dir})
configure_package_config_file(cmake/attnConfig.cmake.in attnConfig.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(attnConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES
  ${CMAKE_CURRENT_BINARY_DIR}/attnConfig.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/attnConfigVersion.cmake
  cmake/Sleef.cmake
  DESTINATION ${package_dir})

file(RELATIVE_PATH ATTN_PC_UP ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
foreach(dir LIBDIR INCLUDEDIR)
  if(IS_ABSOLUTE ${CMAKE_INSTALL_${dir}})
    set(ATTN_PC_${dir} ${CMAKE_INSTALL_${dir}})
  else()
    set(ATTN_PC_${dir} "\${prefix}/${CMAKE_INSTALL_${dir}}")
  endif()
endforeach()
# Where something is private, pkg-config wants its files for --cflags, too. A shared libattn has found its own libraries
# already (as in attnConfig.cmake.in), so only a static one says what it needs.
set(ATTN_PC_STATIC)
if(NOT BUILD_SHARED_LIBS)
  set(ATTN_PC_STATIC "Requires.private: sleef jansson\nLibs.private: ${OpenMP_C_FLAGS} -pthread -lm\n")
endif()
configure_file(cmake/attn.pc.in attn.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/attn.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
