# SPDX-License-Identifier: Apache-2.0
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(GTest REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)

find_package(dnnl QUIET)
set(HAVE_ONEDNN ${dnnl_FOUND})
find_package(MPI QUIET COMPONENTS CXX)
set(HAVE_MPI ${MPI_CXX_FOUND})
find_package(PkgConfig QUIET)
