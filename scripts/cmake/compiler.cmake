# SPDX-License-Identifier: Apache-2.0
# Warnings, ccache and sanitizers: the same for every target of ours.
add_compile_options(-Wall -Wextra -Wpedantic)

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

set(QUADRILLE_SANITIZE "" CACHE STRING "address,undefined or thread")
if(QUADRILLE_SANITIZE)
  add_compile_options(-fsanitize=${QUADRILLE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -g -O1)
  add_link_options(-fsanitize=${QUADRILLE_SANITIZE})
endif()
