// SPDX-License-Identifier: Apache-2.0
// See session.h.
#include "benchmarks/harness/session.h"

#include <fmt/core.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "benchmarks/harness/agree.h"
#include "benchmarks/harness/assemble.h"
#include "benchmarks/harness/environment.h"
#include "benchmarks/harness/gpus.h"
#include "benchmarks/harness/launch.h"
#include "benchmarks/harness/locate.h"
#include "benchmarks/harness/log_configuration.h"
#include "benchmarks/harness/peaks.h"
#include "benchmarks/harness/placement.h"
#include "benchmarks/harness/same_settings.h"
#include "benchmarks/harness/sample_dump.h"
#include "benchmarks/harness/score.h"
#include "benchmarks/harness/screen.h"
#include "benchmarks/harness/text.h"
#include "benchmarks/harness/timed_run.h"
#include "benchmarks/harness/trace.h"
#include "benchmarks/rules/conformance.h"
#include "core/build.h"
#include "core/error.h"
#include "kernels/backend.h"
#include "parallelism/links.h"
#include "parallelism/mesh.h"

namespace quadrille {

namespace {

namespace fs = std::filesystem;

void print(const std::string& text) {
  fmt::print("{}", text);
  std::fflush(stdout);
}

// What must be the same on all ranks: it decides what is trained, or what they say to each other.
Json settings_of(const Experiment& experiment, const RunOptions& options) {
  Json settings = experiment.resolved;
  settings.set("--backend", experiment.backend);
  settings.set("--trace", !options.trace.empty());
  settings.set("--dump-samples", !options.dump_samples.empty());
  settings.set("--check-replicas", options.check_replicas);
  settings.set("--links", options.links);
  settings.set("--collectives", options.gpus.collectives);
  settings.set("--share-devices", options.gpus.share);
  settings.set("version", std::string(build_facts().version));
  settings.set("revision", std::string(build_facts().revision));
  return settings;
}

class RankSession {
 public:
  RankSession(Session& session, std::unique_ptr<Communicator> world)
      : session_(session), world_(std::move(world)), launch_seconds_(session.clock.seconds() - session.data_seconds) {}

  void go() {
    prepare();
    int exit = exit_code::kGood;
    for (int run = 0; run < experiment().run.runs; ++run) {
      const int code = one_run(run);
      if (exit == exit_code::kGood) exit = code;
    }
    if (experiment().run.runs > 1) exit = score_set(exit);
    session_.exit = exit;
  }

 private:
  const Experiment& experiment() const { return *session_.experiment; }
  bool first() const { return world_->rank() == 0; }
  std::string path(const std::string& name) const { return (fs::path(session_.out) / name).string(); }
  std::string numbered(const char* stem, int run, const char* ending) const {
    return path(fmt::format("{}_{}.{}", stem, run, ending));
  }

  void prepare() {
    const double begin = session_.clock.seconds();
    agree(*world_, !session_.experiment, [&] {
      session_.experiment =
          std::make_unique<const Experiment>(resolve(session_.options, world_->size(), session_.world));
    });
    require_same_settings(*world_, settings_of(experiment(), session_.options));
    data_seconds_ = session_.data_seconds + session_.clock.seconds() - begin;
    const Backend& backend = backend_named(experiment().backend);
    device_ = std::make_unique<RankDevice>(backend, *world_,
                                           device_choice(session_.options.gpus, session_.options.timeout_seconds));
    launch_ =
        launch_rank(*world_, {session_.options.threads.value_or(0), session_.options.oversubscribe, device_->name()});
    if (first() && !device_->way().empty()) launch_.notes.push_back("messages between GPUs: over " + device_->way());
    if (backend.use_threads) backend.use_threads(launch_.mine.threads);
    check_memory(backend);
    agree(*world_, first(), [&] {
      refuse_used_folder(session_.out);
      const RunOptions& options = session_.options;
      for (const auto& [name, file] : {std::pair{"--trace", options.trace}, {"--dump-samples", options.dump_samples}})
        for (int run = 0; run < experiment().run.runs && !file.empty(); ++run)
          refuse_file_place(name, path_of_run(file, run));
      require(options.trace.empty() || options.trace != options.dump_samples,
              "--trace and --dump-samples both name {}; give two files", options.trace);
      session_.made = make_out_folder(session_.out);
    });
    if (first()) print(opening_screen(experiment(), launch_));
    const double probe = session_.clock.seconds();
    const Json datasheets = read_json(locate_file("results/peaks.json"));
    const TrainingConfig& training = experiment().workload.training;
    if (backend.devices) {
      peak_ = measure_gpu_peak(*world_, *device_, backend, training, experiment().run.probe_seconds, datasheets);
      watch_power();
    } else {
      peak_ = measure_peak(*world_, launch_, experiment().run.probe_seconds);
      add_datasheet_peak(peak_, cpu_model(), training.precision(), 1, datasheets);
    }
    probe_seconds_ = session_.clock.seconds() - probe;
    if (first()) print(peak_line(peak_));
  }

  // The first rank of each host looks after the power of its GPUs.
  void watch_power() {
    const std::vector<std::string> gpus = gpus_of_host(*world_, *device_);
    if (!launch_.first_of_host) return;
    try {
      power_ = std::make_unique<PowerSampler>(make_nvml_meter(gpus));
    } catch (const Error& error) {
      power_refused_ = error.what();
    }
  }

  // Before anything is allocated: the forecasts of all ranks of this host against what it has free.
  void check_memory(const Backend& backend) {
    if (session_.options.oversubscribe) return;
    Workload workload = experiment().workload;
    workload.threads = launch_.mine.threads;
    Json mine = Json::object();
    mine.set("host", launch_.mine.host);
    const auto bytes = forecast(workload, backend, experiment().ranks, world_->rank()).memory.total();
    if (backend.devices) return refuse_more_than_device(*device_, static_cast<double>(bytes));
    mine.set("bytes", bytes);
    double needed = 0;
    int ranks = 0;
    for (const Json& other : world_->exchange(mine))
      if (other.at("host").string() == launch_.mine.host) needed += other.at("bytes").number(), ++ranks;
    agree(*world_, launch_.first_of_host,
          [&] { refuse_more_than_free(needed, static_cast<double>(free_memory_bytes()), ranks); });
  }

  int one_run(int run) {
    const double begin = session_.clock.seconds();
    Workload workload = experiment().workload;
    workload.threads = launch_.mine.threads;
    workload.data_threads = session_.options.data_threads;
    workload.seed += static_cast<std::uint64_t>(run);
    const auto seed = static_cast<std::int64_t>(workload.seed);
    Ledger ledger(!session_.options.trace.empty());
    auto base = world_->split([](int) { return 0; }, "world");
    base = device_->world(std::move(base));
    if (!session_.options.links.empty()) {
      Links links = links_from_text(session_.options.links);
      links.timeout_s = session_.options.timeout_seconds;
      base = over_links(std::move(base), links);
    }
    const StrategyMesh crew(std::move(base), workload.strategy, ledger);
    const Mesh& mesh = crew.mesh();
    const double connected = session_.clock.seconds();
    const Backend& backend = backend_named(experiment().backend);
    Trainer trainer(workload, mesh, backend, device_->device(), ledger);
    SampleDump samples(world_->rank());
    const bool dumps = !session_.options.dump_samples.empty();
    if (dumps) trainer.watch_samples([&](const SamplesTaken& taken) { samples.note(taken); });
    const double built = session_.clock.seconds();

    const bool emulated =
        !session_.options.links.empty() || (workload.training.dtype == DType::bf16 && !backend.tensor_cores);
    const bool timed_claims = backend.timed_claims && !emulated;
    std::unique_ptr<MlLog> file;
    std::unique_ptr<RunLog> log;
    std::unique_ptr<LiveLine> live;
    if (first()) {
      file = std::make_unique<MlLog>(numbered("result", run, "txt"), session_.clock);
      live = std::make_unique<LiveLine>(stdout);
      const LogTable& table = log_table(benchmark_name(experiment()));
      log_values(*file, table, configuration_values(experiment(), seed, timed_claims), run == 0 ? 0 : begin);
      log = std::make_unique<RunLog>(*file, table, log_units(experiment()));
      print(run_line(experiment(), run, seed, trainer.parameters()));
      if (run == 0) print(pipeline_text(trainer.pipeline()) + replicas_text(key_value_replicas(experiment())));
    }
    TimedRun timed({experiment(), *world_, trainer, ledger, session_.clock, peak_, launch_.first_of_process, log.get(),
                    live.get(), &session_.training_began, power_.get(), session_.options.check_replicas});
    RunTrace trace = timed.go();
    if (!power_refused_.empty()) trace.power = Power{"not measured: " + power_refused_, {}, {}, {}, {}, 0};

    RankLine line = rank_line(trainer);
    line.communicators_seconds = connected - begin;
    const auto weights = ledger.phases().find("weights");
    line.weights_seconds = weights == ledger.phases().end() ? 0 : weights->second;
    line.build_seconds = built - connected - line.weights_seconds;
    line.forecast = forecast(workload, backend, experiment().ranks, world_->rank()).memory;
    const std::vector<Json> all = world_->exchange(contribution_json(line, trace));
    if (!session_.options.trace.empty())
      write_trace(*world_, ledger, trace.ledger_start, launch_.mine.host, path_of_run(session_.options.trace, run));
    if (dumps) write_samples(*world_, samples, path_of_run(session_.options.dump_samples, run));
    const RunFacts facts{run,
                         seed,
                         session_.clock.unix_seconds(trace.start_seconds),
                         trainer.parameters(),
                         trainer.model_flops_full(),
                         trainer.model_flops_causal(),
                         timed_claims,
                         trainer.pipeline(),
                         session_.options.links,
                         backend.devices ? devices_json(backend) : Json(),
                         device_->way()};
    return finish(facts, trace, all);
  }

  RankLine rank_line(const Trainer& trainer) const {
    RankLine line;
    line.rank = world_->rank();
    line.host = launch_.mine.host;
    line.device = launch_.mine.device;
    line.process = launch_.mine.process;
    line.cpus = launch_.mine.cpus;
    line.threads = launch_.mine.threads;
    line.launch_seconds = launch_seconds_;
    line.data_seconds = data_seconds_;
    line.probe_seconds = probe_seconds_;
    line.measured = trainer.memory();
    line.process_bytes_peak = process_peak_bytes();
    return line;
  }

  std::string path_of_run(const std::string& file, int run) const {
    if (experiment().run.runs == 1) return file;
    const fs::path given(file);
    return (given.parent_path() / fmt::format("{}_{}{}", given.stem().string(), run, given.extension().string()))
        .string();
  }

  // Rank 0 judges, writes and prints; all ranks leave with the same code.
  int finish(const RunFacts& facts, const RunTrace& trace, const std::vector<Json>& contributions) {
    int code = exit_code::kGood;
    agree(*world_, first(), [&] {
      const Record record = assemble(experiment(), facts, peak_, trace, contributions);
      const std::string file =
          experiment().run.runs == 1 ? path("record.json") : numbered("record", facts.run_index, "json");
      write_file_whole(file, record_json(record).text(1) + "\n");
      print(last_screen(record, file));
      if (record.stop_reason == stop::kDiverged)
        code = exit_code::kDiverged;
      else if (record.target && !record.seconds_to_target)
        code = exit_code::kNotReached;
      else if (!record.verdict.valid)
        code = exit_code::kNotValid;
    });
    return static_cast<int>(world_->exchange(code).front().integer());
  }

  // The set may be good although one run was not: that is the rule of the score. A run that is not valid for another
  // reason than its target spoils it.
  int score_set(int worst) {
    int code = worst;
    agree(*world_, first(), [&] {
      std::vector<RunOutcome> runs;
      for (const std::string& log : run_logs_in({session_.out})) runs.push_back(read_run_log(log));
      const Score score = score_by_rules(runs).score;
      write_file_whole(path("score.json"), score_json(score, runs).text(1) + "\n");
      print("\nAll runs\n" + score_text(score, runs));
      if (score.valid && (worst == exit_code::kNotReached || worst == exit_code::kDiverged)) code = exit_code::kGood;
    });
    return static_cast<int>(world_->exchange(code).front().integer());
  }

  Session& session_;
  std::unique_ptr<Communicator> world_;
  std::unique_ptr<RankDevice> device_;
  Launch launch_;
  Peak peak_;
  std::unique_ptr<PowerSampler> power_;  // on the first rank of a host with GPUs
  std::string power_refused_;
  double launch_seconds_, data_seconds_ = 0, probe_seconds_ = 0;
};

}  // namespace

void run_rank(Session& session, std::unique_ptr<Communicator> world) { RankSession(session, std::move(world)).go(); }

void refuse_used_folder(const std::string& out) {
  std::error_code code;
  const bool there = fs::exists(out, code);
  require(!code, "--out {}: {}; give another folder", out, code.message());
  if (!there) return;
  require(fs::is_directory(out), "--out {} is a file; give a folder that is new or empty", out);
  require(fs::is_empty(out),
          "--out {} is not empty: a run is never mixed with an older one; give another folder, or remove this one",
          out);
}

std::vector<std::string> make_out_folder(const std::string& out) {
  std::vector<std::string> made;
  std::error_code code;
  for (fs::path path = fs::path(out).lexically_normal(); !path.empty() && !fs::exists(path, code) && !code;
       path = path.parent_path())
    made.push_back(path.string());
  if (!code) fs::create_directories(out, code);
  require(!code, "--out {} cannot be made: {}; give another folder", out, code.message());
  return made;
}

void remove_empty_folders(const std::vector<std::string>& made) {
  std::error_code code;  // what is not empty stays, and says so by staying
  for (const std::string& folder : made)
    if (fs::is_directory(folder, code) && fs::is_empty(folder, code)) fs::remove(folder, code);
}

void refuse_file_place(const std::string& option, const std::string& path) {
  std::error_code code;
  const bool there = fs::exists(path, code);
  require(!code, "{} {}: {}; give another file", option, path, code.message());
  require(!there, "{} {} exists already: a run never replaces another file; give another name, or remove it", option,
          path);
  const bool good = std::ofstream(path).is_open();
  require(good, "{} {} cannot be written; give a file in a folder that exists and may be written to", option, path);
  fs::remove(path, code);
}

void refuse_more_than_free(double needed_bytes, double free_bytes, int ranks) {
  require(free_bytes <= 0 || needed_bytes <= free_bytes,
          "the forecast is {} for {} rank{} of a host that has {} free; take a smaller training.batch_size or "
          "training.micro_batch, or split the model over more ranks on more hosts (quadrille plan shows the parts), or "
          "say --oversubscribe",
          text_bytes(needed_bytes), ranks, ranks == 1 ? "" : "s", text_bytes(free_bytes));
}

}  // namespace quadrille
