// SPDX-License-Identifier: Apache-2.0
// x86-64. Twelve accumulators hide the latency of 4 or 5 cycles of two units. Each computes x = x/2 + 1, which comes to
// rest at exactly 2 after some 25 steps; all of them are added up and checked, so that the results are used and no lane
// can be left out.
#include "benchmarks/micro/fma_loops.h"

namespace quadrille {

namespace {

constexpr int kAccumulators = 12, kLanes = 16;
alignas(64) constexpr float kHalf[kLanes] = {.5f, .5f, .5f, .5f, .5f, .5f, .5f, .5f,
                                             .5f, .5f, .5f, .5f, .5f, .5f, .5f, .5f};
alignas(64) constexpr float kOne[kLanes] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

bool all_at_rest(const float* sums, int lanes) noexcept {
  bool rest = true;
  for (int i = 0; i < lanes; ++i) rest = rest && sums[i] == 2.0f * kAccumulators;
  return rest;
}

// Registers 0 to 11 accumulate, 14 holds 1/2, 15 holds 1.
bool run_avx512(std::int64_t rounds) noexcept {
  alignas(64) float sums[16];
  asm volatile(
      "vmovaps (%[half]), %%zmm14\n vmovaps (%[one]), %%zmm15\n"
      "vxorps %%xmm0, %%xmm0, %%xmm0\n vmovaps %%zmm0, %%zmm1\n vmovaps %%zmm0, %%zmm2\n vmovaps %%zmm0, %%zmm3\n"
      "vmovaps %%zmm0, %%zmm4\n vmovaps %%zmm0, %%zmm5\n vmovaps %%zmm0, %%zmm6\n vmovaps %%zmm0, %%zmm7\n"
      "vmovaps %%zmm0, %%zmm8\n vmovaps %%zmm0, %%zmm9\n vmovaps %%zmm0, %%zmm10\n vmovaps %%zmm0, %%zmm11\n"
      "1:\n"
      "vfmadd213ps %%zmm15, %%zmm14, %%zmm0\n vfmadd213ps %%zmm15, %%zmm14, %%zmm1\n vfmadd213ps %%zmm15, %%zmm14, "
      "%%zmm2\n"
      "vfmadd213ps %%zmm15, %%zmm14, %%zmm3\n vfmadd213ps %%zmm15, %%zmm14, %%zmm4\n vfmadd213ps %%zmm15, %%zmm14, "
      "%%zmm5\n"
      "vfmadd213ps %%zmm15, %%zmm14, %%zmm6\n vfmadd213ps %%zmm15, %%zmm14, %%zmm7\n vfmadd213ps %%zmm15, %%zmm14, "
      "%%zmm8\n"
      "vfmadd213ps %%zmm15, %%zmm14, %%zmm9\n vfmadd213ps %%zmm15, %%zmm14, %%zmm10\n vfmadd213ps %%zmm15, %%zmm14, "
      "%%zmm11\n"
      "dec %[rounds]\n jnz 1b\n"
      "vaddps %%zmm1, %%zmm0, %%zmm0\n vaddps %%zmm3, %%zmm2, %%zmm2\n vaddps %%zmm5, %%zmm4, %%zmm4\n vaddps %%zmm7, "
      "%%zmm6, %%zmm6\n"
      "vaddps %%zmm9, %%zmm8, %%zmm8\n vaddps %%zmm11, %%zmm10, %%zmm10\n vaddps %%zmm2, %%zmm0, %%zmm0\n vaddps "
      "%%zmm6, %%zmm4, %%zmm4\n"
      "vaddps %%zmm10, %%zmm8, %%zmm8\n vaddps %%zmm4, %%zmm0, %%zmm0\n vaddps %%zmm8, %%zmm0, %%zmm0\n"
      "vmovaps %%zmm0, (%[sums])\n vzeroupper\n"
      : [rounds] "+r"(rounds)
      : [half] "r"(kHalf), [one] "r"(kOne), [sums] "r"(sums)
      : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm14",
        "xmm15", "cc", "memory");
  return all_at_rest(sums, 16);
}

bool run_avx2(std::int64_t rounds) noexcept {
  alignas(64) float sums[8];
  asm volatile(
      "vmovaps (%[half]), %%ymm14\n vmovaps (%[one]), %%ymm15\n"
      "vxorps %%xmm0, %%xmm0, %%xmm0\n vmovaps %%ymm0, %%ymm1\n vmovaps %%ymm0, %%ymm2\n vmovaps %%ymm0, %%ymm3\n"
      "vmovaps %%ymm0, %%ymm4\n vmovaps %%ymm0, %%ymm5\n vmovaps %%ymm0, %%ymm6\n vmovaps %%ymm0, %%ymm7\n"
      "vmovaps %%ymm0, %%ymm8\n vmovaps %%ymm0, %%ymm9\n vmovaps %%ymm0, %%ymm10\n vmovaps %%ymm0, %%ymm11\n"
      "1:\n"
      "vfmadd213ps %%ymm15, %%ymm14, %%ymm0\n vfmadd213ps %%ymm15, %%ymm14, %%ymm1\n vfmadd213ps %%ymm15, %%ymm14, "
      "%%ymm2\n"
      "vfmadd213ps %%ymm15, %%ymm14, %%ymm3\n vfmadd213ps %%ymm15, %%ymm14, %%ymm4\n vfmadd213ps %%ymm15, %%ymm14, "
      "%%ymm5\n"
      "vfmadd213ps %%ymm15, %%ymm14, %%ymm6\n vfmadd213ps %%ymm15, %%ymm14, %%ymm7\n vfmadd213ps %%ymm15, %%ymm14, "
      "%%ymm8\n"
      "vfmadd213ps %%ymm15, %%ymm14, %%ymm9\n vfmadd213ps %%ymm15, %%ymm14, %%ymm10\n vfmadd213ps %%ymm15, %%ymm14, "
      "%%ymm11\n"
      "dec %[rounds]\n jnz 1b\n"
      "vaddps %%ymm1, %%ymm0, %%ymm0\n vaddps %%ymm3, %%ymm2, %%ymm2\n vaddps %%ymm5, %%ymm4, %%ymm4\n vaddps %%ymm7, "
      "%%ymm6, %%ymm6\n"
      "vaddps %%ymm9, %%ymm8, %%ymm8\n vaddps %%ymm11, %%ymm10, %%ymm10\n vaddps %%ymm2, %%ymm0, %%ymm0\n vaddps "
      "%%ymm6, %%ymm4, %%ymm4\n"
      "vaddps %%ymm10, %%ymm8, %%ymm8\n vaddps %%ymm4, %%ymm0, %%ymm0\n vaddps %%ymm8, %%ymm0, %%ymm0\n"
      "vmovaps %%ymm0, (%[sums])\n vzeroupper\n"
      : [rounds] "+r"(rounds)
      : [half] "r"(kHalf), [one] "r"(kOne), [sums] "r"(sums)
      : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm14",
        "xmm15", "cc", "memory");
  return all_at_rest(sums, 8);
}

// No fused instruction: a product and a sum each.
bool run_sse2(std::int64_t rounds) noexcept {
  alignas(64) float sums[4];
  asm volatile(
      "movaps (%[half]), %%xmm14\n movaps (%[one]), %%xmm15\n"
      "xorps %%xmm0, %%xmm0\n movaps %%xmm0, %%xmm1\n movaps %%xmm0, %%xmm2\n movaps %%xmm0, %%xmm3\n movaps %%xmm0, "
      "%%xmm4\n movaps %%xmm0, %%xmm5\n"
      "movaps %%xmm0, %%xmm6\n movaps %%xmm0, %%xmm7\n movaps %%xmm0, %%xmm8\n movaps %%xmm0, %%xmm9\n movaps %%xmm0, "
      "%%xmm10\n movaps %%xmm0, %%xmm11\n"
      "1:\n"
      "mulps %%xmm14, %%xmm0\n mulps %%xmm14, %%xmm1\n mulps %%xmm14, %%xmm2\n mulps %%xmm14, %%xmm3\n mulps %%xmm14, "
      "%%xmm4\n mulps %%xmm14, %%xmm5\n"
      "mulps %%xmm14, %%xmm6\n mulps %%xmm14, %%xmm7\n mulps %%xmm14, %%xmm8\n mulps %%xmm14, %%xmm9\n mulps %%xmm14, "
      "%%xmm10\n mulps %%xmm14, %%xmm11\n"
      "addps %%xmm15, %%xmm0\n addps %%xmm15, %%xmm1\n addps %%xmm15, %%xmm2\n addps %%xmm15, %%xmm3\n addps %%xmm15, "
      "%%xmm4\n addps %%xmm15, %%xmm5\n"
      "addps %%xmm15, %%xmm6\n addps %%xmm15, %%xmm7\n addps %%xmm15, %%xmm8\n addps %%xmm15, %%xmm9\n addps %%xmm15, "
      "%%xmm10\n addps %%xmm15, %%xmm11\n"
      "dec %[rounds]\n jnz 1b\n"
      "addps %%xmm1, %%xmm0\n addps %%xmm3, %%xmm2\n addps %%xmm5, %%xmm4\n addps %%xmm7, %%xmm6\n addps %%xmm9, "
      "%%xmm8\n addps %%xmm11, %%xmm10\n"
      "addps %%xmm2, %%xmm0\n addps %%xmm6, %%xmm4\n addps %%xmm10, %%xmm8\n addps %%xmm4, %%xmm0\n addps %%xmm8, "
      "%%xmm0\n"
      "movaps %%xmm0, (%[sums])\n"
      : [rounds] "+r"(rounds)
      : [half] "r"(kHalf), [one] "r"(kOne), [sums] "r"(sums)
      : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm14",
        "xmm15", "cc", "memory");
  return all_at_rest(sums, 4);
}

}  // namespace

// FLOPs per cycle: two units of full width, 2 FLOPs a lane. Zen 4 reaches half of the AVX-512 bound: its units are half
// as wide.
const FmaLoop& best_fma_loop() {
  static const FmaLoop avx512{"AVX-512", 64, kAccumulators * 32.0, run_avx512};
  static const FmaLoop avx2{"AVX2", 32, kAccumulators * 16.0, run_avx2};
  static const FmaLoop sse2{"SSE2", 16, kAccumulators * 8.0, run_sse2};
  if (__builtin_cpu_supports("avx512f")) return avx512;
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? avx2 : sse2;
}

void run_dependent_additions(std::int64_t rounds) noexcept {
  std::int64_t sum = 0;
  asm volatile(
      "1:\n"
      "add %[rounds], %[sum]\n add %[rounds], %[sum]\n add %[rounds], %[sum]\n add %[rounds], %[sum]\n"
      "add %[rounds], %[sum]\n add %[rounds], %[sum]\n add %[rounds], %[sum]\n add %[rounds], %[sum]\n"
      "add %[rounds], %[sum]\n add %[rounds], %[sum]\n add %[rounds], %[sum]\n add %[rounds], %[sum]\n"
      "add %[rounds], %[sum]\n add %[rounds], %[sum]\n add %[rounds], %[sum]\n add %[rounds], %[sum]\n"
      "dec %[rounds]\n jnz 1b\n"
      : [rounds] "+r"(rounds), [sum] "+r"(sum)
      :
      : "cc");
}

}  // namespace quadrille
