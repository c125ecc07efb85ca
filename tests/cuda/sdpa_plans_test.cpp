// SPDX-License-Identifier: Apache-2.0
// Does cuDNN take the graphs of sdpa_graph.cpp, and how much workspace does it want? Asked of the library itself, with
// the GPU described instead of present: it recognises the pattern, chooses an engine and compiles its kernels. Only
// running them needs a device.
#include <gtest/gtest.h>

#include <string>

#include "kernels/cuda/sdpa_graph.h"

namespace quadrille {
namespace {

// What cuDNN wants to know of a GPU; figures of the CUDA programming guide's table and the data sheets.
std::string described(const char* name, int architecture, int processors, int shared_bytes, int l2_bytes) {
  return std::string(R"({"cudnnVersion": )") + std::to_string(CUDNN_VERSION) +
         R"(, "schemaVersion": 1, "cudaDeviceId": 0, "driverVer": 13000, "deviceName": ")" + name +
         R"(", "deviceVer": )" + std::to_string(architecture) + R"(, "multiProcessorCount": )" +
         std::to_string(processors) + R"(, "maxSharedMemoryPerBlockOptin": )" + std::to_string(shared_bytes) +
         R"(, "l2CacheSize": )" + std::to_string(l2_bytes) +
         R"(, "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64], "regsPerBlock": 65536,
             "warpSize": 32, "maxSharedMemoryPerBlock": 49152, "reservedSharedMemoryPerBlock": 1024,
             "maxRegistersPerSM": 65536, "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048,
             "pciDeviceId": 0, "isTccDriver": 0, "supportCoopLaunch": 1, "smClockRateKHz": 1980000,
             "memClockRateKHz": 3201000, "totalGlobalMem": 80000000000})";
}
const std::string kGpus[] = {described("NVIDIA A100-SXM4-80GB", 800, 108, 166912, 41943040),
                             described("NVIDIA H200", 900, 132, 232448, 62914560),
                             described("NVIDIA B200", 1000, 148, 232448, 132644864)};

SdpaShape packed(std::int64_t batch, std::int64_t keys, std::int64_t tokens, std::int64_t head) {
  SdpaShape s;
  s.batch = batch, s.keys = keys, s.queries = 1, s.q_tokens = s.kv_tokens = tokens, s.head = head, s.causal = true;
  s.q = s.kv = {tokens * keys * 3 * head, 3 * head, keys * 3 * head};
  s.out = {tokens * keys * head, head, keys * head};
  return s;
}
// One batch row, its groups in place of the batch: how sdpa.cpp asks for packed grouped heads.
SdpaShape grouped(std::int64_t groups, std::int64_t queries, std::int64_t tokens, std::int64_t head) {
  SdpaShape s;
  s.batch = groups, s.keys = 1, s.queries = queries, s.q_tokens = s.kv_tokens = tokens, s.head = head, s.causal = true;
  const std::int64_t width = (queries + 2) * head;
  s.q = {width, head, groups * width}, s.kv = {width, width, groups * width};
  s.out = {queries * head, head, groups * queries * head};
  return s;
}

class SdpaPlans : public testing::TestWithParam<int> {
 protected:
  SdpaPlans() : device_(describe_device(kGpus[GetParam()])) {}
  void expect_plans(SdpaShape s) {
    for (const bool causal : {true, false}) {
      s.causal = causal;
      std::string why;
      const auto forward = plan_sdpa_forward(s, {nullptr, device_.get()}, &why);
      ASSERT_NE(forward, nullptr) << "forward, causal " << causal << ": " << why;
      EXPECT_LE(forward->workspace(), 4096);
      const auto backward = plan_sdpa_backward(s, {nullptr, device_.get()}, &why);
      ASSERT_NE(backward, nullptr) << "backward, causal " << causal << ": " << why;
      // The gradient of the scores, and for grouped heads that of their keys and values: what sdpa.cpp reckons with.
      const auto rounded = [](std::int64_t v, std::int64_t to) { return (v + to - 1) / to * to; };
      const std::int64_t heads = s.batch * s.heads(), keys = rounded(s.kv_tokens, 128);
      const std::int64_t scores = heads * rounded(s.q_tokens, 64) * keys * 2,
                         shared = s.queries == 1 ? 0 : 2 * heads * keys * s.head * 2;
      EXPECT_LE(backward->workspace(), scores + shared + 4096);
      EXPECT_GE(backward->workspace(), heads * s.q_tokens * s.kv_tokens * 2) << "then it is not the deterministic way";
    }
  }
  CudnnDescriptor device_;
};

TEST_P(SdpaPlans, Gpt2OneHundredMillion) { expect_plans(packed(8, 12, 1024, 64)); }
TEST_P(SdpaPlans, Gpt2OneAndAHalfBillion) { expect_plans(packed(4, 25, 1024, 64)); }
TEST_P(SdpaPlans, LlamasGroups) { expect_plans(grouped(1, 4, 8192, 128)); }
TEST_P(SdpaPlans, OddTokens) { expect_plans(packed(2, 2, 77, 40)); }

INSTANTIATE_TEST_SUITE_P(On, SdpaPlans, testing::Values(0, 1, 2), [](const auto& gpu) {
  return std::string(gpu.param == 0 ? "A100" : gpu.param == 1 ? "H200" : "B200");
});

}  // namespace
}  // namespace quadrille
