// SPDX-License-Identifier: Apache-2.0
#include "models/nn/parameter.h"

#include "core/error.h"

namespace quadrille {

std::int64_t Parameter::count() const {
  std::int64_t n = 1;
  for (Dim d : dims) n *= d.extent;
  return n;
}

Parameter& Parameters::make(std::string name, std::string bucket, Dims dims, double mean, double deviation,
                            bool decays) {
  require(names_.insert(name).second, "two parameters are called \"{}\"", name);
  Parameter p;
  p.number = static_cast<std::int64_t>(all_.size());
  p.name = std::move(name);
  p.bucket = std::move(bucket);
  p.dims = std::move(dims);
  p.states = plan_.of_parameter(p.dims);
  p.shape = plan_.shape(p.dims, p.states);
  p.mean = mean;
  p.deviation = deviation;
  p.decays = decays;
  return all_.emplace_back(std::move(p));
}

Parameter& Parameters::named(const std::string& name) {
  for (Parameter& p : all_)
    if (p.name == name) return p;
  fail("the model has no parameter \"{}\"", name);
}

std::int64_t Parameters::count() const {
  std::int64_t n = 0;
  for (const Parameter& p : all_) n += p.count();
  return n;
}

Statistics& Parameters::make_statistics(std::string name, Dim channels) {
  require(names_.insert(name).second, "two parameters are called \"{}\"", name);
  Dims dims = {channels};
  const States states = plan_.of_parameter(dims);
  return statistics_.emplace_back(Statistics{std::move(name), std::move(dims), states, {}});
}

void Parameters::open_statistics(Device& device, Stream& stream) {
  const std::unique_ptr<Device> host = make_host_device();
  for (Statistics& s : statistics_) {
    const Shape shape{plan_.slice(s.dims[0], s.states).count, 3};
    s.value = device.empty(shape, DType::f64);
    if (!device.holds_numbers()) continue;
    const Tensor start = host->empty(shape, DType::f64);
    const auto numbers = start.host<double>();
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = i % 3 == 0 ? 0 : 1;
    stream.copy(s.value, start);
    stream.synchronize();
  }
}

std::int64_t Parameters::statistics_bytes() const {
  std::int64_t n = 0;
  for (const Statistics& s : statistics_) n += s.value ? s.value.bytes() : 0;
  return n;
}

void for_each_element(const Parameter& p, const Plan& plan,
                      const std::function<void(std::int64_t, std::int64_t)>& visit) {
  const int rank = static_cast<int>(p.dims.size());
  std::vector<Slice> own;
  for (Dim d : p.dims) own.push_back(plan.slice(d, p.states));
  const std::int64_t run = rank ? own.back().count : 1;  // the last dim is contiguous in both
  if (p.shape.count() == 0) return;
  std::vector<std::int64_t> at(static_cast<std::size_t>(rank), 0);
  for (std::int64_t local = 0; local < p.shape.count(); local += run) {
    std::int64_t global = 0;
    for (std::size_t d = 0; d < at.size(); ++d) global = global * p.dims[d].extent + own[d].first + at[d];
    for (std::int64_t i = 0; i < run; ++i) visit(local + i, global + i);
    for (int d = rank - 2; d >= 0; --d) {
      const auto k = static_cast<std::size_t>(d);
      if (++at[k] < own[k].count) break;
      at[k] = 0;
    }
  }
}

namespace {

template <class T>
void fill(const Parameter& p, const Plan& plan,
          const std::function<double(std::int64_t global, double before)>& value) {
  const auto numbers = p.value.host<T>();
  for_each_element(p, plan, [&](std::int64_t local, std::int64_t global) {
    T& v = numbers[static_cast<std::size_t>(local)];
    v = static_cast<T>(value(global, static_cast<double>(v)));
  });
}

void fill(const Parameter& p, const Plan& plan, const std::function<double(std::int64_t, double)>& value) {
  if (p.value.dtype() == DType::f64)
    fill<double>(p, plan, value);
  else
    fill<float>(p, plan, value);
}

}  // namespace

void initialise(const Parameter& p, const Plan& plan, std::uint64_t seed) {
  const Key key = key_of(seed, p.name);
  fill(p, plan, [&](std::int64_t global, double) {
    return p.deviation > 0 ? p.mean + p.deviation * normal_at(key, static_cast<std::uint64_t>(global)) : p.mean;
  });
}

void perturb(const Parameter& p, const Plan& plan, double deviation, std::uint64_t seed) {
  const Key key = key_of(key_of(seed, "perturb"), p.name);
  fill(p, plan, [&](std::int64_t global, double before) {
    return before + deviation * normal_at(key, static_cast<std::uint64_t>(global));
  });
}

void shift(const Parameter& p, const Plan& plan, std::int64_t global_index, double change) {
  fill(p, plan, [&](std::int64_t global, double before) { return global == global_index ? before + change : before; });
}

}  // namespace quadrille
