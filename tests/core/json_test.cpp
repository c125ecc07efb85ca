// SPDX-License-Identifier: Apache-2.0
// Strictness, positions and round trips of JSON documents, and the words of every refusal.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/json.h"
#include "core/random.h"
#include "tests/refusal.h"

namespace quadrille {
namespace {

std::string refusal(std::string_view text) {
  return message_of([&] { parse_json(text, "f"); });
}

TEST(Json, KeepsOrderKindsAndPositions) {
  const Json j =
      parse_json("{\"b\": 1,\n  \"a\" : [true, null, -2.5e3,\n\t\"x\\\"y\\\\\", {}]\n , \"c\":{\"d\":0}}", "f");
  EXPECT_EQ(j.text(), R"({"b":1,"a":[true,null,-2500.0,"x\"y\\",{}],"c":{"d":0}})");
  EXPECT_EQ(j.origin(), "f:1:1");
  EXPECT_EQ(j.at("b").origin(), "f:1:7");
  const Json& a = j.at("a");
  EXPECT_EQ(a.origin(), "f:2:9");
  EXPECT_EQ(a.at(0).origin(), "f:2:10");
  EXPECT_EQ(a.at(1).origin(), "f:2:16");
  EXPECT_EQ(a.at(2).origin(), "f:2:22");
  EXPECT_EQ(a.at(3).origin(), "f:3:2");
  EXPECT_EQ(a.at(4).origin(), "f:3:12");
  EXPECT_EQ(j.at("c").at("d").origin(), "f:4:13");
  EXPECT_EQ(parse_json("\xEF\xBB\xBF [1]", "f").at(0).origin(), "f:1:6");
}

TEST(Json, RefusesWhatIsNotStrict) {
  for (const char* text :
       {"",          " ",        "{",     "[1,]", "{\"a\":1,}",  "[1 2]",    "01",     "+1",    ".5",    "1.",
        "NaN",       "Infinity", "nan",   "'a'",  "\"a",         "\"\\x\"",  "\"\t\"", "[1] 2", "{} {}", "// c\n1",
        "/* c */ 1", "{a:1}",    "{1:1}", "tru",  "\"\\ud800\"", "\"\xff\"", "1e400",  "-1e400"})
    EXPECT_TRUE(contains(refusal(text), "not valid JSON")) << text << "\n" << refusal(text);
}

TEST(Json, ErrorsNameThePlace) {
  EXPECT_TRUE(refusal("{\"a\": 1,\n \"b\": tru}").starts_with("f:2:10: not valid JSON: "))
      << refusal("{\"a\": 1,\n \"b\": tru}");
  EXPECT_TRUE(refusal("[1,\n2,\n ]").starts_with("f:3:2: ")) << refusal("[1,\n2,\n ]");
  EXPECT_TRUE(refusal("[1, 1e999]").starts_with("f:1:5: ")) << refusal("[1, 1e999]");
}

TEST(Json, RefusesDuplicateKeysWithBothPlaces) {
  EXPECT_EQ(refusal("{\"a\": 1,\n \"b\": {\"a\": 2},\n \"a\": 3}"),
            "f:3:2: the key \"a\" is given twice; the first is at f:1:2");
  EXPECT_EQ(refusal("{\"a\": 1, \"\\u0061\": 3}"), "f:1:10: the key \"a\" is given twice; the first is at f:1:2");
}

TEST(Json, RefusesIntegersBeyond64Bits) {
  EXPECT_EQ(parse_json("9223372036854775807", "f").integer(), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(parse_json("-9223372036854775808", "f").integer(), std::numeric_limits<std::int64_t>::min());
  for (const char* text :
       {"9223372036854775808", "18446744073709551615", "18446744073709551616", "-9223372036854775809"})
    EXPECT_EQ(refusal(std::string("[") + text + "]"),
              std::string("f:1:2: the integer ") + text + " does not fit 64 bits with sign");
}

TEST(Json, BoundsTheDepthWithoutRecursion) {
  const std::string deep(100'000, '[');
  EXPECT_EQ(refusal(deep), "f:1:201: arrays and objects are nested more than 200 deep");
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  EXPECT_TRUE(contains(refusal(objects), "nested more than 200 deep"));
  EXPECT_NO_THROW(parse_json(std::string(200, '[') + std::string(200, ']'), "f"));
}

TEST(Json, WideObjectsAreReadInLinearTime) {
  std::string text = "{";
  for (int i = 0; i < 100'000; ++i) text += fmt::format("{}\"key{}\":{}", i ? "," : "", i, i);
  EXPECT_EQ(parse_json(text + "}", "f").size(), 100'000u);  // a quadratic search would run into the test's limit
}

TEST(Json, WritesTheShortestExactNumbers) {
  EXPECT_EQ(Json(0.1).text(), "0.1");
  EXPECT_EQ(Json(1.0).text(), "1.0");  // stays a number with a fraction when read back
  EXPECT_EQ(Json(-0.0).text(), "-0.0");
  EXPECT_EQ(Json(1e300).text(), "1e+300");
  EXPECT_EQ(Json(5e-324).text(), "5e-324");
  EXPECT_EQ(Json(3).text(), "3");
  for (std::uint64_t i = 0; i < 10'000; ++i) {
    const double v = normal_at(1, i) * std::pow(10.0, static_cast<double>(i % 600) - 300.0);
    const Json back = parse_json(Json(v).text(), "f");
    EXPECT_FALSE(back.is_integer());
    EXPECT_EQ(back.number(), v);
  }
}

TEST(Json, NonFiniteNumbersAreStrings) {
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(Json(inf).text(), "\"inf\"");
  EXPECT_EQ(Json(-inf).text(), "\"-inf\"");
  EXPECT_EQ(Json(std::nan("")).text(), "\"nan\"");
  EXPECT_EQ(parse_json("\"inf\"", "f").number(), inf);
  EXPECT_EQ(parse_json("\"-inf\"", "f").number(), -inf);
  EXPECT_TRUE(std::isnan(parse_json("\"nan\"", "f").number()));
}

TEST(Json, StringsSurviveTheRoundTrip) {
  std::string all;
  for (int c = 0; c < 128; ++c) all += static_cast<char>(c);
  all += "\xC3\xA9\xF0\x9F\x98\x80";
  EXPECT_EQ(parse_json(Json(all).text(), "f").string(), all);
  EXPECT_EQ(parse_json(Json("a\xff"
                            "b")
                           .text(),
                       "f")
                .string(),
            "a\xEF\xBF\xBD"
            "b");  // not UTF-8: replaced, readable
}

TEST(Json, IndentedTextReadsBack) {
  Json j = Json::object();
  j.set("sizes", Json::Array{1, 2, 3});
  j.set("nested", Json::object()).set("list", Json::Array{Json::object(), Json::Array{1}});
  j.set("empty", Json::array());
  EXPECT_EQ(j.text(2),
            "{\n  \"sizes\": [1, 2, 3],\n  \"nested\": {\n    \"list\": [\n      {},\n      [1]\n    ]\n  },\n  "
            "\"empty\": []\n}");
  EXPECT_EQ(parse_json(j.text(2), "f"), j);
  EXPECT_EQ(parse_json(j.text(), "f"), j);
}

TEST(Json, ValuesChange) {
  Json j = parse_json(R"({"a":1,"b":2})", "f");
  j.set("a", "x");
  j.set("c", 3);
  j.erase("b");
  EXPECT_EQ(j.text(), R"({"a":"x","c":3})");
  EXPECT_EQ(j.find("b"), nullptr);
  EXPECT_NE(j, parse_json(R"({"c":3,"a":"x"})", "f"));
}

TEST(Json, WrongKindsSayWhereWhatAndWanted) {
  const Json j = parse_json(R"({"a":"x","b":1.5,"c":[1],"n":null})", "f");
  EXPECT_EQ(message_of([&] { j.at("a").integer(); }),
            "f:1:6: found a string (\"x\"), wanted an integer, without fraction and exponent");
  EXPECT_EQ(message_of([&] { j.at("b").integer(); }),
            "f:1:14: found a number with a fraction (1.5), wanted an integer, without fraction and exponent");
  EXPECT_EQ(message_of([&] { j.at("a").number(); }), "f:1:6: found a string (\"x\"), wanted a number");
  EXPECT_EQ(message_of([&] { j.at("b").string(); }), "f:1:14: found a number with a fraction (1.5), wanted a string");
  EXPECT_EQ(message_of([&] { j.at("n").boolean(); }), "f:1:30: found null, wanted true or false");
  EXPECT_EQ(message_of([&] { j.at("a").items(); }), "f:1:6: found a string (\"x\"), wanted an array");
  EXPECT_EQ(message_of([&] { j.at("c").members(); }), "f:1:22: found an array, wanted an object");
  EXPECT_EQ(message_of([&] { j.at("b").size(); }),
            "f:1:14: found a number with a fraction (1.5), wanted an array or an object");
  EXPECT_EQ(message_of([&] { j.at("c").at(1); }), "f:1:22: item 1 of an array of 1 was asked for");
  EXPECT_EQ(message_of([&] { Json(3).items(); }), "found an integer (3), wanted an array");
  EXPECT_EQ(message_of([&] { Json(3).set("a", 1); }), "found an integer (3), wanted an object");
  EXPECT_EQ(message_of([&] { Json(3).push(1); }), "found an integer (3), wanted an array");
}

TEST(Json, MissingKeysNameTheNearest) {
  const Json j = parse_json(R"({"learning_rate":1})", "f");
  EXPECT_EQ(message_of([&] { j.at("learnin_rate"); }),
            "f:1:1: the key \"learnin_rate\" is missing; there is \"learning_rate\"");
  EXPECT_EQ(message_of([&] { j.at("steps"); }), "f:1:1: the key \"steps\" is missing");
}

}  // namespace
}  // namespace quadrille
