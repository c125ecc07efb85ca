#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each rule of scripts/check_layers.py must be broken by its planted violation, and by nothing else in the small tree."""
import os
import subprocess
import sys
import tempfile
import unittest

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts", "check_layers.py")
LICENCE = "// SPDX-License-Identifier: Apache-2.0\n"
SOUND = {
    "core/tensor.h": "#pragma once\n#include <vector>\n",
    "core/json.h": "#pragma once\n",
    "core/json.cpp": '#include <nlohmann/json.hpp>\n#include "core/json.h"\n',
    "core/cuda/device.h": "#pragma once\n#include <cuda_runtime.h>\n",
    "kernels/ops.h": '#pragma once\n#include "core/tensor.h"\n',
    "kernels/cpu/loops.h": "#pragma once\n",
    "kernels/cpu/backend.cpp": '#include "kernels/cpu/loops.h"\n#undef HWY_TARGET_INCLUDE\n#define HWY_TARGET_INCLUDE "x"\n#if HWY_ONCE\n#endif\n',
    "kernels/cuda/backend.cpp": '#include "core/cuda/device.h"\n#include "kernels/ops.h"\n',
    "datasets/batch.h": '#pragma once\n#include "core/tensor.h"\n',
    "parallelism/mpi/world.cpp": "#include <mpi.h>\n",
    "parallelism/nccl/world.cpp": '#include <nccl.h>\n#include "core/cuda/device.h"\n',
    "models/gpt.h": '#pragma once\n#include "kernels/ops.h"\n',
    "benchmarks/main.cpp": '#include <CLI/CLI.hpp>\n#include "models/gpt.h"\n',
    "tests/core/json_test.cpp": '#include "kernels/cpu/loops.h"\n',
    "build/cpu/generated.cpp": "#ifdef ANYTHING\n",
}
# What is added to the sound tree, and the words the report must contain.
PLANTED = {
    "a higher floor": ("core/bad.h", '#include "kernels/ops.h"\n', "core/bad.h:2: includes kernels/ops.h: core/ may include lower floors only"),
    "a neighbour": ("datasets/bad.h", '#include "kernels/ops.h"\n', "kernels/ is not below it"),
    "the tests": ("models/bad.cpp", '#include "tests/core/json_test.cpp"\n', "nothing may include tests/"),
    "a back end from outside": ("kernels/bad.cpp", '#include "kernels/cpu/loops.h"\n', "kernels/cpu/ is reached only through"),
    "a back end from a higher floor": ("models/bad.cpp", '#include "kernels/cpu/loops.h"\n', "kernels/cpu/ is reached only through"),
    "another technology": ("kernels/reference/bad.cpp", '#include "core/cuda/device.h"\n', "core/cuda/ is reached only through"),
    "MPI elsewhere": ("parallelism/bad.cpp", "#include <mpi.h>\n", "MPI headers belong to parallelism/mpi/"),
    "MPI in tests": ("tests/parallelism/bad.cpp", "#include <mpi.h>\n", "MPI headers belong to parallelism/mpi/"),
    "CUDA elsewhere": ("core/bad.cpp", "#include <cuda_runtime.h>\n", "CUDA and NCCL headers belong to"),
    "NCCL elsewhere": ("parallelism/bad.cpp", "#  include <nccl.h>\n", "CUDA and NCCL headers belong to"),
    "JSON twice": ("core/bad.cpp", "#include <nlohmann/json.hpp>\n", "nlohmann/json is included by one source file only"),
    "CLI11 twice": ("benchmarks/bad.cpp", "#include <CLI/App.hpp>\n", "CLI11 is included by one source file only"),
    "an ifdef": ("core/bad.cpp", "#ifdef HAVE_MPI\n#endif\n", "core/bad.cpp:2: #ifdef"),
    "an if": ("core/bad.cpp", "# if defined(HAVE_MPI)\n#endif\n", "core/bad.cpp:2: #if"),
    "a macro": ("core/bad.cpp", "#define CHECK(x) x\n", "core/bad.cpp:2: #define"),
    "a long file": ("core/bad.cpp", "\n" * 600, "601 lines: at most 600"),
    "a file by another path": ("core/bad.cpp", '#include "tensor.h"\n', "name a file of the tree by its path from the root"),
    "a self-include": ("core/bad.h", '#include "core/bad.h"\n', "include cycle: core/bad.h -> core/bad.h"),
}


class CheckLayers(unittest.TestCase):
    def report(self, files):
        with tempfile.TemporaryDirectory() as root:
            for path, text in files.items():
                os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                    file.write(text)
            done = subprocess.run([sys.executable, SCRIPT, root], capture_output=True, text=True, check=False)
            self.assertEqual(done.stderr, "")
            return done.returncode, done.stdout

    def sound(self):
        return {path: LICENCE + text for path, text in SOUND.items()}

    def test_a_sound_tree_passes(self):
        self.assertEqual(self.report(self.sound()), (0, ""))

    def test_each_planted_violation_is_found(self):
        for name, (path, text, expected) in PLANTED.items():
            with self.subTest(name):
                code, output = self.report(self.sound() | {path: LICENCE + text})
                self.assertEqual(code, 1)
                self.assertIn(expected, output)
                self.assertTrue(all("bad" in line or "one source file" in line for line in output.splitlines()), output)

    def test_a_missing_licence_is_found_in_sources_and_scripts(self):
        for path, text in {"core/a.cpp": "\n", "scripts/a.sh": "#!/bin/bash\n", ".ci/run": "#!/bin/bash\n", "core/CMakeLists.txt": ""}.items():
            code, output = self.report(self.sound() | {path: text})
            self.assertEqual((code, output), (1, f"{path}:1: the licence line is missing: SPDX-License-Identifier: Apache-2.0\n"))

    def test_cycles_are_found_within_a_floor(self):
        ring = {f"core/ring{i}.h": LICENCE + f'#include "core/ring{(i + 1) % 3}.h"\n' for i in range(3)}
        code, output = self.report(self.sound() | ring)
        self.assertEqual(code, 1)
        self.assertIn("include cycle: core/ring0.h -> core/ring1.h -> core/ring2.h -> core/ring0.h", output)


if __name__ == "__main__":
    unittest.main()
