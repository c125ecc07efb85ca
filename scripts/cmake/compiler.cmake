# SPDX-License-Identifier: Apache-2.0
# Warnings, ccache and sanitizers: the same for every target of ours.
set(QUADRILLE_OPTIONS -Wall -Wextra -Wpedantic)

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

# Fuzzers count branches in everything below them, and look with the sanitizers.
set(QUADRILLE_FUZZ OFF CACHE BOOL "The fuzzers of tests/fuzz; needs Clang")
set(QUADRILLE_SANITIZE "" CACHE STRING "address,undefined or thread")
if(QUADRILLE_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "QUADRILLE_FUZZ=ON with ${CMAKE_CXX_COMPILER_ID}: libFuzzer comes with Clang only; use the preset fuzz")
  endif()
  set(QUADRILLE_SANITIZE "fuzzer-no-link,address,undefined")
endif()
if(QUADRILLE_SANITIZE)
  list(APPEND QUADRILLE_OPTIONS -fsanitize=${QUADRILLE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -g -O1)
  add_link_options(-fsanitize=${QUADRILLE_SANITIZE})
endif()
# nvcc hands options on to the host compiler, which must not be pedantic about what nvcc itself writes.
add_compile_options("$<$<COMPILE_LANGUAGE:CXX,C>:${QUADRILLE_OPTIONS}>"
                    "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>")
