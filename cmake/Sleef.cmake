# SLEEF, by its own CMake package where it has one (3.6 and later), else by header and library
# (Debian 12 ships 3.5.1 without a package file). Defines sleef::sleef.
find_package(sleef CONFIG QUIET)
find_path(ATTN_SLEEF_INCLUDE sleef.h)
mark_as_advanced(ATTN_SLEEF_INCLUDE ATTN_SLEEF_LIBRARY)
if(NOT ATTN_SLEEF_INCLUDE)
  message(FATAL_ERROR "sleef.h not found: install libsleef-dev, or set ATTN_SLEEF_INCLUDE")
endif()
if(NOT TARGET sleef::sleef)
  find_library(ATTN_SLEEF_LIBRARY sleef)
  if(NOT ATTN_SLEEF_LIBRARY)
    message(FATAL_ERROR "libsleef not found: install libsleef-dev, or set ATTN_SLEEF_LIBRARY")
  endif()
  add_library(sleef::sleef UNKNOWN IMPORTED)
  set_target_properties(sleef::sleef PROPERTIES
    IMPORTED_LOCATION ${ATTN_SLEEF_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${ATTN_SLEEF_INCLUDE})
endif()
