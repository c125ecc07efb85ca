# SPDX-License-Identifier: Apache-2.0
# The worlds: threads, counting and, where found, MPI.
