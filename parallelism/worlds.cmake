# SPDX-License-Identifier: Apache-2.0
# The worlds: threads, counting and, where found, MPI.
target_sources(quadrille_parallelism PRIVATE message.cpp group.cpp world.cpp threads/room.cpp threads/world.cpp
                                             counting/world.cpp)
if(HAVE_MPI AND EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/mpi/world.cpp)
  target_sources(quadrille_parallelism PRIVATE mpi/world.cpp)
  target_link_libraries(quadrille_parallelism PRIVATE MPI::MPI_CXX)
else()
  target_sources(quadrille_parallelism PRIVATE mpi/absent.cpp)
endif()
