# SPDX-License-Identifier: Apache-2.0
# The worlds: threads, counting and, where found, MPI; before them, for the tensors of devices, staged and NCCL.
target_sources(quadrille_parallelism PRIVATE message.cpp group.cpp world.cpp staged.cpp threads/room.cpp threads/world.cpp
                                             counting/world.cpp)
if(HAVE_MPI)
  target_sources(quadrille_parallelism PRIVATE mpi/message.cpp mpi/transport.cpp mpi/group.cpp mpi/world.cpp)
  target_link_libraries(quadrille_parallelism PRIVATE dep::mpi)
else()
  target_sources(quadrille_parallelism PRIVATE mpi/absent.cpp)
endif()
if(HAVE_NCCL)
  target_sources(quadrille_parallelism PRIVATE nccl/connection.cpp nccl/station.cpp nccl/group.cpp nccl/trial.cpp)
  target_link_libraries(quadrille_parallelism PRIVATE dep::nccl)
else()
  target_sources(quadrille_parallelism PRIVATE nccl/absent.cpp)
endif()
