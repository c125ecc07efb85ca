// SPDX-License-Identifier: Apache-2.0
// Sizes of the residual networks against published counts, and what their configuration refuses.
#include "models/resnet/resnet.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "parallelism/world.h"

namespace quadrille {
namespace {

Json model(const std::string& text) { return parse_json(text, "model"); }

std::int64_t parameters_of(const ModelDescription& description) {
  std::int64_t n = 0;
  WorldOptions options;
  run_counting(options, [&](std::unique_ptr<Communicator> world) {
    const Mesh mesh(std::move(world), {});
    const Plan plan(Json::object(), mesh);
    Parameters parameters(plan);
    const auto blocks = description.build(parameters, 0);
    n = parameters.count();
  });
  return n;
}

struct Size {
  const char* name;
  const char* config;
  double products;  // multiply-adds of an image, forward; 0: not held
  std::int64_t parameters;
};
void PrintTo(const Size& s, std::ostream* out) { *out << s.name; }

class ResnetSizes : public testing::TestWithParam<Size> {};

TEST_P(ResnetSizes, AreThePublishedOnes) {
  const Size& s = GetParam();
  const auto description = describe_resnet(model(s.config), 10);
  EXPECT_EQ(parameters_of(*description), s.parameters);
  if (s.products > 0) {
    EXPECT_EQ(description->forward_flops(1, false), 2 * s.products);
    EXPECT_EQ(description->forward_flops(7, true), 14 * s.products);
  }
}

// ResNet-50 v1.5 at 224 x 224; parameters of torchvision's models. The CIFAR family has 1x1 shortcuts here: those of
// He et al. without parameters have 269,722 in ResNet-20.
INSTANTIATE_TEST_SUITE_P(
    Published, ResnetSizes,
    testing::Values(
        Size{"r18", R"({"kind": "resnet", "depth": 18, "height": 224, "classes": 1000})", 1814073344, 11689512},
        Size{"r34", R"({"kind": "resnet", "depth": 34, "height": 224, "classes": 1000})", 3663761408, 21797672},
        Size{"r50", R"({"kind": "resnet", "depth": 50, "height": 224, "classes": 1000})", 4089184256, 25557032},
        Size{"r101", R"({"kind": "resnet", "depth": 101, "height": 224, "classes": 1000})", 7801405440, 44549160},
        Size{"r152", R"({"kind": "resnet", "depth": 152, "height": 224, "classes": 1000})", 0, 60192808},
        Size{"cifar20", R"({"kind": "resnet", "family": "cifar", "depth": 20, "height": 32})", 0, 272474}),
    [](const auto& info) { return info.param.name; });

TEST(ResnetConfig, RefusesWhatIsNoResnet) {
  const auto refusal = [](const char* text) -> std::string {
    try {
      describe_resnet(model(text), 10);
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  };
  EXPECT_NE(refusal(R"({"kind": "resnet", "depth": 51, "height": 8})").find("18, 34, 50"), std::string::npos);
  EXPECT_NE(refusal(R"({"kind": "resnet", "family": "cifar", "depth": 21, "height": 8})").find("6n + 2"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"kind": "resnet", "depth": 50, "blocks": [1], "height": 8})").find("leave one out"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"kind": "resnet", "depth": 50, "height": 8, "classes": 9})").find("model.classes"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"kind": "resnet", "depth": 50, "height": 8, "heads": 9})").find("heads"), std::string::npos);
}

}  // namespace
}  // namespace quadrille
