// SPDX-License-Identifier: Apache-2.0
// The words a user reads after a misspelt key, a wrong value or a wrong --set.
#include <gtest/gtest.h>

#include "core/json.h"
#include "tests/refusal.h"

namespace quadrille {
namespace {

TEST(Nearest, FindsSlipsAndStaysSilentOtherwise) {
  const std::vector<std::string> known = {"learning_rate", "warmup", "steps", "batch", "seed"};
  EXPECT_EQ(nearest("learning_rat", known), "learning_rate");
  EXPECT_EQ(nearest("learning-rate", known), "learning_rate");
  EXPECT_EQ(nearest("LearningRate", known), "learning_rate");
  EXPECT_EQ(nearest("setps", known), "steps");  // neighbours swapped
  EXPECT_EQ(nearest("sed", known), "seed");
  EXPECT_EQ(nearest("optimizer", known), "");
  EXPECT_EQ(nearest("x", {"y"}), "");
  EXPECT_EQ(nearest("", known), "");
}

TEST(Reader, TakesValuesAndDefaultsInTheOrderAsked) {
  const Json j = parse_json(R"({"rate":1,"name":"a","on":false,"n":7,"kind":"rms","any":[1]})", "f");
  Reader r(j, "training");
  EXPECT_EQ(r.integer("n"), 7);
  EXPECT_EQ(r.number("rate"), 1.0);
  EXPECT_EQ(r.string("name"), "a");
  EXPECT_FALSE(r.boolean("on", true));
  EXPECT_EQ(r.choice("kind", {"layer", "rms"}), "rms");
  EXPECT_EQ(r.integer("absent", 3), 3);
  EXPECT_EQ(r.needed("any").size(), 1u);
  EXPECT_EQ(r.value("nothing"), nullptr);
  r.done();
  EXPECT_EQ(r.resolved().text(), R"({"n":7,"rate":1.0,"name":"a","on":false,"kind":"rms","absent":3,"any":[1]})");
  EXPECT_EQ(r.resolved().at("n").origin(), "f:1:37");
  EXPECT_EQ(r.resolved().at("absent").origin(), "default");
  EXPECT_EQ(r.origin_of("rate"), "f:1:9");
  EXPECT_EQ(r.origin_of("absent"), "default");
  EXPECT_EQ(r.path_of("n"), "training.n");
}

TEST(Reader, NamesAllUnknownKeysAtOnce) {
  const Json j = parse_json("{\"ratte\": 1,\n \"steps\": 2,\n \"zebra\": 3}", "f");
  Reader r(j, "training");
  r.number("rate", 1.0);
  r.integer("steps");
  EXPECT_EQ(message_of([&] { r.done(); }),
            "f:1:11: unknown key \"training.ratte\"; did you mean \"rate\"?\n"
            "f:3:11: unknown key \"training.zebra\"\n"
            "known keys of training: rate, steps");
}

TEST(Reader, WrongKindsNameKeyPlaceFoundAndWanted) {
  Json j = parse_json(R"({"steps":"x","rate":true,"on":1,"name":2,"kind":"rsm"})", "f");
  set_by_path(j, "width=1.5");
  Reader r(j, "model");
  EXPECT_EQ(message_of([&] { r.integer("steps"); }),
            "f:1:10: model.steps: found a string (\"x\"), wanted an integer, without fraction and exponent");
  EXPECT_EQ(message_of([&] { r.number("rate"); }), "f:1:21: model.rate: found a truth value (true), wanted a number");
  EXPECT_EQ(message_of([&] { r.boolean("on"); }), "f:1:31: model.on: found an integer (1), wanted true or false");
  EXPECT_EQ(message_of([&] { r.string("name"); }), "f:1:40: model.name: found an integer (2), wanted a string");
  EXPECT_EQ(message_of([&] {
              r.choice("kind", {"layer", "rms"});
            }),
            "f:1:49: model.kind: found \"rsm\", wanted one of layer, rms; did you mean \"rms\"?");
  EXPECT_EQ(message_of([&] { r.integer("width"); }),
            "--set width=1.5: model.width: found a number with a fraction (1.5), wanted an integer, without fraction "
            "and exponent");
  EXPECT_EQ(message_of([] { Reader(Json(3).from("f:1:1"), "model"); }),
            "f:1:1: model: found an integer, wanted an object");
}

TEST(Reader, MissingKeysNameAMisspeltOne) {
  const Json j = parse_json(R"({"stepps":1})", "f");
  Reader r(j, "");
  EXPECT_EQ(message_of([&] { r.integer("steps"); }),
            "f:1:1: steps is missing and has no default; there is an unknown \"stepps\"");
  EXPECT_EQ(message_of([&] { r.needed("model"); }), "f:1:1: model is missing and has no default");
}

TEST(SetByPath, ReachesObjectsPairsAndItems) {
  Json j = parse_json(R"({"training":{"rate":1e-3},"mesh":[["data",2]],"list":[5,6]})", "f");
  set_by_path(j, "training.rate=3e-4");
  set_by_path(j, "training.schedule.kind=cosine");
  set_by_path(j, "mesh.data=4");
  set_by_path(j, "mesh.x=2");
  set_by_path(j, "list.1=7");
  set_by_path(j, "name=a=b");
  set_by_path(j, "empty=");
  set_by_path(j, R"(quoted="7")");
  set_by_path(j, R"(new.sizes=[1,2])");
  EXPECT_EQ(j.text(),
            R"({"training":{"rate":0.0003,"schedule":{"kind":"cosine"}},"mesh":[["data",4],["x",2]],"list":[5,7],)"
            R"("name":"a=b","empty":"","quoted":"7","new":{"sizes":[1,2]}})");
  EXPECT_EQ(j.at("training").at("rate").origin(), "--set training.rate=3e-4");
  EXPECT_EQ(j.at("mesh").at(1).at(1).origin(), "--set mesh.x=2");
}

TEST(SetByPath, RefusesWhatLeadsNowhere) {
  const auto refusal = [](std::string_view assignment) {
    Json j = parse_json(R"({"a":3,"list":[5,6]})", "f");
    return message_of([&] { set_by_path(j, assignment); });
  };
  EXPECT_EQ(refusal("a"), "--set a: wanted KEY=VALUE, such as training.rate=3e-4");
  EXPECT_EQ(refusal("=1"), "--set =1: wanted KEY=VALUE, such as training.rate=3e-4");
  EXPECT_EQ(refusal("a..b=1"), "--set a..b=1: an empty name in the path; wanted names joined by single dots");
  EXPECT_EQ(refusal("b..c=1"), "--set b..c=1: an empty name in the path; wanted names joined by single dots");
  EXPECT_EQ(refusal("a.b=1"),
            "--set a.b=1: \"b\" leads nowhere: what holds it is an integer, neither an object nor an array");
  EXPECT_EQ(refusal("list.2=1"), "--set list.2=1: there is no item 2 in an array of 2");
  EXPECT_EQ(refusal("list.x=1"),
            "--set list.x=1: \"x\" leads nowhere: what holds it is an array, whose items have numbers");
  EXPECT_TRUE(refusal("b=[1,").starts_with("--set b=[1,:1:")) << refusal("b=[1,");
  EXPECT_TRUE(contains(refusal(R"(b={"x":1,"x":2})"), "the key \"x\" is given twice"));
}

}  // namespace
}  // namespace quadrille
