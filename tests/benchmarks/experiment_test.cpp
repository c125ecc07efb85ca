// SPDX-License-Identifier: Apache-2.0
// From the command line to a resolved experiment: options, strict suites, changes with their origin, all faults at
// once.
#include "benchmarks/harness/experiment.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "benchmarks/harness/session.h"
#include "core/error.h"
#include "tests/benchmarks/samples.h"

namespace quadrille {
namespace {

Options options_of(std::vector<const char*> words) {
  words.insert(words.begin(), "quadrille");
  return read_options(static_cast<int>(words.size()), words.data());
}

TEST(Options, Run) {
  const Options o = options_of({"run", "gpt_tiny", "--ranks", "2", "--strategy", "data", "--set", "a.b=1", "--set",
                                "c=2", "--seed", "9", "--max-minutes", "1.5"});
  EXPECT_EQ(o.verb, Verb::run);
  EXPECT_EQ(o.run.suite, "gpt_tiny");
  EXPECT_EQ(o.run.ranks, 2);
  EXPECT_EQ(o.run.strategy, "data");
  EXPECT_EQ(o.run.set, (std::vector<std::string>{"a.b=1", "c=2"}));
  EXPECT_EQ(o.run.seed, 9);
  EXPECT_FALSE(o.run.steps);
  EXPECT_FALSE(o.run.dry_run);
}

TEST(Options, AVerbsHelpIsAboutThatVerb) {
  const std::vector<std::pair<std::vector<const char*>, std::vector<const char*>>> verbs = {
      {{"run"}, {"--max-minutes", "quadrille run gpt_tiny", "mpirun"}},
      {{"plan"}, {"--strategy", "quadrille plan "}},
      {{"score"}, {"folders", "quadrille score "}},
      {{"compare"}, {"--tolerance", "bit for bit", "quadrille compare "}},
      {{"data"}, {"fetch", "quadrille data "}},
      {{"data", "fetch"}, {"--from"}},
      {{"check"}, {"--layouts", "quadrille check "}},
      {{"list"}, {}},
      {{"info"}, {}}};
  for (auto [words, parts] : verbs) {
    const std::string verb = words.front();
    words.push_back("--help");
    const std::string text = options_of(words).text;
    for (const char* part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
    EXPECT_EQ(text.find("Exit codes"), std::string::npos) << text;
    for (const char* other : {"run", "plan", "compare", "data", "check"})
      if (verb != other && verb != "score") {
        EXPECT_EQ(text.find("quadrille " + std::string(other) + " "), std::string::npos) << text;
      }
  }
}

TEST(Options, AVerbBelowAVerbHasItsOwnHelp) {
  for (const char* verb : {"fetch", "prepare", "verify", "show"}) {
    const std::string text = options_of({"data", verb, "--help"}).text;
    EXPECT_NE(text.find("--data"), std::string::npos) << text;
    EXPECT_EQ(text.find("Examples"), std::string::npos) << text;
  }
}

TEST(Options, HelpSucceedsAndMistakesDoNot) {
  EXPECT_NE(options_of({"--help"}).text.find("Exit codes"), std::string::npos);
  EXPECT_EQ(options_of({"--help"}).exit, exit_code::kGood);
  for (const auto& words : std::vector<std::vector<const char*>>{{},
                                                                 {"run"},
                                                                 {"run", "x", "--rank", "2"},
                                                                 {"run", "x", "--ranks", "0"},
                                                                 {"run", "x", "--steps", "many"},
                                                                 {"fly"},
                                                                 {"compare", "a"},
                                                                 {"compare", "a", "b", "--published"}}) {
    const Options o = options_of(words);
    EXPECT_EQ(o.verb, Verb::none);
    EXPECT_EQ(o.exit, exit_code::kBadInput);
    EXPECT_FALSE(o.text.empty());
  }
}

TEST(Options, NumbersOutOfRangeAreRefusedAndNotClamped) {
  const std::string long_word(5000, '9');
  for (const auto& [words, part] : std::vector<std::pair<std::vector<const char*>, const char*>>{
           {{"run", "x", "--seed", "99999999999999999999999"}, "does not fit into 64 bits"},
           {{"run", "x", "--steps", "9999999999999999999"}, "does not fit into 64 bits"},
           {{"run", "x", "--steps", long_word.c_str()}, "characters)"},
           {{"run", "x", "--steps", "0"}, "must be at least 1"},
           {{"run", "x", "--seed=-1"}, "must be at least 0"},
           {{"run", "x", "--ranks", "two"}, "two is not a whole number"},
           {{"check", "--layouts", "--ranks", "0"}, "0 must be at least 1"},
           {{"run", "x", "--links", ""}, "is empty"},
           {{"run", "x", "--dry-run", "--links", "1e9,x"}, "1e9,x is no link"},
           {{"run", "x", "--max-minutes", "0"}, "must be above 0"},
           {{"run", "x", "--max-minutes", "inf"}, "not a finite number"},
           {{"run", "x", "--timeout=-1"}, "must be above 0"},
           {{"compare", "a", "b", "--tolerance", "nan"}, "not a finite number"},
           {{"compare", "a", "b", "--tolerance=-1"}, "must be 0 or above"}}) {
    const Options o = options_of(words);
    EXPECT_EQ(o.exit, exit_code::kBadInput);
    EXPECT_NE(o.text.find(part), std::string::npos) << o.text;
    EXPECT_LT(o.text.size(), 400U);
  }
  EXPECT_EQ(options_of({"run", "x", "--seed", "9223372036854775807"}).run.seed, 9223372036854775807);
}

TEST(Options, TheNearestVerbAndOptionAreNamed) {
  EXPECT_NE(options_of({"runn", "x"}).text.find("did you mean 'run'?"), std::string::npos);
  EXPECT_NE(options_of({"data", "fetsh"}).text.find("did you mean 'fetch'?"), std::string::npos);
  EXPECT_NE(options_of({"run", "x", "--strateyg=data"}).text.find("did you mean --strategy?"), std::string::npos);
  EXPECT_NE(options_of({"compare", "a", "b", "--tolerence", "1"}).text.find("did you mean --tolerance?"),
            std::string::npos);
}

TEST(Options, PlanAndData) {
  EXPECT_TRUE(options_of({"plan", "gpt_tiny", "--ranks", "64"}).run.dry_run);
  const Options o = options_of({"data", "fetch", "austen", "--from", "x.deb"});
  EXPECT_EQ(o.data.action, DataOptions::Action::fetch);
  EXPECT_EQ(o.data.from, "x.deb");
}

class Suite : public testing::Test {
 protected:
  void SetUp() override {
    options_.suite =
        scratch(std::string("suite_") + testing::UnitTest::GetInstance()->current_test_info()->name() + ".json");
    options_.backend = "reference";
    std::ofstream(options_.suite) << R"({
  "name": "small",
  "model": { "kind": "gpt", "layers": 1, "embed": 8, "heads": 2, "mlp": 16, "tokens": 8 },
  "data": { "source": "synthetic", "vocabulary": 8, "order": 1, "choices": 2, "train_tokens": 4096, "evaluate_tokens": 512 },
  "training": { "batch_size": 4, "steps": 6, "rate": { "peak": 1e-3 } },
  "run": { "target": { "metric": "nats_per_token", "value": 1.0 } }
})";
  }
  std::string refusal(int ranks = 1) {
    try {
      resolve(options_, ranks, "threads");
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  }
  static bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
  RunOptions options_;
};

TEST_F(Suite, ResolvesWithOrigins) {
  options_.set = {"training.rate.peak=2e-3", "run.evaluate_every=3"};
  options_.steps = 9;
  const Experiment e = resolve(options_, 2, "threads");
  EXPECT_EQ(e.suite, "small");
  EXPECT_EQ(e.strategy, "data");  // the default for several ranks
  EXPECT_EQ(e.workload.training.steps, 9);
  EXPECT_DOUBLE_EQ(e.workload.training.rate.peak, 2e-3);
  EXPECT_EQ(e.run.evaluate_every, 3);
  EXPECT_EQ(e.workload.vocabulary, 8);
  const Json origins = origins_of(e.resolved);
  EXPECT_EQ(origins.at("training.rate.peak").string(), "--set training.rate.peak=2e-3");
  EXPECT_EQ(origins.at("training.steps").string(), "--steps 9");
  EXPECT_EQ(origins.at("training.optimizer.beta1").string(), "default");
  EXPECT_EQ(origins.at("model.kv_heads").string(), "default");
  EXPECT_TRUE(has(origins.at("model.layers").string(), ".json:3:"));
  EXPECT_TRUE(has(origins.at("strategy.axes.batch").string(), "data.json:"));
}

TEST_F(Suite, StrategyByFlagBySetAndInline) {
  options_.strategy = "tensor";
  EXPECT_EQ(resolve(options_, 2, "threads").strategy, "tensor");
  options_.strategy.reset();
  options_.set = {"strategy=tensor", "mesh.x=2"};
  const Experiment e = resolve(options_, 2, "threads");
  EXPECT_EQ(e.strategy, "tensor");
  EXPECT_EQ(extent_of(e.workload.strategy, "heads", mesh_of(e.workload.strategy, 2)), 2);
  options_.set = {"strategy=tensor", "mesh.y=2"};
  EXPECT_TRUE(has(refusal(2), "--set mesh.y=2: the mesh of the strategy has no axis \"y\"")) << refusal(2);
  options_.set = {"strategy=tensr"};
  EXPECT_TRUE(has(refusal(2), "did you mean 'tensor'"));
}

TEST_F(Suite, EveryFaultIsNamedAtOnce) {
  options_.set = {"model.hads=3", "training.batchsize=3", "run.warm_up=1", "runn=1", "data.vocabulry=3"};
  const std::string text = refusal();
  for (const char* part :
       {"model.hads", "training.batchsize", "run.warm_up", "runn", "data.vocabulry", "did you mean \"heads\""})
    EXPECT_TRUE(has(text, part)) << part << " in " << text;
}

TEST_F(Suite, SizesThatDoNotFitNameTheirOrigin) {
  options_.set = {"training.batch_size=7"};
  EXPECT_TRUE(has(refusal(2), "--set training.batch_size=7")) << refusal(2);
  options_.set = {};
  options_.strategy = "tensor";
  const std::string text = refusal(3);
  EXPECT_TRUE(has(text, "model.heads 2") && has(text, "model.mlp 16")) << text;
  EXPECT_FALSE(has(text, "rank 0 on"));
}

TEST_F(Suite, TargetMustBeInTheUnitOfTheData) {
  options_.set = {"run.target.metric=nats_per_character"};
  EXPECT_TRUE(has(refusal(), "measured in nats_per_token"));
}

TEST_F(Suite, ASuiteIsAnObject) {
  std::ofstream(options_.suite) << "[1, 2]";
  EXPECT_TRUE(has(refusal(), "found an array, wanted an object with model")) << refusal();
}

TEST_F(Suite, EvaluationsNeedASetToEvaluate) {
  const std::string texts = scratch("texts");
  std::filesystem::create_directories(texts);
  std::ofstream(texts + "/a.txt") << std::string(400, 'a') << std::string(400, 'b');
  options_.data = texts;
  options_.set = {R"(data={"source": "text", "train": ["a.txt"]})"};
  EXPECT_TRUE(has(refusal(), "data.evaluate names nothing")) << refusal();
  for (const char* wish : {"run.evaluate_every=2", "run.evaluate_first=true"}) {
    options_.set.resize(1);
    options_.set.insert(options_.set.end(), {"run.target=null", wish});
    EXPECT_TRUE(has(refusal(), "data.evaluate names nothing")) << refusal();
  }
  options_.set.pop_back();
  EXPECT_EQ(refusal(), "");
}

TEST_F(Suite, WrongTypesAndValues) {
  for (const auto& [set, part] :
       std::vector<std::pair<const char*, const char*>>{{"training.steps=\"six\"", "training.steps"},
                                                        {"run.evaluate_every=-1", "at least 0"},
                                                        {"run.target.direction=below", "at_most"},
                                                        {"run.target.value=\"nan\"", "finite"},
                                                        {"model=3", "model"},
                                                        {"model.tokens=0", "model.tokens is 0, wanted at least 1"},
                                                        {"run.warm_up_steps=-1", "at least 0"},
                                                        {"run.max_minutes=-1", "at least 0"},
                                                        {"run.probe_seconds=-1", "at least 0"},
                                                        {"run.seed=-1", "at least 0"},
                                                        {"run.runs=10001", "at most 10000"},
                                                        {"run.runs=0", "at least 1"}}) {
    options_.set = {set};
    EXPECT_TRUE(has(refusal(), part)) << set << ": " << refusal();
  }
}

TEST_F(Suite, WhatABackEndCannotDoIsRefusedFirst) {
  options_.backend = "counting";
  EXPECT_TRUE(has(refusal(), "use quadrille plan"));
  options_.backend = "cpu", options_.set = {"training.dtype=f64"};
  const std::string text = refusal();
  EXPECT_TRUE(has(text, "take dtype f32") || has(text, "is not in this build")) << text;
  options_.backend = "reference";
  EXPECT_EQ(refusal(), "");
  options_.set = {"training.dtype=bf16"};
  EXPECT_EQ(refusal(), "");
  options_.set = {"training.dtype=tf32"};
  EXPECT_TRUE(has(refusal(), "tensor cores, which back end reference does not have")) << refusal();
}

TEST_F(Suite, TooLittleDataIsRefusedWhereSizesAreKnown) {
  options_.set = {"data.train_tokens=16"};
  EXPECT_TRUE(has(refusal(), "one step takes")) << refusal();
}

TEST_F(Suite, ChangesAreRemembered) {
  options_.set = {"run.target.value=9", "training.micro_batch=2", "run.seed=4", "training.batch_size=4", "mesh.data=1"};
  options_.strategy = "data";
  const Experiment e = resolve(options_, 1, "threads");
  EXPECT_EQ(e.changes, std::vector<std::string>{"run.target.value"});  // layout and equal values are no change
  EXPECT_EQ(changes_note(e), "changed suite: run.target.value");
  EXPECT_EQ(name_of_suite(e), "small (changed)");
  options_.set = {};
  EXPECT_EQ(name_of_suite(resolve(options_, 1, "threads")), "small");
}

TEST_F(Suite, IdentityDirectionAndPublishedAreChecked) {
  for (const auto& [set, part] :
       std::vector<std::pair<const char*, const char*>>{{"name=gpt_tiny", "copy the file"},
                                                        {"description=x", "copy the file"},
                                                        {"run.target.direction=at_least", "wanted at_most"},
                                                        {"run.published=llama31_9b", "did you mean 'llama31_8b'"},
                                                        {"run.seed=9223372036854775807", "run i of 1 adds i"}}) {
    options_.set = {set};
    EXPECT_TRUE(has(refusal(), part)) << set << ": " << refusal();
  }
}

TEST_F(Suite, TooLittleDataIsRefusedByAPlan) {
  options_.set = {"data.train_tokens=16"};
  options_.dry_run = true;
  EXPECT_TRUE(has(refusal(), "one step takes")) << refusal();
}

TEST_F(Suite, OurSuitesResolveOrSayWhatTheyNeed) {
  for (const auto& entry : std::filesystem::directory_iterator(SOURCE_FOLDER "/benchmarks/suites")) {
    options_.suite = entry.path().string();
    options_.dry_run = true;
    const std::string text = refusal();
    EXPECT_TRUE(text.empty() || has(text, "quadrille data fetch")) << text;
  }
}

TEST(OutFolder, UsedOnesAreRefused) {
  const std::string folder = scratch("out");
  std::filesystem::remove_all(folder);
  EXPECT_NO_THROW(refuse_used_folder(folder));
  std::filesystem::create_directories(folder);
  EXPECT_NO_THROW(refuse_used_folder(folder));
  std::ofstream(folder + "/result_0.txt") << "old";
  EXPECT_THROW(refuse_used_folder(folder), Error);
}

TEST(OutFolder, IsMadeAndRemovedAgainWhenNothingCameOfIt) {
  const std::string top = scratch("made");
  std::filesystem::remove_all(top);
  const auto made = make_out_folder(top + "/a/b");
  EXPECT_EQ(made, (std::vector<std::string>{top + "/a/b", top + "/a", top}));
  std::ofstream(top + "/other") << "kept";
  remove_empty_folders(made);
  EXPECT_FALSE(std::filesystem::exists(top + "/a"));
  EXPECT_TRUE(std::filesystem::exists(top + "/other"));
  EXPECT_THROW(make_out_folder(top + "/other/c"), Error);  // below a file
  try {
    refuse_used_folder(top + "/other");
    ADD_FAILURE() << "a file was taken for a folder";
  } catch (const Error& error) {
    EXPECT_TRUE(std::string(error.what()).ends_with("is a file; give a folder that is new or empty")) << error.what();
  }
  const std::string long_name(5000, 'x');
  EXPECT_THROW(refuse_used_folder(long_name), Error);
  EXPECT_THROW(make_out_folder(long_name), Error);
}

TEST(TracePlace, MustBeNewAndWritable) {
  const std::string file = scratch("trace.json");
  std::filesystem::remove(file);
  EXPECT_NO_THROW(refuse_file_place("--trace", file));
  EXPECT_FALSE(std::filesystem::exists(file));
  EXPECT_THROW(refuse_file_place("--trace", scratch("none/trace.json")), Error);
  std::ofstream(file) << "{}";
  EXPECT_THROW(refuse_file_place("--trace", file), Error);
  EXPECT_TRUE(std::filesystem::exists(file));
}

TEST(Memory, MoreThanIsFreeIsRefused) {
  EXPECT_NO_THROW(refuse_more_than_free(1e9, 2e9, 2));
  EXPECT_NO_THROW(refuse_more_than_free(1e9, 0, 2));
  EXPECT_THROW(refuse_more_than_free(3e9, 2e9, 2), Error);
}

}  // namespace
}  // namespace quadrille
