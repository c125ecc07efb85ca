// SPDX-License-Identifier: Apache-2.0
// The record's file: round trip, schema, and a documentation that names every field.
#include "benchmarks/harness/record.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>

#include "core/error.h"
#include "tests/benchmarks/samples.h"

namespace quadrille {
namespace {

// The part of JSON Schema that results/schema.json uses.
void check_schema(const Json& value, const Json& schema, const std::string& path) {
  if (const Json* one = schema.find("const")) {
    EXPECT_EQ(value, *one) << path;
  }
  if (const Json* all = schema.find("enum")) {
    const auto& items = all->items();
    EXPECT_NE(std::find(items.begin(), items.end(), value), items.end()) << path << " is " << value.text();
  }
  if (const Json* type = schema.find("type")) {
    const std::string& name = type->string();
    const bool fits = (name == "object" && value.is_object()) || (name == "array" && value.is_array()) ||
                      (name == "string" && value.is_string()) || (name == "boolean" && value.is_bool()) ||
                      (name == "integer" && value.is_integer()) || (name == "number" && value.is_number());
    const bool not_finite =
        name == "number" && value.is_string() && std::set<std::string>{"nan", "inf", "-inf"}.contains(value.string());
    EXPECT_TRUE(fits || not_finite) << path << " is not of type " << name;
  }
  if (const Json* required = schema.find("required")) {
    for (const Json& name : required->items())
      EXPECT_TRUE(value.find(name.string())) << path << "." << name.string() << " is missing";
  }
  const Json* properties = schema.find("properties");
  if (value.is_object() && properties)
    for (const auto& [name, child] : value.members()) {
      const Json* known = properties->find(name);
      EXPECT_TRUE(known) << path << "." << name << " is not in the schema";
      if (known) check_schema(child, *known, path + "." + name);
    }
  if (const Json* items = schema.find("items"); items && value.is_array())
    for (const Json& item : value.items()) check_schema(item, *items, path + "[]");
}

// "steps[].loss"; whatever lies below a free-form section is written as "section.*".
void collect(const Json& value, const std::string& path, std::set<std::string>& fields) {
  static const std::set<std::string> kFree = {"configuration",
                                              "origins",
                                              "environment",
                                              "data",
                                              "phases_seconds",
                                              "rank_lines[].phases_seconds",
                                              "rank_lines[].memory_forecast",
                                              "rank_lines[].memory_measured"};
  if (kFree.contains(path)) {
    fields.insert(path + ".*");
  } else if (value.is_object()) {
    for (const auto& [name, child] : value.members()) collect(child, path.empty() ? name : path + "." + name, fields);
  } else if (value.is_array()) {
    if (value.size() == 0) fields.insert(path + "[]");
    for (const Json& item : value.items()) collect(item, path + "[]", fields);
  } else {
    fields.insert(path);
  }
}

TEST(Record, RoundTrip) {
  const Json written = record_json(good_record());
  const Json again = record_json(record_from(parse_json(written.text(1), "record")));
  EXPECT_EQ(written.text(), again.text());
}

TEST(Record, NotFiniteIsNeverNull) {
  Record record = good_record();
  record.steps[0].loss = std::numeric_limits<double>::quiet_NaN();
  record.steps[1].loss = std::numeric_limits<double>::infinity();
  const std::string text = record_json(record).text();
  EXPECT_EQ(text.find("null"), std::string::npos);
  const Record again = record_from(parse_json(text, "record"));
  EXPECT_TRUE(std::isnan(again.steps[0].loss));
  EXPECT_TRUE(std::isinf(again.steps[1].loss));
}

TEST(Record, UnknownIsAbsent) {
  Record record = good_record();
  record.seconds_to_target.reset();
  record.target.reset();
  const Json json = record_json(record);
  EXPECT_FALSE(json.find("seconds_to_target"));
  EXPECT_FALSE(record_from(json).target);
}

TEST(Record, RefusesOtherVersionsAndKinds) {
  Json json = record_json(good_record());
  json.set("schema_version", 2);
  EXPECT_THROW(record_from(json), Error);
  json = record_json(good_record());
  json.set("kind", "score");
  EXPECT_THROW(record_from(json), Error);
  json = record_json(good_record());
  json.erase("steps");
  EXPECT_THROW(record_from(json), Error);
  EXPECT_THROW(read_record(scratch("nowhere")), Error);
}

TEST(Record, OneOfASetMustBeNamed) {
  const std::string folder = scratch("set");
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  for (const char* name : {"record_10.json", "record_2.json", "record_x.json", "result_0.txt"})
    std::ofstream(folder + "/" + name) << record_json(good_record()).text();
  EXPECT_EQ(records_of_set(folder), (std::vector<std::string>{folder + "/record_2.json", folder + "/record_10.json"}));
  EXPECT_TRUE(records_of_set(folder + "/none").empty());
  try {
    read_record(folder);
    FAIL() << "a set was read as one record";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("the records of 2 runs"), std::string::npos) << text;
    EXPECT_NE(text.find("record_2.json"), std::string::npos) << text;
  }
  EXPECT_EQ(read_record(folder + "/record_10.json").seed, 7);
}

TEST(Record, FitsTheSchema) {
  const Json schema = read_json(SOURCE_FOLDER "/results/schema.json");
  check_schema(record_json(good_record()), schema, "");
}

TEST(Record, EveryFieldIsExplained) {
  std::ifstream file(SOURCE_FOLDER "/docs/metrics.md");
  std::stringstream text;
  text << file.rdbuf();
  std::set<std::string> fields;
  collect(record_json(good_record()), "", fields);
  EXPECT_GT(fields.size(), 80U);
  for (const std::string& field : fields)
    EXPECT_NE(text.str().find("`" + field + "`"), std::string::npos) << "docs/metrics.md does not explain " << field;
}

}  // namespace
}  // namespace quadrille
