# SPDX-License-Identifier: Apache-2.0
quadrille_test(worlds_test
  SOURCES conformance.cpp threads_test.cpp counting_test.cpp mesh_test.cpp
  LIBRARIES quadrille_parallelism)
