# SPDX-License-Identifier: Apache-2.0
# Run by every build (cmake -DSOURCE=... -DOUTPUT=... -P): writes OUTPUT with the git revision of SOURCE and whether the
# tree differs from it. An unchanged answer leaves the file, and so the build, alone.
set(revision unknown)
set(modified false)
find_program(GIT git)
if(GIT)
  # The top of the checkout must be SOURCE itself: an unpacked archive inside another checkout has no revision of its own.
  execute_process(COMMAND ${GIT} -C ${SOURCE} rev-parse --show-toplevel OUTPUT_VARIABLE top ERROR_QUIET
                  OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
  file(REAL_PATH ${SOURCE} source)
  if(NOT failed AND top STREQUAL source)
    execute_process(COMMAND ${GIT} -C ${SOURCE} rev-parse HEAD OUTPUT_VARIABLE head ERROR_QUIET
                    OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
    execute_process(COMMAND ${GIT} -C ${SOURCE} --no-optional-locks status --porcelain OUTPUT_VARIABLE changes ERROR_QUIET
                    RESULT_VARIABLE unreadable)
    if(NOT failed AND NOT unreadable)
      set(revision ${head})
      if(NOT changes STREQUAL "")
        set(modified true)
      endif()
    endif()
  endif()
endif()

set(text "// SPDX-License-Identifier: Apache-2.0
// Written by scripts/cmake/revision.cmake.
#include \"core/revision.h\"

namespace quadrille {
Revision source_revision() { return {\"${revision}\", ${modified}}; }
}  // namespace quadrille
")
set(old "")
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} old)
endif()
if(NOT text STREQUAL old)
  file(WRITE ${OUTPUT} "${text}")
endif()
