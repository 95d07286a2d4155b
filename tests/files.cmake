# Tests of the safetensors files, of the weights made from them or from a seed, and of the attn program.
foreach(subject safetensors safetensors_write weights init)
  attn_test_program(test_${subject} attn_internal test_${subject}.c scratch.c)
  attn_add_test(files.${subject} "quick;files" test_${subject})
endforeach()

if(TARGET attn_cli)
  attn_add_test(files.cli "quick;files" sh ${CMAKE_CURRENT_SOURCE_DIR}/test_cli.sh
    ${CMAKE_CURRENT_SOURCE_DIR}/data ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:attn_cli>)
  if(CMAKE_C_FLAGS MATCHES "sanitize")
    set_tests_properties(files.cli PROPERTIES ENVIRONMENT "ATTN_TIMED=0")
  endif()
endif()
