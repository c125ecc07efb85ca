# SPDX-License-Identifier: Apache-2.0
quadrille_test(worlds_test
  SOURCES conformance.cpp threads_test.cpp counting_test.cpp mesh_test.cpp schedule_test.cpp courier_test.cpp links_test.cpp rank_device_test.cpp
  LIBRARIES quadrille_parallelism)

# Everything over MPI runs in processes of its own, started by the launcher that CMake found beside the library.
if(HAVE_MPI AND MPIEXEC_EXECUTABLE)
  add_executable(mpi_program conformance.cpp mpi_program.cpp)
  target_link_libraries(mpi_program PRIVATE quadrille_parallelism)

  # mpi_case(NAME RANKS arguments... [SAYS text]): with SAYS it must end non-zero with exactly one message that matches.
  function(mpi_case name ranks)
    cmake_parse_arguments(CASE "" "SAYS" "" ${ARGN})
    add_test(NAME Mpi.${name}.${ranks}
      COMMAND ${CMAKE_COMMAND} "-DLAUNCHER=${MPIEXEC_EXECUTABLE}" "-DRANKS=${ranks}" "-DPROGRAM=$<TARGET_FILE:mpi_program>"
              "-DARGUMENTS=${CASE_UNPARSED_ARGUMENTS}" "-DSAYS=${CASE_SAYS}" -P ${CMAKE_CURRENT_LIST_DIR}/mpi_case.cmake)
    set_tests_properties(Mpi.${name}.${ranks} PROPERTIES LABELS fast TIMEOUT 120 PROCESSORS 2
      ENVIRONMENT "OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1;OMPI_MCA_rmaps_base_oversubscribe=1")
  endfunction()

  foreach(ranks 1 2 3 4)
    mpi_case(conformance ${ranks} conformance ${ranks})
  endforeach()
  foreach(ranks 2 4)
    mpi_case(carried ${ranks} carried ${ranks})
  endforeach()
  mpi_case(chunks 2 conformance 0 30 1000)   # messages cut at 1000 bytes instead of 2^30
  mpi_case(throw 4 throw 0 SAYS "rank 3 on .*: the last wheel came off")
  mpi_case(throw_all 4 throw-all 0 SAYS "rank [0-3] on .*: rank [0-3] and everybody else")
  mpi_case(throw_beside_receive 3 throw-beside-receive 0 SAYS "rank 2 on .*: the last wheel came off")
  mpi_case(throw_beside_courier 4 throw-beside-courier 0 SAYS "rank 3 on .*: the last wheel came off")
  mpi_case(sleep_beside_courier 3 sleep-beside-courier 0 1 SAYS "rank [0-2] on .*: all_reduce of [0-9]+ f32, number [0-9]+ in group line waited 1 s and gave up: ranks? ")
  mpi_case(hang_beside_courier 2 hang-beside-courier 0 1 SAYS "rank 1 on .*: all_reduce of 3000000 f32, number 1 in group bulk waited 1 s and gave up: rank 0 had not arrived")
  mpi_case(sleep 4 sleep 0 0.5 SAYS "rank [0-2] on .*: all_reduce of 1234 f32, number 2 in group world waited 0.5 s and gave up: rank 3 had not arrived")
  mpi_case(sleep_in_transfer 3 sleep-in-transfer 0 1 SAYS "rank [01] on .*: all_reduce of 3000000 f32.*rank 2 had not arrived")
  mpi_case(operation 3 operation 0 SAYS "group world disagree.*called barrier")
  mpi_case(size 3 size 0 SAYS "all_reduce of 10000[01] f32.*all_reduce of 10000[01] f32")
  mpi_case(root 3 root 0 SAYS "broadcast of 8 f32 from rank [01].*broadcast of 8 f32 from rank [01]")
  mpi_case(send 2 send 0 SAYS "rank 1 called receive of 8 f32, rank 0 called send of 7 f32")
  mpi_case(leave 3 leave 0 SAYS "all_reduce of 64 f32, number 1 in group world cannot be completed: rank 2 has left")
  mpi_case(poison 3 poison 0 SAYS "rank 2 on .*: enough of this")
  mpi_case(unreceived 2 unreceived 0 0.5 SAYS "send of 1000000 f32, number 1 in group world waited 0.5 s")
  mpi_case(absent 2 absent 0 1 SAYS "rank 0 on .*: MPI did not start within 1 s: of the 2 processes")
  mpi_case(too_few 2 conformance 3 SAYS "3 ranks are wanted, but the launcher gave 2")
  mpi_case(threads_under_launcher 2 threads-under-launcher SAYS "OMPI_COMM_WORLD_SIZE says.*2 or more.*--world mpi")
endif()
