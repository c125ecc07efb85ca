// SPDX-License-Identifier: Apache-2.0
// Each workload or table that cannot work is refused before anything is allocated, by a message that says what was
// found, what was wanted and what to change.
#include <gtest/gtest.h>

#include "tests/refusal.h"
#include "tests/training/toy.h"

namespace quadrille {
namespace {

using Changes = std::vector<std::pair<std::string, Json>>;

std::string refusal(const std::string& table, int ranks, const Changes& model = {}, const Changes& training = {}) {
  try {
    Workload w = toy::workload(model, training);
    w.strategy = parse_json(table, "table.json");
    check_workload(w, ranks);
  } catch (const Error& e) {
    return e.what();
  }
  return "accepted";
}

constexpr const char* kTensor3 = R"({"mesh": [["x", 3]], "axes": {"heads": "x", "mlp": "x", "vocab": "x"}})";

TEST(Refusal, AllSizesThatDoNotDivideAtOnceWithTheirLegalParts) {
  const std::string text = refusal(kTensor3, 3);
  says(text, {"2 faults", "model.heads 4", "x = 3", "legal parts: 1, 2, 4", "model.mlp 32", "1, 2, 4, 8, 16, 32"});
  EXPECT_FALSE(contains(text, "kv_heads")) << "each head has its own: said once. " << text;
  says(refusal(kTensor3, 3, {{"kv_heads", 2}}), {"3 faults", "model.heads 4", "model.kv_heads 2", "multiple of 2"});
}
TEST(Refusal, AVocabularyNeedNotDivide) {
  EXPECT_EQ(refusal(R"({"mesh": [["x", 3]], "axes": {"vocab": "x"}})", 3), "accepted");
}
TEST(Refusal, BatchArithmeticShowsTheEquation) {
  says(refusal(R"({"mesh": [["data", 2]], "axes": {"batch": "data"}})", 2, {}, {{"micro_batch", 3}}),
       {"batch_size 8 (", "toy training:1:", "= micro_batch 3 (", "x data ranks 2 (mesh data = 2)", "multiple of 6"});
}
// Found by tests/fuzz: products beyond 64 bits, and divisors that nobody waits for.
TEST(Refusal, NumbersThatNoMachineHas) {
  const char* const data = R"({"mesh": [["data", "*"]], "axes": {"batch": "data"}})";
  const std::int64_t huge = std::int64_t{1} << 62;
  says(refusal(data, 4, {}, {{"micro_batch", huge}}), {"batch_size 8 (", "less than micro_batch 4611686018427387904"});
  says(refusal(data, 4, {}, {{"batch_size", huge - 1}}), {"batch_size 4611686018427387903", "4 equal parts"});
  says(refusal(R"({"mesh": [["a", 16777216], ["b", 16777216], ["c", 16777216]], "axes": {}})", 4),
       {"axis \"b\"", "281474976710656 places"});
}
// Once a crash: their number passed through 32 bits.
TEST(Refusal, MoreMicroBatchesThanAScheduleHolds) {
  for (const std::int64_t batch : {std::int64_t{2147483648}, std::int64_t{1000000000000}})
    says(refusal("{}", 1, {}, {{"batch_size", batch}, {"micro_batch", 1}}),
         {std::to_string(batch) + " micro-batches a step", "at most 1000000", "batch_size of at most 1000000",
          batch == 2147483648 ? "micro_batch of at least 2148 that divides 2147483648" : "of at least 1000000 that"});
  says(refusal(R"({"mesh": [["pipe", 2]], "pipeline": {"schedule": "interleaved", "chunks": 2}})", 2, {},
               {{"batch_size", 1000002}, {"micro_batch", 1}}),
       {"1000002 micro-batches a step", "at most 500000 are possible with 2 chunks"});
}
TEST(Refusal, ABatchThatCannotBeCut) {
  says(refusal(R"({"mesh": [["data", 3]], "axes": {"batch": "data"}})", 3),
       {"batch_size 8", "3 equal parts", "multiple of 3"});
}
TEST(Refusal, AMeshThatDoesNotFitTheRanks) {
  says(refusal(R"({"mesh": [["data", 2], ["x", 2]], "axes": {"batch": "data", "mlp": "x"}})", 8),
       {"4 places", "8 ranks", "--ranks 4"});
  says(refusal(R"({"mesh": [["data", "*"], ["x", 3]], "axes": {"batch": "data", "mlp": "x"}})", 4),
       {"4 is not a multiple of 3"});
  says(refusal(R"({"mesh": [["data", "*"], ["x", "*"]], "axes": {}})", 4), {"at most one"});
  says(refusal("{}", 4), {"no \"mesh\"", "4 ranks"});
}
TEST(Refusal, AMeshAxisThatNothingUses) {
  says(refusal(R"({"mesh": [["data", 2], ["x", 2]], "axes": {"batch": "data"}})", 4), {"\"x\"", "nothing uses it"});
}
TEST(Refusal, TwoAxesOfOneValueOnOneMeshAxis) {
  says(refusal(R"({"mesh": [["x", 2]], "axes": {"batch": "x", "embed": "x"}})", 2),
       {"two axes of one value", "\"batch\" and \"embed\""});
}
TEST(Refusal, TwoDifferentAxesThatMeet) {
  says(refusal(R"({"mesh": [["x", 2]], "axes": {"embed": "x", "mlp": "x"}})", 2), {"two different axes meet", "embed"});
  says(refusal(R"({"mesh": [["x", 2]], "axes": {"batch": "x", "mlp": "x"}})", 2), {"two different axes meet", "batch"});
}
TEST(Refusal, NamesThatAreNotKnown) {
  says(refusal(R"({"mesh": [["x", 2]], "axes": {"head": "x"}})", 2), {"unknown model axis \"head\"", "heads"});
  says(refusal(R"({"mesh": [["data", 2]], "axes": {"batch": "dada"}})", 2),
       {"no axis \"dada\"", "\"data\"", "table.json:1:"});
  says(refusal(R"({"mesh": [["data", 2]], "axis": {"batch": "data"}})", 2), {"axis", "axes"});
}
TEST(Refusal, FeaturesOnSeveralAxesBesideWords) {
  says(refusal(R"({"mesh": [["y", 2], ["x", 2]], "axes": {"embed": ["y", "x"], "vocab": "x"}})", 4),
       {"\"embed\" is cut over several mesh axes", "\"x\"", "\"vocab\" rests too"});
}
TEST(Refusal, FeaturesOnAxesOfReplicatedKeys) {
  const char* const both = R"({"mesh": [["x", 2]], "axes": {"embed": "x", "heads": "x"}, "may_gather": ["embed"]})";
  says(refusal(both, 2, {{"kv_heads", 1}}),
       {"model.kv_heads 1", "replicated", "\"x\"", "\"embed\" rests too", "at least 2"});
  EXPECT_EQ(refusal(both, 2), "accepted");
}
TEST(Refusal, StoresThatDoNotNest) {
  says(refusal(R"({"mesh": [["data", 2]], "axes": {"batch": "data"}, "store": {"weights": ["data"]}})", 2),
       {"store.weights", "each list must contain the one before", "add data to \"store.gradients\""});
  says(refusal(R"({"mesh": [["data", 2]], "axes": {"batch": "data"}, "store": {"optimizer": ["dat"]}})", 2),
       {"the mesh has no axis \"dat\"", "nearest: \"data\""});
}
TEST(Refusal, PipelinesThatCannotRun) {
  const auto with = [](const std::string& pipeline) {
    return R"({"mesh": [["pipe", 2]], "pipeline": )" + pipeline + "}";
  };
  says(refusal(with(R"({"axis": "p"})"), 2), {"no axis \"p\""});
  says(refusal(with(R"({"schedule": "1f1b", "chunks": 2})"), 2), {"pipeline.chunks", "only \"interleaved\""});
  says(refusal(with(R"({"schedule": "interleaved", "chunks": 1})"), 2), {"pipeline.chunks", "2 or more"});
  says(refusal(with(R"({"schedule": "2f2b"})"), 2), {"2f2b", "1f1b"});
  says(refusal(with(R"({"schedule": "interleaved"})"), 2, {}, {{"micro_batch", 8}}),
       {"2 stages cannot run 1 micro-batches", "use training.micro_batch 4, 2, 1"});
  says(refusal(R"({"mesh": [["pipe", 2]], "axes": {"batch": "pipe"}, "pipeline": {"axis": "pipe"}})", 2),
       {"carries the pipeline's stages", "model axis \"batch\""});
}
TEST(Refusal, WhatIsSaidTwiceOrChangesNothing) {
  says(refusal(R"({"overlap": ["send", "send"], "may_gather": ["embed", "embed"]})", 1),
       {"\"overlap\" names \"send\" twice", "\"may_gather\" names \"embed\" twice"});
  says(refusal(
           R"({"mesh": [["x", 2]], "axes": {"mlp": "x"}, "passing": [["mlp", "heads", "x"], ["mlp", "heads", "x"]]})",
           2),
       {"\"passing\" names", "twice"});
  says(refusal(R"({"store": {"keep_gathered": true}})", 1), {"keep_gathered", "\"store.weights\" names no mesh axis"});
  says(refusal(R"({"overlap": 3, "may_gather": 3, "passing": 3})", 1),
       {"\"overlap\" is an integer, wanted a list", "\"may_gather\" is an", "\"passing\" is an"});
}
TEST(Refusal, MoreChunksThanLayers) {
  const char* const table = R"({"mesh": [["pipe", 2]], "pipeline": {"schedule": "interleaved", "chunks": 4}})";
  says(refusal(table, 2, {{"layers", 3}}, {{"micro_batch", 4}}),
       {"\"pipeline.chunks\" is 4, but the model has 3 layers", "use from 2 to 3 chunks"});
}
TEST(Refusal, SizesBeyondCountingAreNoFaultOfThePlacements) {
  const std::int64_t huge = std::int64_t{1} << 31;
  const std::string text = refusal("{}", 1, {{"embed", huge}, {"mlp", huge}});
  says(text, {"the sizes of model and batch cannot be counted", "64 bits"});
  EXPECT_FALSE(contains(text, "placements do not go together")) << text;
}
TEST(Refusal, ASumOfSizesBeyondCounting) {
  says(refusal(R"({"mesh": [["x", 8]], "axes": {"heads": "x", "mlp": "x", "vocab": "x"}})", 8,
               {{"embed", 1'000'000'000}, {"heads", 8}, {"kv_heads", 8}, {"mlp", 2'000'000'000}}),
       {"cannot be counted", "64 bits"});
}
TEST(Refusal, AMeshAxisOnWhichTheModelHasNothing) {
  says(refusal(R"({"mesh": [["h", 2]], "axes": {"height": "h"}})", 2),
       {"table.json:",
        "mesh axis \"h\" has 2 ranks, but the model \"gpt\" has nothing to cut there (\"height\" rests there)",
        "set its extent to 1"});
  EXPECT_EQ(refusal(R"({"mesh": [["h", 2]], "axes": {"height": "h", "sequence": "h"}})", 2), "accepted")
      << "something is cut there";
}
TEST(Refusal, NamesAndExtentsOfMeshAxes) {
  for (const char* name : {"a+b", "*", "a b", "a\\n"})
    says(refusal(std::string(R"({"mesh": [[")") + name + R"(", 2]], "axes": {"batch": "a"}})", 2),
         {"a mesh axis is named", "letters, digits"});
  says(refusal(R"({"mesh": [["a", 4294967296]], "axes": {"batch": "a"}})", 2),
       {"is 4294967296: it must be from 1 to "});
  says(refusal(R"({"mesh": [["d", "*"], ["x", 2]], "axes": {"batch": "d", "mlp": "x"}})", 7),
       {"7 is not a multiple of 2", "use --ranks 6 or 8"});
}
TEST(Refusal, ATurnBesideAPassingRowOfHeads) {
  says(refusal(R"({"mesh": [["c", 2]], "axes": {"sequence": "c", "mlp": "c"}, "context": {"attention": "turn"},
                   "passing": [["heads", "heads", "c"]]})",
               2),
       {"table.json:", "[\"heads\",\"heads\",\"c\"]", "\"turn\" of \"context.attention\" already puts them"});
}
TEST(Refusal, WordsOfTheGrammarThatAreNotKnown) {
  says(refusal(R"({"recompute": "some"})", 1), {"some", "none", "selective", "full"});
  says(refusal(R"({"sum": "twice"})", 1), {"twice", "together", "axis_by_axis"});
  says(refusal(R"({"overlap": ["everything"]})", 1), {"everything", "input_gradient"});
}
// One message for all that is wrong in table, model and sizes: nobody mends them one by one.
TEST(Refusal, EverythingAtOnce) {
  const std::string table = R"({"mesh": [["data", 2], ["x", 2], ["idle", 2]],
      "axes": {"batch": ["data", "dta"], "head": "x", "mlp": "x"}, "passing": [["made", "sequence", "x"]],
      "may_gather": ["everything"], "store": {"weights": ["data"]}, "sum": "twice", "recompute": "some",
      "pipeline": {"axis": "pip"}, "overlap": ["all"], "context": {"attention": "stare"}, "colour": "red"})";
  says(refusal(table, 8, {{"heads", 3}, {"dropout", 2.0}}), {"faults of this run on 8 ranks",
                                                             "no axis \"dta\"",
                                                             "it has data, x, idle",
                                                             "unknown model axis \"head\"",
                                                             "unknown model axis \"made\"",
                                                             "unknown model axis \"everything\"",
                                                             "store.weights",
                                                             "add data to \"store.gradients\"",
                                                             "\"twice\"",
                                                             "together",
                                                             "\"some\"",
                                                             "selective",
                                                             "no axis \"pip\"",
                                                             "\"overlap\" names \"all\"",
                                                             "\"stare\"",
                                                             "ring",
                                                             "colour",
                                                             "table.json:1:10: mesh axis \"idle\" has 2 ranks",
                                                             "model.heads 3",
                                                             "model.dropout is 2"});
  const std::string sizes = R"({"mesh": [["data", 3], ["y", 3], ["x", 3]],
      "axes": {"batch": "data", "embed": "y", "heads": "x", "mlp": "x", "vocab": "x"}})";
  says(refusal(sizes, 27),
       {"training.batch_size 8", "3 equal parts", "model.embed 8", "model.heads 4", "model.mlp 32", "4 faults"});
}

// Nor does a row that cannot be read end the reading.
TEST(Refusal, EveryMalformedRowAtOnce) {
  const std::string table = R"({"mesh": [["data", "two"], ["x", 2, 3], 7, ["x", 2], ["c", 3]],
      "axes": {"batch": ["data", 4], "mlp": 5}, "passing": [["heads", "y"], 3, ["heads", "sequnce", "x"]],
      "may_gather": [1], "store": {"weights": [2], "keep_gathered": "yes"}, "overlap": [false, "alls"],
      "pipeline": {"axis": 8, "schedule": 9, "chunks": "many"}, "context": {"attention": 10, "balanced": 11}})";
  const std::string text = refusal(table, 8, {{"dropout", 2.0}});
  says(text, {"\"two\"",
              "[\"x\",2,3]",
              "not 7",
              "axis \"x\" twice",
              "integer (4)",
              "integer (5)",
              "[\"heads\",\"y\"]",
              "not 3",
              "sequnce",
              "integer (1)",
              "integer (2)",
              "yes",
              "false",
              "alls",
              "integer (8)",
              "integer (9)",
              "many",
              "integer (10)",
              "integer (11)",
              "model.dropout is 2"});
  for (const char* line : {"table.json:1:", "table.json:2:", "table.json:3:", "table.json:4:"}) says(text, {line});
}
TEST(Refusal, AMistypedNameIsToldOnce) {
  const std::string text = refusal(R"({"mesh": [["data", 2]], "axes": {"batch": "dada"}})", 2);
  says(text, {"table.json:1:", "no axis \"dada\"", "nearest: \"data\""});
  EXPECT_FALSE(contains(text, "nothing uses it")) << text;
  EXPECT_FALSE(contains(refusal(R"({"mesh": [["x", 2]], "axes": {"head": "x"}})", 2), "nothing uses it"));
}
TEST(Refusal, CountsOfOneAndMeshesWithoutAxes) {
  says(refusal(R"({"mesh": []})", 2), {"table.json:1:", "mesh without axes has 1 place but there are 2 ranks"});
  says(refusal(R"({"mesh": [["a", 2]]})", 1), {"has 2 places but there is 1 rank:"});
}
TEST(Refusal, APipelineThatIsNoTable) {
  says(refusal(R"({"pipeline": []})", 1), {"table.json:1:", "pipeline", "an object"});
  says(refusal(R"({"pipeline": {}})", 1), {"the mesh has no axis \"pipe\""});
}

// None of these could be allocated: they are refused by arithmetic.
TEST(Refusal, ComesBeforeAnyMemoryIsAsked) {
  const std::int64_t huge = std::int64_t{1} << 30;
  const Changes model = {{"embed", huge}, {"mlp", huge}, {"vocabulary", huge}, {"layers", 10000}, {"heads", 4}};
  says(refusal(R"({"mesh": [["x", 3]], "axes": {"mlp": "x"}})", 3, model),
       {"model.mlp 1073741824", "legal parts: 1, 2, 4"});
  says(refusal(R"({"mesh": [["data", 3]], "axes": {"batch": "data"}, "store": {"weights": "data"}})", 3, model),
       {"each list must contain the one before"});
}

struct Refused {
  std::string name, table;
  int ranks;
  std::vector<std::string> says;
};
void PrintTo(const Refused& r, std::ostream* out) { *out << r.name; }

// One table for each rule of docs/strategies.md, with what its message must name: what was found and what is legal.
const std::vector<Refused> kRefused = {
    {"extents_above_the_ranks",
     R"({"mesh": [["data", 4], ["x", 2]], "axes": {"batch": "data", "mlp": "x"}})",
     4,
     {"data 4 x x 2", "8 places", "4 ranks", "--ranks 8", "--set mesh.NAME=N"}},
    {"open_extent_that_does_not_come_out",
     R"({"mesh": [["data", "*"], ["x", 4]], "axes": {"batch": "data", "mlp": "x"}})",
     6,
     {"6 is not a multiple of 4", "--ranks 4"}},
    {"an_axis_without_extent", R"({"mesh": [["data"]], "axes": {"batch": "data"}})", 2, {"[\"name\", extent]"}},
    {"an_axis_twice", R"({"mesh": [["data", 2], ["data", 2]], "axes": {"batch": "data"}})", 4, {"data"}},
    {"sequence_and_batch_on_one_mesh_axis",
     R"({"mesh": [["c", 2]], "axes": {"batch": "c", "sequence": "c"}})",
     2,
     {"two axes of one value", "\"batch\" and \"sequence\"", "\"c\""}},
    {"sequence_and_embed_on_one_mesh_axis",
     R"({"mesh": [["y", 2]], "axes": {"embed": "y", "sequence": "y"}})",
     2,
     {"two axes of one value", "\"sequence\" and \"embed\""}},
    {"height_and_batch_on_one_mesh_axis",
     R"({"mesh": [["h", 2]], "axes": {"batch": "h", "height": "h"}})",
     2,
     {"two axes of one value", "\"batch\" and \"height\""}},
    {"height_and_mlp_on_one_mesh_axis",
     R"({"mesh": [["h", 2]], "axes": {"mlp": "h", "height": "h"}})",
     2,
     {"two different axes meet", "\"height\" with \"mlp\""}},
    {"a_mesh_axis_twice_in_one_axis",
     R"({"mesh": [["data", 2]], "axes": {"batch": ["data", "data"]}})",
     2,
     {"\"data\" twice"}},
    {"a_store_that_names_an_axis_twice",
     R"({"mesh": [["data", 2]], "axes": {"batch": "data"}, "store": {"optimizer": ["data", "data"]}})",
     2,
     {"\"data\" twice"}},
    {"gradients_in_more_parts_than_the_optimizer",
     R"({"mesh": [["data", 2], ["depth", 2]], "axes": {"batch": ["data", "depth"]},
         "store": {"gradients": ["data", "depth"], "optimizer": ["depth"]}})",
     4,
     {"store.gradients", "add data to \"store.optimizer\""}},
    {"a_store_over_stages",
     R"({"mesh": [["pipe", 2]], "pipeline": {"axis": "pipe"}, "store": {"optimizer": "pipe"}})",
     2,
     {"carries the pipeline's stages", "store", "axis of its own"}},
    {"a_row_of_passing_along_an_axis_that_the_value_has_not",
     R"({"mesh": [["y", 2]], "axes": {"embed": "y"}, "passing": [["mlp", "heads", "y"]]})",
     2,
     {"table.json:1:", "can never pass", "no axis \"heads\"; use batch, sequence, height or mlp"}},
    {"a_row_of_passing_where_its_axis_rests",
     R"({"mesh": [["y", 2]], "axes": {"embed": "y"}, "passing": [["embed", "embed", "y"]]})",
     2,
     {"table.json:1:", "can never pass", "\"embed\" rests there"}},
    {"a_row_of_passing_where_nothing_owes",
     R"({"mesh": [["d", 2]], "axes": {"batch": "d"}, "passing": [["heads", "heads", "d"]]})",
     2,
     {"table.json:1:", "can never pass", "nothing that products sum over is cut there"}},
    {"a_row_of_passing_that_is_no_row",
     R"({"mesh": [["y", 2]], "axes": {"embed": "y"}, "passing": [["heads", "y"]]})",
     2,
     {"[made along, axis, mesh axis]"}},
    {"rows_that_leave_their_labels",
     R"({"mesh": [["a", 2]], "axes": {"heads": "a"}, "passing": [["sequence", "batch", "a"]]})",
     2,
     {"table.json:1:", "do not go together", "a row of \"passing\" scatters rows over mesh axis \"a\"",
      "take out rows"}},
    {"words_where_rows_rest",
     R"({"mesh": [["a", 2]], "axes": {"batch": "a", "vocab": "a"}, "may_gather": ["batch"]})",
     2,
     {"table.json:1:", "\"batch\" and \"vocab\" both rest on mesh axis \"a\"", "put one of the two on another"}},
    {"features_beside_a_nested_mlp",
     R"({"mesh": [["a", 2], ["b", 2]], "axes": {"embed": "b", "mlp": ["a", "b"]}, "may_gather": ["embed"]})",
     4,
     {"table.json:1:", "do not go together", "\"mlp\"", "mesh axis \"a\"", "\"b\" inside of it",
      "mesh axes of their own"}},
    {"a_balanced_order_gathered_in_part",
     R"({"mesh": [["b", 2], ["a", 2]], "axes": {"sequence": ["b", "a"], "vocab": "b"}})",
     4,
     {"do not go together", "runs of tokens", "\"balanced\": false"}},
    {"tokens_gathered_outside_of_tokens",
     R"({"mesh": [["a", 2], ["b", 2]], "axes": {"sequence": ["a", "b"], "mlp": "a"}, "context": {"balanced": false}})",
     4,
     {"do not go together", "\"sequence\"", "mesh axis \"a\" while it is cut over \"b\" inside of it"}},
    {"a_key_nearly_right",
     R"({"mesh": [["data", 2]], "axes": {"batch": "data"}, "stores": {}})",
     2,
     {"stores", "store"}},
};

class Refuses : public ::testing::TestWithParam<Refused> {};
TEST_P(Refuses, WithItsOwnMessage) { says(refusal(GetParam().table, GetParam().ranks), GetParam().says); }
INSTANTIATE_TEST_SUITE_P(Each, Refuses, ::testing::ValuesIn(kRefused),
                         [](const auto& info) { return info.param.name; });

TEST(Refusal, ModelsThatCannotBe) {
  says(refusal("{}", 1, {{"heads", 3}}), {"model.embed 8", "model.heads 3", "legal heads: 1, 2, 4, 8"});
  says(refusal("{}", 1, {{"heads", 3}, {"kv_heads", 2}, {"dropout", 2.0}}),
       {"3 faults", "model.heads 3", "model.kv_heads 2", "model.dropout is 2"});
  says(refusal("{}", 1, {{"layers", 1000000}}), {"model.layers is 1000000", "from 1 to 10000"});
  says(refusal("{}", 1, {{"kv_heads", 3}}), {"model.heads 4", "model.kv_heads 3"});
  says(refusal("{}", 1, {{"layer", 3}}), {"layer", "layers"});
  says(refusal("{}", 1, {{"layers", "two"}}), {"layers", "a string", "an integer"});
  says(refusal("{}", 1, {{"vocabulary", 7}}), {"vocabulary is 7", "12"});
  says(refusal("{}", 1, {{"kind", "gtp"}}), {"unknown model \"gtp\"", "gpt"});
}
TEST(Refusal, TrainingThatCannotBe) {
  says(refusal("{}", 1, {}, {{"steps", 0}}), {"training.steps", "at least 1"});
  says(refusal("{}", 1, {}, {{"rate", parse_json(R"({"peak": -1})", "t")}}), {"training.rate.peak", "-1", "positive"});
  const auto optimizer = [](const char* text) { return refusal("{}", 1, {}, {{"optimizer", parse_json(text, "t")}}); };
  says(optimizer(R"({"kind": "adagrad"})"), {"adagrad", "adamw", "adam", "lamb", "lars", "sgd"});
  says(optimizer(R"({"kind": "adam", "momentum": 0.9})"), {"momentum"});
  says(optimizer(R"({"kind": "adam", "beta1": 1})"), {"training.optimizer.beta1", "[0, 1)"});
  says(optimizer(R"({"kind": "lars", "beta1": 0.9})"), {"beta1"});
  says(optimizer(R"({"kind": "lars", "trust_coefficient": 0})"), {"training.optimizer.trust_coefficient", "positive"});
  says(optimizer(R"({"kind": "lars", "epsilon": -1})"), {"training.optimizer.epsilon", "-1"});
  says(optimizer(R"({"kind": "lars", "momentum": 0, "nesterov": true})"), {"nesterov", "momentum"});
  says(optimizer(R"({"kind": "lars", "scaled_momentum": 1})"), {"scaled_momentum", "true or false"});
  says(optimizer(R"({"kind": "lamb", "epsilon": 0})"), {"training.optimizer.epsilon", "positive"});
  says(optimizer(R"({"kind": "lamb", "bias_corection": true})"), {"bias_corection", "bias_correction"});
  says(optimizer(R"({"kind": "sgd", "trust_coefficient": 0.1})"), {"trust_coefficient"});
  const auto rate = [](const char* text) { return refusal("{}", 1, {}, {{"rate", parse_json(text, "t")}}); };
  says(rate(R"({"peak": 1, "schedule": "exponential"})"), {"exponential", "polynomial", "inverse_sqrt"});
  says(rate(R"({"peak": 1, "schedule": "linear", "power": 2})"), {"power"});
  says(rate(R"({"peak": 1, "schedule": "polynomial", "power": 0})"), {"training.rate.power", "positive"});
  says(rate(R"({"peak": 1, "schedule": "inverse_sqrt", "final": 0.1})"), {"final"});
  says(rate(R"({"peak": 1, "schedule": "inverse_sqrt", "steps": 9})"), {"steps"});
  says(rate(R"({"peak": 1, "schedule": "linear", "final": 2})"), {"training.rate.final 2", "training.rate.peak 1"});
  says(rate(R"({"peak": 1, "start_step": 3})"), {"training.rate.start_step", "3"});
  says(rate(R"({"peak": 1, "start_step": -1000000000001})"), {"training.rate.start_step", "-1000000000001"});
  says(rate(R"({"peak": 1, "schedule": "linear", "warmup_steps": 9, "steps": 8})"), {"warmup_steps 9", "steps 8"});
  says(rate(R"({"peak": 1, "schedule": "linear", "warmup_steps": 10, "steps": 8, "start_step": -2})"),
       {"warmup_steps 10", "start_step -2"});
  says(refusal("{}", 1, {}, {{"dtype", "f16"}}), {"f16", "f32"});
}

}  // namespace
}  // namespace quadrille
