// SPDX-License-Identifier: Apache-2.0
// Fashion-MNIST (Xiao, Rasul, Vollgraf 2017): 60,000 + 10,000 grey images of 28 x 28 in ten classes of clothing, as
// Debian's dataset-fashion-mnist carries them. The files stay packed by gzip, as suites name them. What is checked is
// what they unpack to: Debian packed them anew, so the packed bytes are not those that the authors published.
#include "core/error.h"
#include "datasets/images.h"
#include "datasets/inflate.h"
#include "datasets/recipe.h"
#include "datasets/sha256.h"

namespace quadrille {
namespace {

constexpr std::string_view kFolder = "datasets/fashion-mnist/";

MadeFiles make(const std::vector<PackedFiles>& packed) {
  const Recipe recipe = fashion_mnist_recipe();
  MadeFiles files;
  for (const WantedFile& file : recipe.files)
    files[file.name] = packed_file(packed[0], fmt::format("{}{}", kFolder, file.name));
  return files;
}

std::string content(const std::string& stored, const std::string& name) {
  constexpr std::size_t kMost = std::size_t{1} << 27;
  return inflate_bytes(stored, kMost, name);
}

Json entry(const WantedFile& file, const std::string& stored) {
  const std::string unpacked = content(stored, file.name);
  const auto shape = idx_dimensions(unpacked, static_cast<std::int64_t>(file.shape.size()), file.name);
  require(shape == file.shape && idx_bytes(shape) == file.bytes, "{} has other dimensions than it should", file.name);
  Json json = Json::object(), dimensions = Json::array();
  for (std::int64_t dimension : shape) dimensions.push(dimension);
  json.set("file", file.name);
  json.set("kind", "idx");
  json.set("bytes", static_cast<std::int64_t>(stored.size()));
  json.set("sha256", sha256_of(stored));
  json.set("content_bytes", file.bytes);
  json.set("content_sha256", sha256_of(unpacked));
  json.set("shape", std::move(dimensions));
  return json;
}

}  // namespace

// The content is that whose MD5 the authors' copies have: f4a8712d7a061bf5bd6d2ca38dc4d50a (training images),
// 9018921c3c673c538a1fc5bad174d6f9, 8181f5470baa50b63fa0f6fddb340f0a (test images), 15d484375f8d13e6eb1aabb0c3f46965.
Recipe fashion_mnist_recipe() {
  Recipe recipe;
  recipe.name = "fashion_mnist";
  recipe.title = "Fashion-MNIST: 70,000 grey images of clothing in ten classes";
  recipe.source = "Debian package dataset-fashion-mnist, data of github.com/zalandoresearch/fashion-mnist";
  recipe.licence = "MIT, 2017 Zalando SE; packaging: MIT, 2019-2020 Mo Zhou";
  recipe.files = {
      {"train-images-idx3-ubyte.gz",
       47040016,
       "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
       {60000, 28, 28}},
      {"train-labels-idx1-ubyte.gz",
       60008,
       "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
       {60000}},
      {"t10k-images-idx3-ubyte.gz",
       7840016,
       "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
       {10000, 28, 28}},
      {"t10k-labels-idx1-ubyte.gz", 10008, "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34", {10000}},
  };
  recipe.ingredients = {{false, "dataset-fashion-mnist", "", "31 MB", {}}};
  for (const WantedFile& file : recipe.files)
    recipe.ingredients[0].endings.push_back(fmt::format("{}{}", kFolder, file.name));
  recipe.make = make;
  recipe.content = content;
  recipe.entry = entry;
  recipe.digest = "content_sha256";
  return recipe;
}

}  // namespace quadrille
