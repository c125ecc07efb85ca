# SPDX-License-Identifier: Apache-2.0
# Runs one case under the launcher and judges how it ended: see mpi_case in worlds.cmake.
if(NOT LIMIT)
  set(LIMIT 60)
endif()
execute_process(COMMAND ${LAUNCHER} --quiet -n ${RANKS} ${PROGRAM} ${ARGUMENTS}
  RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE errors TIMEOUT ${LIMIT})
string(REPLACE ";" "," errors "${errors}")   # a semicolon would split the list below
string(REGEX MATCHALL "error: [^\n]*" messages "${errors}")
list(LENGTH messages count)
if(SAYS STREQUAL "")
  if(NOT result EQUAL 0 OR NOT output MATCHES "conforms")
    message(FATAL_ERROR "ended with ${result}\n${output}\n${errors}")
  endif()
elseif(result EQUAL 0 OR result MATCHES "[Tt]imeout" OR NOT count EQUAL 1 OR NOT errors MATCHES "error: [^\n]*${SAYS}")
  message(FATAL_ERROR "ended with ${result} and ${count} messages, wanted one that says \"${SAYS}\"\n${output}\n${errors}")
endif()
string(REGEX REPLACE "(quadrille: )?error: [^\n]*\n" "" rest "${errors}")
if(NOT rest STREQUAL "")
  message(FATAL_ERROR "there was more on the error stream:\n${rest}")
endif()
