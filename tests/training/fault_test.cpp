// SPDX-License-Identifier: Apache-2.0
// The law tests have teeth: faults are planted one at a time, in messages and in ops, and each must be noticed.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/error.h"
#include "kernels/backend.h"
#include "tests/kernels/broken.h"
#include "tests/refusal.h"
#include "tests/training/faulty_communicator.h"
#include "tests/training/toy.h"

namespace quadrille {
namespace {

constexpr const char* kDataTensor =
    R"({"mesh": [["data", 2], ["x", 2]], "axes": {"batch": "data", "heads": "x", "mlp": "x", "vocab": "x"}})";
constexpr const char* kFourD =
    R"({"mesh": [["data", 2], ["y", 2], ["x", 2]], "axes": {"batch": "data", "embed": "y", "heads": "x", "mlp": "x", "vocab": "x"}})";
constexpr const char* kStored =
    R"({"mesh": [["z", 2]], "axes": {"batch": "z"}, "store": {"weights": "z", "gradients": "z", "optimizer": "z"}})";
constexpr const char* kSequence =
    R"({"mesh": [["x", 2]], "axes": {"heads": "x", "mlp": "x", "vocab": "x", "sequence": "x"}})";

struct Planted {
  std::string name, table;
  int ranks;
  MessageFault fault;
};
void PrintTo(const Planted& p, std::ostream* out) { *out << p.name; }
using Effect = MessageFault::Effect;
const std::vector<Planted> kMessages = {
    {"gradients_not_summed_over_data", kDataTensor, 4, {"all_reduce", "data", Effect::left_out}},
    {"gradients_summed_twice_over_data", kDataTensor, 4, {"all_reduce", "data", Effect::paid_twice}},
    {"activations_not_summed_over_x", kDataTensor, 4, {"all_reduce", "x", Effect::left_out, 200}},
    {"loss_sums_not_summed_over_x", kDataTensor, 4, {"all_reduce", "x", Effect::left_out, 2, 100}},
    {"totals_not_summed_over_the_world", kDataTensor, 4, {"all_reduce", "data+x", Effect::left_out}},
    {"features_not_summed_over_y", kFourD, 8, {"all_reduce", "y", Effect::left_out, 200}},
    {"norm_statistics_not_summed_over_y", kFourD, 8, {"all_reduce", "y", Effect::left_out, 2, 64}},
    {"stored_weights_gathered_in_the_wrong_order", kStored, 2, {"all_gather", "z", Effect::wrong_place}},
    {"stored_weights_stale", kStored, 2, {"all_gather", "z", Effect::stale}},
    {"stored_gradients_not_summed", kStored, 2, {"reduce_scatter", "z", Effect::left_out}},
    {"sequence_gathered_in_the_wrong_order", kSequence, 2, {"all_gather", "x", Effect::wrong_place}},
    {"sequence_scattered_without_a_sum", kSequence, 2, {"reduce_scatter", "x", Effect::left_out}},
};

class MessageFaults : public ::testing::TestWithParam<Planted> {};

TEST_P(MessageFaults, AreNoticed) {
  const auto w = toy::workload();
  const auto serial = toy::train(w, "{}", 1, 1);
  ASSERT_EQ(toy::difference(serial, toy::train(w, GetParam().table, GetParam().ranks, 1), toy::kF64), "");
  toy::Hooks hooks;
  hooks.world = [&](std::unique_ptr<Communicator> right) {
    return std::make_unique<FaultyCommunicator>(std::move(right), GetParam().fault);
  };
  std::string noticed;
  try {
    noticed =
        toy::difference(serial, toy::train(w, GetParam().table, GetParam().ranks, 1, "reference", hooks), toy::kF64);
  } catch (const Error& e) {
    noticed = e.what();  // replicas that no longer agree
  }
  EXPECT_NE(noticed, "");
}
INSTANTIATE_TEST_SUITE_P(Each, MessageFaults, ::testing::ValuesIn(kMessages),
                         [](const auto& info) { return info.param.name; });

struct PlantedOp {
  std::string name;
  Forgetting forgetting;
};
void PrintTo(const PlantedOp& p, std::ostream* out) { *out << p.name; }

std::vector<PlantedOp> op_faults() {
  std::vector<PlantedOp> faults(8);
  faults[0].name = "masks_drawn_by_local_row";
  faults[0].forgetting.dropout = [](Dropout& d) { d.first_row = 0; };
  faults[1].name = "masks_drawn_by_local_feature";
  faults[1].forgetting.dropout = [](Dropout& d) { d.first_feature = 0; };
  faults[2].name = "attention_masks_by_local_head";
  faults[2].forgetting.attention = [](Attention& a) { a.first_head = 0; };
  faults[3].name = "attention_masks_by_local_row";
  faults[3].forgetting.attention = [](Attention& a) { a.first_row = 0; };
  faults[4].name = "words_counted_from_the_shard";
  faults[4].forgetting.cross_entropy = [](CrossEntropy& c) { c.first_word = 0; };
  faults[5].name = "table_rows_counted_from_the_shard";
  faults[5].forgetting.first_row = [](std::int64_t& first) { first = 0; };
  faults[6].name = "norm_over_the_local_width";
  faults[6].forgetting.norm = [](Norm& n) { n.width = std::min<std::int64_t>(n.width, 4); };
  faults[7].name = "gradients_replaced_not_added";
  faults[7].forgetting.write = [](Write& w) { w = Write::replace; };
  return faults;
}

const Ops* planted_ops = nullptr;  // a Backend names its ops by a plain function

class OpFaults : public ::testing::TestWithParam<PlantedOp> {};

TEST_P(OpFaults, AreNoticed) {
  const auto w = toy::workload({}, {{"micro_batch", 2}});
  const auto serial = toy::train(w, "{}", 1, 1);
  ASSERT_EQ(toy::difference(serial, toy::train(w, kFourD, 8, 1), toy::kF64), "");
  const BrokenOps broken(reference_ops(), Fault::none, GetParam().forgetting);
  planted_ops = &broken;
  toy::Hooks hooks;
  hooks.ops = []() -> const Ops& { return *planted_ops; };
  std::string noticed;
  try {
    noticed = toy::difference(serial, toy::train(w, kFourD, 8, 1, "reference", hooks), toy::kF64);
  } catch (const Error& e) {
    noticed = e.what();
  }
  EXPECT_NE(noticed, "");
}
INSTANTIATE_TEST_SUITE_P(Each, OpFaults, ::testing::ValuesIn(op_faults()),
                         [](const auto& info) { return info.param.name; });

// A bias that every rank of a debt adds: it is in the sum once too often.
class BiasTwice : public BrokenOps {
 public:
  BiasTwice() : BrokenOps(reference_ops(), Fault::none) {}
  Cost add_bias(Stream& stream, const Tensor& out, const Tensor& x, const Tensor& bias) const override {
    BrokenOps::add_bias(stream, out, x, bias);
    return BrokenOps::add_bias(stream, out, out, bias);
  }
};

// Gradients of the mean over a micro-batch's own labels: right only where all micro-batches have equally many.
class MeanOfMicroBatch : public BrokenOps {
 public:
  MeanOfMicroBatch() : BrokenOps(reference_ops(), Fault::none) {}
  Cost cross_entropy_backward(Stream& stream, const Tensor& dlogits, const Tensor& logits, const Tensor& max,
                              const Tensor& sums, const Tensor& labels, const Tensor& counts,
                              const CrossEntropy& how) const override {
    const Cost cost = BrokenOps::cross_entropy_backward(stream, dlogits, logits, max, sums, labels, counts, how);
    const auto ids = labels.host<std::int32_t>();
    const auto counted = std::count_if(ids.begin(), ids.end(), [](std::int32_t id) { return id >= 0; });
    constexpr double kMean = 18;  // labels of a micro-batch on average: 144 of 8 micro-batches
    for (double& d : dlogits.host<double>()) d *= kMean / static_cast<double>(std::max<std::ptrdiff_t>(1, counted));
    return cost;
  }
};

template <class Wrong>
std::string noticed_with(const char* table, int ranks) {
  const auto w = toy::workload({}, {{"micro_batch", 2}});
  const Wrong wrong;
  planted_ops = &wrong;
  toy::Hooks hooks;
  hooks.ops = []() -> const Ops& { return *planted_ops; };
  return toy::difference(toy::train(w, "{}", 1, 1), toy::train(w, table, ranks, 1, "reference", hooks), toy::kF64);
}

TEST(OpFault, ABiasAddedTwiceIsNoticed) { EXPECT_NE(noticed_with<BiasTwice>(kDataTensor, 4), ""); }
TEST(OpFault, AWrongWeightOfMicroBatchesIsNoticed) {
  const std::string noticed = noticed_with<MeanOfMicroBatch>(kDataTensor, 4);
  EXPECT_NE(noticed.find("gradient of "), std::string::npos);
  EXPECT_EQ(noticed.find("loss of "), std::string::npos) << "the loss itself is right";
}

// A parameter counted on every replica, or weights that drift apart between replicas.
TEST(Replicas, ThatDriftApartAreNoticed) {
  toy::Hooks hooks;
  hooks.after_steps = [](Trainer& t, int rank) {
    if (rank == 1) t.shift("layers.0.norm1.gain", 3, 1e-12);
  };
  try {
    toy::train(toy::workload(), kDataTensor, 4, 1, "reference", hooks);
    FAIL() << "a replica that drifted was not noticed";
  } catch (const Error& e) {
    const std::string text = e.what();
    EXPECT_NE(text.find("replicas of layers.0.norm1.gain along data+x"), std::string::npos) << text;
    EXPECT_NE(text.find("rank 1 differs from rank 0, 2, 3"), std::string::npos) << text;
  }
}

// Tied tables lie on the stages of both ends: those of one end alone agree with each other.
TEST(Replicas, OfTiedTablesAreComparedAcrossStages) {
  const auto drifting = [](const char* table, int ranks, int last) {
    toy::Hooks hooks;
    hooks.after_steps = [last](Trainer& t, int rank) {
      if (rank >= last) t.shift("table", 3, 1e-12);
    };
    return message_of([&] { toy::train(toy::workload(), table, ranks, 1, "reference", hooks); });
  };
  const char* const two = R"({"mesh": [["pipe", 2], ["data", 2]], "axes": {"batch": "data"}, "pipeline": {}})";
  const std::string text = drifting(two, 4, 2);
  EXPECT_TRUE(contains(text, "replicas of table along pipe+data")) << text;
  EXPECT_TRUE(contains(text, "rank 2, 3 differs from rank 0, 1")) << text;
  const std::string empty = drifting(R"({"mesh": [["pipe", 4]], "pipeline": {}})", 4, 3);
  EXPECT_TRUE(contains(empty, "rank 3 differs from rank 0;")) << "stages between hold no table. " << empty;
}

}  // namespace
}  // namespace quadrille
