// SPDX-License-Identifier: Apache-2.0
// `quadrille info`: this machine and this program. `quadrille list`: what can be named on the command line.
#include <fmt/core.h>

#include "benchmarks/commands.h"
#include "benchmarks/harness/cores.h"
#include "benchmarks/harness/environment.h"
#include "benchmarks/harness/gpus.h"
#include "benchmarks/harness/locate.h"
#include "benchmarks/harness/text.h"
#include "benchmarks/rules/ruleset.h"
#include "core/build.h"
#include "core/error.h"
#include "core/json.h"
#include "datasets/commands.h"
#include "kernels/backend.h"
#include "models/model.h"
#include "parallelism/world.h"

namespace quadrille {

namespace {

using Align = TextTable::Align;

std::string documents_text(std::string_view what, std::string_view folder) {
  TextTable table({{"", Align::left}, {"", Align::left}});
  for (const std::string& name : document_names(folder)) {
    std::string description;
    try {
      const Json document = read_json(locate_document(what, folder, name));
      if (const Json* text = document.find("description")) description = text->string();
    } catch (const Error& error) {
      description = fmt::format("unreadable: {}", error.what());
    }
    table.row({name, description});
  }
  return table.text();
}

void add_worlds(TextTable& table) {
  table.row({"world threads", "built", "ranks are threads of one process"});
  const std::string_view absent = mpi_absent_because();
  table.row(
      {"world mpi", absent.empty() ? "built" : "absent", absent.empty() ? mpi_description() : std::string(absent)});
}

}  // namespace

int list_command(const std::string& what) {
  std::string text;
  const auto part = [&](std::string_view name, std::string_view title, const auto& rows) {
    if (!what.empty() && what != name) return;
    text += fmt::format("{}{}\n{}", text.empty() ? "" : "\n", title, rows());
  };
  const auto names = [](const std::vector<std::string>& all) {
    std::string rows;
    for (const std::string& name : all) rows += fmt::format("  {}\n", name);
    return rows;
  };
  part("suites", "Suites (quadrille run NAME)", [] { return documents_text("suite", kSuites); });
  part("strategies", "Strategies (--strategy NAME)", [] { return documents_text("strategy", kStrategies); });
  part("models", "Models (model.kind)", [&] { return names(model_names()); });
  part("data", "Data sets (quadrille data fetch NAME)", [&] { return names(fetchable()); });
  part("rulesets", "Rule sets (quadrille log-check FILE --ruleset NAME)",
       [] { return documents_text("rule set", kRuleSets); });
  fmt::print("{}", text);
  return exit_code::kGood;
}

int info_command() {
  const BuildFacts facts = build_facts();
  TextTable program({{"", Align::left}, {"", Align::left}});
  program.row({"version", std::string(facts.version)});
  program.row({"revision", fmt::format("{}{}", facts.revision, facts.modified ? ", with uncommitted changes" : "")});
  program.row({"compiler", fmt::format("{}, {}", facts.compiler, facts.type)});
  program.row({"flags", std::string(facts.flags)});
  fmt::print("Program\n{}\n", program.text());

  TextTable machine({{"", Align::left}, {"", Align::left}});
  machine.row({"host", host_name()});
  machine.row({"processor", cpu_model()});
  machine.row({"usable cores", fmt::format("{} (CPUs {})", usable_cores(), text_cpus(usable_cpus()))});
  machine.row({"memory", text_bytes(static_cast<double>(memory_bytes()))});
  machine.row({"system", system_name()});
  machine.row({"binding", binding_description()});
  fmt::print("Machine\n{}\n", machine.text());

  fmt::print("GPUs\n{}\n", devices_text());

  TextTable ways({{"", Align::left}, {"", Align::left}, {"", Align::left}});
  for (const Backend& backend : backends())
    ways.row({fmt::format("back end {}", backend.name), backend.absent_because.empty() ? "built" : "absent",
              !backend.absent_because.empty() ? std::string(backend.absent_because)
              : backend.timed_claims          ? "for timed runs"
                                              : "judges others, claims no times"});
  add_worlds(ways);
  fmt::print("Ways to compute and to communicate\n{}\n", ways.text());

  TextTable parts({{"", Align::left}, {"", Align::left}, {"", Align::left}});
  for (const Part& part : build_parts())
    parts.row({std::string(part.name),
               part.built ? part.version.empty() ? "present" : std::string(part.version) : "absent",
               std::string(part.built ? part.path : part.remedy)});
  fmt::print("Libraries\n{}", parts.text());
  return exit_code::kGood;
}

}  // namespace quadrille
