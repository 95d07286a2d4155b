# Tests of the safetensors files, the weights made from them or from a seed, and the attn program.
add_executable(test_safetensors test_safetensors.c scratch.c check.c)
add_executable(test_safetensors_write test_safetensors_write.c scratch.c check.c)
add_executable(test_weights test_weights.c scratch.c check.c)
add_executable(test_init test_init.c check.c)
foreach(test test_safetensors test_safetensors_write test_weights test_init)
  target_link_libraries(${test} PRIVATE attn_internal attn_flags m)
  add_test(NAME ${test} COMMAND ${test})
  set_tests_properties(${test} PROPERTIES LABELS "quick;files" SKIP_RETURN_CODE 77 TIMEOUT 600)
endforeach()

if(TARGET attn_cli)
  add_test(NAME test_cli COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/test_cli.sh
    ${CMAKE_CURRENT_SOURCE_DIR}/data ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:attn_cli>)
  set_tests_properties(test_cli PROPERTIES LABELS "quick;files" TIMEOUT 900)
endif()
