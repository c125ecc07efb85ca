// SPDX-License-Identifier: Apache-2.0
// The tree of a submission: the system description's fields from a made-up machine, what is missing, and that nothing
// is overwritten.
#include "benchmarks/rules/submission.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "benchmarks/rules/system_description.h"
#include "core/error.h"
#include "core/json.h"
#include "tests/benchmarks/golden.h"
#include "tests/benchmarks/samples.h"

namespace quadrille {
namespace {

namespace fs = std::filesystem;

void put(const std::string& path, const std::string& text) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path) << text;
}

std::string machine() {
  const std::string root = scratch("machine");
  std::string processors;
  for (int i = 0; i < 4; ++i)
    processors += "processor\t: " + std::to_string(i) +
                  "\nmodel name\t: Chip A\nphysical id\t: " + std::to_string(i / 2) + "\ncpu cores\t: 2\n\n";
  put(root + "/proc/cpuinfo", processors);
  put(root + "/proc/meminfo", "MemTotal:        1048576 kB\n");
  const std::string cpu = root + "/sys/devices/system/cpu/cpu0/";
  put(cpu + "cpufreq/cpuinfo_max_freq", "3700000\n");
  put(cpu + "cache/index0/level", "1\n"), put(cpu + "cache/index0/type", "Data\n");
  put(cpu + "cache/index0/size", "32K\n");
  put(cpu + "cache/index2/level", "2\n"), put(cpu + "cache/index2/type", "Unified\n");
  put(cpu + "cache/index2/size", "1024K\n");
  put(root + "/sys/block/nvme0n1/size", "2097152\n"), put(root + "/sys/block/loop0/size", "77\n");
  put(root + "/sys/class/net/lo/speed", ""), put(root + "/sys/class/net/eth0/speed", "10000\n");
  return root;
}

TEST(SystemDescription, HasThe33FieldsOfTheMachine) {
  const Json json = system_description({"Institute", "closed", "box", 1, true, false}, machine());
  EXPECT_EQ(json.size(), 33U);
  const auto text = [&](const char* key) { return json.at(key).string(); };
  EXPECT_EQ(text("submitter"), "Institute");
  EXPECT_EQ(text("host_processors_per_node"), "2");
  EXPECT_EQ(text("host_processor_model_name"), "Chip A");
  EXPECT_EQ(text("host_processor_core_count"), "2");
  EXPECT_EQ(text("host_processor_vcpu_count"), "4");
  EXPECT_EQ(text("host_processor_frequency"), "3.70 GHz at most");
  EXPECT_EQ(text("host_processor_caches"), "L1d 32K, L2 1024K");
  EXPECT_EQ(text("host_memory_capacity"), "1.00 GiB");
  EXPECT_EQ(text("host_storage_type"), "NVMe SSD");
  EXPECT_EQ(text("host_storage_capacity"), "1.00 GiB");
  EXPECT_EQ(text("host_networking"), "eth0 10000 Mb/s");
  EXPECT_EQ(text("accelerators_per_node"), "0");
  EXPECT_EQ(missing_fields(json),
            (std::vector<std::string>{"host_processor_interconnect", "host_memory_configuration", "cooling"}));
}

TEST(SystemDescription, SaysNothingAboutAnotherMachine) {
  const Json json = system_description({"", "closed", "box", 2, false, true}, machine());
  EXPECT_EQ(json.size(), 33U);
  for (const char* key :
       {"host_processor_model_name", "host_memory_capacity", "operating_system", "accelerator_model_name"})
    EXPECT_EQ(json.at(key).string(), "") << key;
}

class Package : public testing::Test {
 protected:
  void SetUp() override {
    runs_ = scratch("runs"), out_ = scratch("package");
    fs::remove_all(runs_), fs::remove_all(out_);
    for (int i = 0; i < 3; ++i) put(runs_ + "/result_" + std::to_string(2 * i) + ".txt", golden_text("resnet"));
  }
  std::string runs_, out_;
};

TEST_F(Package, WritesTheTreeAndSaysWhatIsMissing) {
  const Submission result = write_submission({{runs_}, out_, "Institute", "my box"});
  for (const char* path :
       {"systems/my_box.json", "results/my_box/resnet/result_0.txt", "results/my_box/resnet/result_2.txt",
        "benchmarks/resnet/implementations/quadrille/README.md"})
    EXPECT_TRUE(fs::exists(out_ + "/" + path)) << path;
  EXPECT_FALSE(fs::exists(out_ + "/results/my_box/resnet/result_4.txt"));  // numbered without gaps
  EXPECT_EQ(read_json(out_ + "/systems/my_box.json").at("division").string(), "closed");
  const auto told = [&](const std::string& part) {
    return std::any_of(result.missing.begin(), result.missing.end(),
                       [&](const std::string& line) { return line.find(part) != std::string::npos; });
  };
  EXPECT_TRUE(told("exactly 5"));          // runs
  EXPECT_TRUE(told("seed 7"));             // the same thrice
  EXPECT_TRUE(told("no record"));          // beside the logs
  EXPECT_TRUE(told("imaginary machine"));  // not this one
  EXPECT_TRUE(told("cooling"));
}

TEST_F(Package, NeverOverwrites) {
  put(out_ + "/mine.txt", "keep");
  EXPECT_THROW(write_submission({{runs_}, out_, "", ""}), Error);
  std::ifstream file(out_ + "/mine.txt");
  std::string word;
  file >> word;
  EXPECT_EQ(word, "keep");
  EXPECT_THROW(write_submission({{scratch("nowhere")}, scratch("other"), "", ""}), Error);
  EXPECT_FALSE(fs::exists(scratch("other")));
}

}  // namespace
}  // namespace quadrille
