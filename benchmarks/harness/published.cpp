// SPDX-License-Identifier: Apache-2.0
// See published.h.
#include "benchmarks/harness/published.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "benchmarks/harness/screen.h"
#include "benchmarks/harness/text.h"
#include "core/error.h"

namespace quadrille {

namespace {

using Align = TextTable::Align;

std::string text_in(const Json& row, std::string_view key) {
  const Json* value = row.find(key);
  return !value                ? "not stated"
         : value->is_string()  ? value->string()
         : value->is_integer() ? text_grouped(value->integer())
                               : text_number(value->number());
}

const Json* at_path(const Json& document, std::initializer_list<std::string_view> path) {
  const Json* at = &document;
  for (std::string_view key : path) at = at && at->is_object() ? at->find(key) : nullptr;
  return at;
}

std::string string_at(const Json& document, std::initializer_list<std::string_view> path, std::string_view fallback) {
  const Json* value = at_path(document, path);
  return value && value->is_string() ? value->string() : std::string(fallback);
}

std::string hardware_of(const Record& record) {
  const Json* model = record.environment.find("cpu_model");
  int threads = 0;
  for (const RankLine& line : record.rank_lines) threads += line.threads;
  return fmt::format("{} core{} of {}", record.peak.cores > 0 ? record.peak.cores : threads, threads == 1 ? "" : "s",
                     model ? model->string() : "unknown");
}

std::size_t hosts_of(const Record& record) {
  std::set<std::string> hosts;
  for (const RankLine& line : record.rank_lines) hosts.insert(line.host);
  return hosts.size();
}

std::string benchmark_of(const Record& record) { return string_at(record.configuration, {"run", "published"}, ""); }

void add_if(std::vector<std::string>& list, bool differs, std::string text) {
  if (differs) list.push_back(std::move(text));
}

std::string time_to_train_text(const Record& record, std::vector<Json> rows, std::size_t count) {
  std::sort(rows.begin(), rows.end(),
            [](const Json& a, const Json& b) { return a.at("chips").number() < b.at("chips").number(); });
  const std::size_t all = rows.size();
  if (all > count) {  // evenly over the scales, smallest and largest included
    std::vector<Json> some;
    for (std::size_t i = 0; i < count; ++i) some.push_back(rows[count == 1 ? 0 : i * (all - 1) / (count - 1)]);
    rows = std::move(some);
  }
  TextTable table({{"round", Align::left},
                   {"submitter", Align::left},
                   {"chips"},
                   {"chip", Align::left},
                   {"batch"},
                   {"minutes"},
                   {"ratio"}});
  std::string below;
  std::set<std::string> seen;
  for (const Json& row : rows) {
    const auto ratio = speed_ratio(record, row);
    table.row({text_in(row, "round"), text_in(row, "submitter"), text_in(row, "chips"), text_in(row, "chip"),
               text_in(row, "batch_rows"), text_in(row, "minutes"), ratio ? fmt::format("{:.3f}", *ratio) : "none"});
    for (const std::string& difference : differences(record, row))
      if (seen.insert(difference.substr(0, difference.find(':'))).second) below += "  differs in " + difference + "\n";
  }
  std::string text = fmt::format("Published time to train of '{}' ({} of {} rows, published by MLCommons)\n{}",
                                 benchmark_of(record), rows.size(), all, table.text());
  if (record.seconds_to_target)
    text += fmt::format("  this run: {:.3f} min on {}, not verified by MLCommons\n", *record.seconds_to_target / 60,
                        hardware_of(record));
  else
    text += "  this run did not reach its target; it has no time to train\n";
  if (!below.empty()) text += below + "  so nothing is divided: the rows are context, not a ranking\n";
  text += "  source of each row: results/published/time_to_train.json\n";
  return text;
}

std::string floors_text(const Record& record, const std::optional<Json>& floors) {
  TextTable table({{"", Align::left}, {""}});
  std::string how;
  if (floors) {
    for (const Json& floor : floors->at("floors").items())
      table.row({floor.at("name").string(), text_number(floor.at("value").number())});
    how = floors->at("how").string();
  } else if (const Json* entropy = at_path(record.data, {"evaluate", "entropy_nats_per_token"})) {
    for (const auto& [key, name] :
         {std::pair{"entropy_given_nothing_nats_per_token", "knowing only how frequent each id is"},
          std::pair{"entropy_given_one_id_nats_per_token", "knowing one id before"}})
      if (const Json* value = at_path(record.data, {"evaluate", key})) table.row({name, text_number(value->number())});
    table.row({"entropy of the process: no model can do better", text_number(entropy->number())});
    how = "computed from the process that makes the text";
  } else
    return {};
  if (!record.evaluations.empty()) table.row({"this run", text_number(record.evaluations.back().quality)});
  return fmt::format("Without a neural network, nats per {}\n{}  {}\n", record.unit, table.text(), how);
}

std::string utilisation_text(const Record& record, const std::vector<Json>& rows) {
  const Utilisation& u = record.utilisation;
  const auto percent = [](const std::optional<double>& value) { return value ? text_percent(*value) : "n/a"; };
  std::vector<std::string> conventions;
  const auto letter = [&](const std::string& convention) {
    auto found = std::find(conventions.begin(), conventions.end(), convention);
    if (found == conventions.end()) found = conventions.insert(conventions.end(), convention);
    return fmt::format("[{}]", static_cast<char>('a' + (found - conventions.begin()) % 26));
  };
  TextTable table({{"model", Align::left}, {"chips"}, {"chip", Align::left}, {"utilisation"}, {"", Align::left}});
  table.row({fmt::format("this run, {} parameters", text_scaled(static_cast<double>(record.parameters), "")), "",
             hardware_of(record), percent(u.mfu_full_of_measured_peak),
             letter("MFU, full attention, of the measured peak")});
  table.row({"this run", "", "", percent(u.hfu_of_measured_peak), letter("HFU, executed FLOPs, of the measured peak")});
  for (const Json& row : rows)
    table.row({text_in(row, "model"), text_in(row, "chips"), text_in(row, "chip"),
               text_percent(row.at("utilisation_percent").number() / 100), letter(text_in(row, "flop_convention"))});
  std::string text = "Utilisation, nearest published model sizes: other conditions, not to be divided\n" + table.text();
  for (const std::string& convention : conventions) text += fmt::format("  {} {}\n", letter(convention), convention);
  return text +
         "  model, hardware, number type and convention differ; published percentages are of data sheet peaks\n"
         "  source of each row: results/published/scaling.json\n";
}

}  // namespace

std::vector<Json> published_rows(const std::string& folder, std::string_view kind) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".json") files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  std::vector<Json> rows;
  for (const std::string& file : files) {
    const Json document = read_json(file);
    if (document.at("kind").string() != kind) continue;
    for (const Json& row : document.at("rows").items()) {
      const Json* verified = row.find("verified");
      if (verified && verified->is_bool() && verified->boolean()) rows.push_back(row);
    }
  }
  return rows;
}

std::vector<std::string> differences(const Record& record, const Json& row) {
  std::vector<std::string> list;
  const Json* model = record.environment.find("cpu_model");
  add_if(list, benchmark_of(record) != text_in(row, "benchmark"),
         fmt::format("benchmark: {} here, {} there", benchmark_of(record), text_in(row, "benchmark")));
  for (const auto& [key, origin] : record.origins.members())
    if ((key.starts_with("model.") || key.starts_with("data.")) && origin.is_string() &&
        origin.string().starts_with("--"))
      list.push_back(fmt::format("the suite: {} was changed ({})", key, origin.string()));
  const bool same_target = record.target && record.target->value == row.at("target_value").number();
  add_if(list, !same_target,
         fmt::format("target: {} here, {} there", record.target ? text_number(record.target->value) : "none",
                     text_in(row, "target_value")));
  add_if(list, !model || model->string() != text_in(row, "chip"),
         fmt::format("hardware: {} here, {} x {} there", hardware_of(record), text_in(row, "chips"),
                     text_in(row, "chip")));
  const Json* chips = row.find("chips");
  add_if(list, !chips || chips->number() != static_cast<double>(hosts_of(record)),
         fmt::format("scale: {} host{} here, {} chips there", hosts_of(record), hosts_of(record) == 1 ? "" : "s",
                     text_in(row, "chips")));
  const Json* batch = row.find("batch_rows");
  add_if(list, !batch || batch->number() != static_cast<double>(record.batch_size),
         fmt::format("batch: {} rows here, {} there", record.batch_size, text_in(row, "batch_rows")));
  const std::string precision = string_at(record.configuration, {"training", "dtype"}, "unknown");
  add_if(list, text_in(row, "precision") != precision,
         fmt::format("precision: {} here, {} there", precision, text_in(row, "precision")));
  return list;
}

std::optional<double> speed_ratio(const Record& record, const Json& row) {
  if (!record.seconds_to_target || !record.verdict.valid || !differences(record, row).empty()) return {};
  return row.at("minutes").number() * 60 / *record.seconds_to_target;
}

std::vector<Json> nearest_rows(const std::vector<Json>& rows, std::int64_t parameters, std::size_t count) {
  std::vector<Json> sorted = rows;
  const auto distance = [&](const Json& row) {
    return std::abs(std::log(row.at("parameters").number() / std::max(1.0, static_cast<double>(parameters))));
  };
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](const Json& a, const Json& b) { return distance(a) < distance(b); });
  std::vector<Json> near;
  std::set<std::string> seen;
  for (const Json& row : sorted) {
    if (near.size() == count) break;
    if (seen.insert(text_in(row, "model") + "|" + text_in(row, "chip") + "|" + text_in(row, "flop_convention")).second)
      near.push_back(row);
  }
  return near;
}

std::optional<Json> floors_of(const Record& record, const Json& floors) {
  const std::string directory = string_at(record.configuration, {"data", "directory"}, "");
  const Json* evaluate = at_path(record.configuration, {"data", "evaluate"});
  for (const Json& row : floors.at("rows").items()) {
    if (directory.empty() || row.at("directory").string() != directory) continue;
    if (row.at("evaluate").size() > 0 && (!evaluate || !(*evaluate == row.at("evaluate")))) continue;
    if (!record.target || record.target->metric == row.at("metric").string()) return row;
  }
  return {};
}

StandIn stand_in(const std::vector<Record>& runs, const Score& score) {
  StandIn best{runs.front(), 0};
  for (std::size_t i = 1; score.valid && i < runs.size(); ++i) {
    const auto& here = runs[i].seconds_to_target;
    const auto& there = best.record.seconds_to_target;
    if (here && (!there || std::abs(*here - score.seconds) < std::abs(*there - score.seconds))) best = {runs[i], i};
  }
  if (!score.valid)
    best.record.seconds_to_target.reset();
  else if (best.record.seconds_to_target)
    best.record.seconds_to_target = score.seconds;
  return best;
}

std::string published_text(const Record& record, const std::string& folder, const Json& floors, std::size_t rows) {
  std::string text = fmt::format("{}, seed {}, {} on {}: {}\n\n", suite_title(record), record.seed, record.stop_reason,
                                 hardware_of(record), record.verdict.valid ? "valid" : "NOT VALID");
  std::vector<Json> same;
  if (!benchmark_of(record).empty())
    for (const Json& row : published_rows(folder, "published time to train"))
      if (text_in(row, "benchmark") == benchmark_of(record)) same.push_back(row);
  if (!same.empty())
    text += time_to_train_text(record, same, rows);
  else {
    text += fmt::format("No published time to train belongs to this suite.\n\n");
    text += floors_text(record, floors_of(record, floors));
  }
  return text + "\n" +
         utilisation_text(record, nearest_rows(published_rows(folder, "published scaling"), record.parameters, rows));
}

}  // namespace quadrille
