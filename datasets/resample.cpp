// SPDX-License-Identifier: Apache-2.0
#include "datasets/resample.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace quadrille {
namespace {

// What each new pixel of one direction is made of: `count` old ones from `first` on, with weights whose sum is 1.
struct Taps {
  std::int64_t first = 0, count = 0;
  std::size_t weights = 0;  // where they begin
};
struct Filter {
  std::vector<Taps> taps;
  std::vector<float> weights;
};

Filter triangles(double begin, double extent, std::int64_t old_size, std::int64_t new_size) {
  Filter filter;
  const double distance = extent / static_cast<double>(new_size), reach = std::max(1.0, distance);
  std::vector<double> row;
  for (std::int64_t i = 0; i < new_size; ++i) {
    const double centre = begin + (static_cast<double>(i) + 0.5) * distance;
    const auto first = std::clamp<std::int64_t>(static_cast<std::int64_t>(std::floor(centre - reach)), 0, old_size - 1);
    const auto end =
        std::clamp<std::int64_t>(static_cast<std::int64_t>(std::ceil(centre + reach)), first + 1, old_size);
    double sum = 0;
    row.clear();
    for (std::int64_t k = first; k < end; ++k) {
      row.push_back(std::max(0.0, 1 - std::abs(static_cast<double>(k) + 0.5 - centre) / reach));
      sum += row.back();
    }
    filter.taps.push_back({first, end - first, filter.weights.size()});
    for (const double weight : row) filter.weights.push_back(static_cast<float>(weight / sum));
  }
  return filter;
}

}  // namespace

void resample(const Pixels& image, const Part& part, const ImageSize& size, bool mirrored, std::span<float> out) {
  constexpr std::int64_t kColours = 3;
  const std::int64_t height = size.height, width = size.width;
  require(static_cast<std::int64_t>(out.size()) == height * width * kColours, "room for {} numbers of {} x {} x 3",
          out.size(), height, width);
  const Filter across = triangles(part.left, part.width, image.size.width, width),
               down = triangles(part.top, part.height, image.size.height, height);
  const std::int64_t first = down.taps.front().first, end = down.taps.back().first + down.taps.back().count;
  std::vector<float> rows(static_cast<std::size_t>((end - first) * width * kColours));  // already of the new width
  float* at = rows.data();
  for (std::int64_t y = first; y < end; ++y) {
    const unsigned char* line = image.bytes.data() + y * image.size.width * kColours;
    for (std::int64_t x = 0; x < width; ++x, at += kColours) {
      const Taps& taps = across.taps[static_cast<std::size_t>(mirrored ? width - 1 - x : x)];
      const unsigned char* pixel = line + taps.first * kColours;
      const float* weight = across.weights.data() + taps.weights;
      float red = 0, green = 0, blue = 0;
      for (std::int64_t k = 0; k < taps.count; ++k, pixel += kColours)
        red += weight[k] * pixel[0], green += weight[k] * pixel[1], blue += weight[k] * pixel[2];
      at[0] = red, at[1] = green, at[2] = blue;
    }
  }
  std::ranges::fill(out, 0.0F);
  const auto line = static_cast<std::size_t>(width * kColours);
  for (std::int64_t y = 0; y < height; ++y) {
    const Taps& taps = down.taps[static_cast<std::size_t>(y)];
    float* to = out.data() + static_cast<std::size_t>(y) * line;
    for (std::int64_t k = 0; k < taps.count; ++k) {
      const float weight = down.weights[taps.weights + static_cast<std::size_t>(k)];
      const float* from = rows.data() + static_cast<std::size_t>(taps.first + k - first) * line;
      for (std::size_t i = 0; i < line; ++i) to[i] += weight * from[i];
    }
  }
}

}  // namespace quadrille
