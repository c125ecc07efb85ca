// SPDX-License-Identifier: Apache-2.0
// Image sets from small IDX and CIFAR-10 files written here: pixels where they belong, each refusal with its message,
// crops that depend on epoch and index alone, evaluation as the files have it.
#include "datasets/images.h"

#include <cmath>
#include <set>

#include "core/build.h"
#include "datasets/commands.h"
#include "datasets/manifest.h"
#include "datasets/sha256.h"
#include "tests/datasets/helpers.h"

namespace quadrille {
namespace {

void quiet(std::string_view) {}

std::string big_endian(std::initializer_list<std::uint32_t> values) {
  std::string bytes;
  for (std::uint32_t v : values)
    for (int shift : {24, 16, 8, 0}) bytes += static_cast<char>(v >> shift & 0xff);
  return bytes;
}

constexpr std::uint32_t kHeight = 5, kWidth = 4;
constexpr std::size_t kPixels = kHeight * kWidth;

// No two images, and no two pixels of one, are alike; none is 0.
std::string pixels_of(std::uint32_t count, std::uint32_t first = 0) {
  std::string pixels;
  for (std::uint32_t n = 0; n < count; ++n)
    for (std::uint32_t i = 0; i < kPixels; ++i) pixels += static_cast<char>(1 + (n + first) * 7 % 230 + i);
  return pixels;
}
std::string idx_images(std::uint32_t count, std::uint32_t first = 0) {
  return big_endian({0x803, count, kHeight, kWidth}) + pixels_of(count, first);
}
std::string idx_labels(std::uint32_t count) {
  std::string labels = big_endian({0x801, count});
  for (std::uint32_t n = 0; n < count; ++n) labels += static_cast<char>(n % 3);
  return labels;
}

// A gzip file whose one block is stored as it is (RFC 1951 and 1952): no library needed to write it.
std::string gzip_of(std::string_view text) {
  std::uint32_t crc = 0xffffffff;
  for (char c : text) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
  }
  const auto size = static_cast<std::uint16_t>(text.size());
  return std::string("\x1f\x8b\x08\0\0\0\0\0\0\xff\x01", 11) +
         raw<std::uint16_t>({size, static_cast<std::uint16_t>(~size)}) + std::string(text) +
         raw<std::uint32_t>({~crc, size});
}

std::string cifar_records(std::int64_t count, std::int64_t first = 0) {
  std::string bytes;
  for (std::int64_t n = first; n < first + count; ++n) {
    bytes += static_cast<char>(n % 10);
    for (std::int64_t i = 0; i < 3072; ++i) bytes += static_cast<char>(1 + (n * 31 + i / 1024 * 80 + i % 1024) % 255);
  }
  return bytes;
}

class Images : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(root_ / "set");
    write("ti", idx_images(30)), write("tl", idx_labels(30));
    write("ei", idx_images(7, 100)), write("el", idx_labels(7));
  }
  void write(std::string_view name, std::string_view bytes) { root_.write(fmt::format("set/{}", name), bytes); }
  Datasets open(std::string_view more = "", std::string_view kind = "idx", std::string_view train = R"(["ti", "tl"])",
                std::string_view evaluate = R"(["ei", "el"])") {
    const std::string classes = kind == "idx" ? R"(, "classes": 3)" : "";
    return open_datasets(
        parse_json(fmt::format(R"({{"source": "{}", "directory": "set", "train": {}, "evaluate": {}{}{}}})", kind,
                               train, evaluate, classes, more),
                   "test"),
        0, root_.path());
  }
  std::string refused() {  // at once or when the bytes are read
    return message_of([&] {
      const Datasets sets = open();
      sets.train->scan();
      sets.evaluate->scan();
    });
  }
  Folder root_;
};

constexpr const char* kAugment = R"(, "augment": {"pad": 2, "flip": true})";

TEST_F(Images, IdxPixelsAndLabelsAreThoseOfTheFile) {
  const Datasets sets = open(R"(, "mean": [0.25], "deviation": [0.5])");
  EXPECT_EQ(text_of(sets.train->fields()), "image [5, 4, 1] f32, labels [1] i32");
  EXPECT_EQ(sets.train->size(), 30);
  EXPECT_EQ(sets.evaluate->labels(), 7);
  EXPECT_EQ(sets.train->vocabulary(), 3);
  EXPECT_EQ(sets.train->unit(), "image");
  EXPECT_EQ(sets.train->units(), 30.0);
  const std::string pixels = pixels_of(30);
  for (std::int64_t n : {0, 1, 29}) {
    const Batch sample = single_sample(*sets.train, 3, n);
    EXPECT_EQ(sample.integers("labels")[0], n % 3);
    for (std::size_t i = 0; i < kPixels; ++i) {
      const auto byte = static_cast<unsigned char>(pixels[static_cast<std::size_t>(n) * kPixels + i]);
      EXPECT_FLOAT_EQ(sample.numbers("image")[i], static_cast<float>((byte / 255.0 - 0.25) / 0.5));
    }
  }
  EXPECT_THROW(single_sample(*sets.train, 0, 30), Error);
}

TEST_F(Images, PackedFilesAreThePlainOnes) {
  if (!build_part("zlib").built) GTEST_SKIP() << "a build without zlib";
  const Batch plain = single_sample(*open().train, 0, 11);
  write("ti", gzip_of(idx_images(30)));
  write("tl", gzip_of(idx_labels(30)));
  const Datasets packed = open();
  EXPECT_EQ(single_sample(*packed.train, 0, 11).numbers("image"), plain.numbers("image"));
  const std::string whole = gzip_of(idx_images(30));
  std::string damaged = whole;
  damaged[100] ^= 1;
  write("ti", damaged);
  expect_parts(refused(), {"/set/ti", "damaged"});
  write("ti", whole.substr(0, whole.size() - 20));
  expect_parts(refused(), {"/set/ti", "truncated"});
  write("ti", whole + whole.substr(whole.size() - 4));  // the last four bytes still tell the right size
  expect_parts(refused(), {"/set/ti", "4 bytes follow"});
  write("ti", whole.substr(0, 12));
  expect_parts(refused(), {"/set/ti", "truncated"});
}

TEST_F(Images, IdxReaderRefuses) {
  const auto with_images = [&](const std::string& bytes) {
    write("ti", bytes);
    const std::string message = refused();
    write("ti", idx_images(30));
    return message;
  };
  const auto with_labels = [&](const std::string& bytes) {
    write("tl", bytes);
    const std::string message = refused();
    write("tl", idx_labels(30));
    return message;
  };
  expect_parts(with_images(""), {"/set/ti is empty"});
  expect_parts(with_images(big_endian({0x803, 30})), {"/set/ti ends after 8 bytes", "header of 16"});
  expect_parts(with_images(idx_labels(30)), {"/set/ti begins with 0x00000801", "wanted 0x00000803", "images"});
  expect_parts(with_labels(idx_images(30)), {"/set/tl begins with 0x00000803", "wanted 0x00000801", "labels"});
  expect_parts(with_images(big_endian({0xd03, 1, 1, 1}) + "    "), {"0x00000d03"});  // f32
  expect_parts(with_images(big_endian({0x803, 0, 5, 4})), {"/set/ti: dimension 1 is 0"});
  expect_parts(with_images(big_endian({0x803, 30, 5, 0x80000000})), {"dimension 3 is 2147483648", "16384"});
  const std::string whole = idx_images(30);
  expect_parts(with_images(whole.substr(0, whole.size() - 1)), {"/set/ti holds 615 bytes", "616", "truncated"});
  expect_parts(with_images(whole + "x"), {"/set/ti holds 617 bytes", "30 images of 5 x 4", "bytes follow"});
  expect_parts(with_labels(idx_labels(30).substr(0, 20)), {"/set/tl holds 20 bytes", "30 labels", "38", "truncated"});
  expect_parts(with_labels(idx_labels(30) + "xy"), {"/set/tl holds 40 bytes", "bytes follow"});
  expect_parts(with_labels(idx_labels(29)), {"30 images", "29 labels", "one label for each"});
  std::string high = idx_labels(30);
  high[8 + 17] = 3;
  expect_parts(with_labels(high), {"/set/tl: label 17 is 3", "data.classes is 3", "0 to 2"});
  high[8 + 17] = static_cast<char>(0xff);
  expect_parts(with_labels(high), {"label 17 is 255"});
  EXPECT_NO_THROW(open().train->scan());
}

TEST_F(Images, CifarIsRecordsOfPlanes) {
  write("b1", cifar_records(4)), write("b2", cifar_records(3, 4)), write("t", cifar_records(5, 50));
  const Datasets sets = open(R"(, "mean": [0, 0, 0], "deviation": [1, 1, 1])", "cifar10", R"(["b1", "b2"])", R"("t")");
  EXPECT_EQ(text_of(sets.train->fields()), "image [32, 32, 3] f32, labels [1] i32");
  EXPECT_EQ(sets.train->size(), 7);
  EXPECT_EQ(sets.train->vocabulary(), 10);
  const std::string all = cifar_records(7);
  for (std::int64_t n : {0, 3, 4, 6}) {
    const Batch sample = single_sample(*sets.train, 0, n);
    EXPECT_EQ(sample.integers("labels")[0], n);
    for (std::size_t pixel : {0, 1, 32, 1023})
      for (std::size_t c = 0; c < 3; ++c)
        EXPECT_FLOAT_EQ(
            sample.numbers("image")[pixel * 3 + c],
            static_cast<unsigned char>(all[static_cast<std::size_t>(n) * 3073 + 1 + c * 1024 + pixel]) / 255.0F);
  }
  const auto with = [&](const std::string& bytes) {
    write("b2", bytes);
    return message_of([&] { open("", "cifar10", R"(["b1", "b2"])", R"("t")").train->scan(); });
  };
  expect_parts(with(cifar_records(3).substr(1)), {"/set/b2 holds 9218 bytes", "2 records of 3073 and 3072 more"});
  expect_parts(with(cifar_records(3) + "z"), {"/set/b2 holds 9220 bytes", "3 records of 3073 and 1 more"});
  std::string high = cifar_records(3);
  high[3073] = 10;
  expect_parts(with(high), {"/set/b2: the label of record 1, at byte 3073, is 10", "0 to 9"});
}

TEST_F(Images, ConfigurationsThatCannotBeAreRefused) {
  const auto message = [&](std::string_view more, std::string_view train = R"(["ti", "tl"])",
                           std::string_view evaluate = R"(["ei", "el"])") {
    return message_of([&] { open(more, "idx", train, evaluate); });
  };
  expect_parts(message(R"(, "augmet": {})"), {"unknown key \"data.augmet\"", "augment"});
  expect_parts(message(R"(, "augment": {"pads": 1})"), {"unknown key \"data.augment.pads\"", "pad"});
  expect_parts(message(R"(, "augment": {"pad": -1})"), {"data.augment.pad", "-1", "0 to 1024"});
  expect_parts(message(R"(, "mean": [0.1, 0.2])"), {"data.mean", "2 numbers", "wanted 1"});
  expect_parts(message(R"(, "deviation": [0])"), {"data.deviation", "not above 0"});
  expect_parts(message("", R"("ti")"), {"data.train names 1 files", "images and then their labels"});
  expect_parts(message("", R"(["ti", "tl"])", R"(["ei", "tl"])"), {"/set/tl", "not judged"});
  expect_parts(message("", R"(["ti", "gone"])"), {"gone"});
  expect_parts(message("", R"(["ti", "../../tl"])"), {"data.train names ../../tl"});
  write("ei", big_endian({0x803, 7, 4, 5}) + pixels_of(7));
  expect_parts(message(""), {"5 x 4", "4 x 5", "same size"});
  expect_parts(message_of([&] { open(R"(, "classes": 11)", "cifar10"); }), {"data.classes", "11", "wanted 10"});
  expect_parts(message_of([&] {
                 open_datasets(parse_json(R"({"source": "idx", "train": ["a", "b"]})", "test"), 0, root_.path());
               }),
               {"data.classes is missing"});
  expect_parts(message_of([&] { open_datasets(parse_json(R"({"source": "cifar"})", "test"), 0, root_.path()); }),
               {"Did you mean cifar10?"});
}

TEST_F(Images, ResolvedHasEveryDefault) {
  EXPECT_EQ(open().resolved.text(),
            R"({"source":"idx","directory":"set","train":["ti","tl"],"evaluate":["ei","el"],"classes":3,"mean":[0.0],)"
            R"("deviation":[1.0],"augment":{"pad":0,"flip":false}})");
  const Datasets sets = open(kAugment);
  const Json again = open_datasets(sets.resolved, 0, root_.path()).resolved;
  EXPECT_EQ(again.text(), sets.resolved.text());
}

TEST_F(Images, DescriptionNamesFilesSumsAndCounts) {
  const Json d = open().train->description();
  EXPECT_EQ(d.at("images").integer(), 30);
  EXPECT_EQ(d.at("classes").integer(), 3);
  EXPECT_EQ(d.at("shape").text(), "[5,4,1]");
  const Json& labels = d.at("files").at(1);
  EXPECT_EQ(labels.at("file").string(), "tl");
  EXPECT_EQ(labels.at("bytes").integer(), 38);
  EXPECT_EQ(labels.at("sha256").string(), sha256_of(idx_labels(30)));
}

TEST_F(Images, AugmentedRowsAreTheSameForAnySplit) {
  const Datasets sets = open(kAugment);
  for (std::int64_t step : {0, 1, 5}) {
    const Batch whole = training_batch(*sets.train, 7, step, 12, {0, 12});
    for (std::int64_t ranks = 1; ranks <= 13; ++ranks) {
      std::vector<float> pixels;
      std::vector<std::int32_t> labels;
      const Datasets mine = open(kAugment);  // as another process would
      for (std::int64_t rank = ranks; rank-- > 0;) {
        const Batch batch = training_batch(*mine.train, 7, step, 12, part({0, 12}, ranks, rank));
        pixels.insert(pixels.begin(), batch.numbers("image").begin(), batch.numbers("image").end());
        labels.insert(labels.begin(), batch.integers("labels").begin(), batch.integers("labels").end());
      }
      EXPECT_EQ(pixels, whole.numbers("image"));
      EXPECT_EQ(labels, whole.integers("labels"));
    }
  }
}

TEST_F(Images, EpochsDifferAndEveryPlaceIsReached) {
  const Augmentation augment{2, true};
  std::set<std::tuple<std::int64_t, std::int64_t, bool>> seen;
  std::int64_t flips = 0, repeats = 0;
  for (std::int64_t epoch = 0; epoch < 20; ++epoch) {
    for (std::int64_t index = 0; index < 100; ++index) {
      const Crop crop = crop_of(augment, epoch, index), next = crop_of(augment, epoch + 1, index);
      seen.emplace(crop.down, crop.right, crop.flipped);
      flips += crop.flipped;
      repeats += crop.down == next.down && crop.right == next.right && crop.flipped == next.flipped;
      EXPECT_TRUE(crop.down >= 0 && crop.down <= 4 && crop.right >= 0 && crop.right <= 4);
    }
  }
  EXPECT_EQ(seen.size(), 50u);
  EXPECT_NEAR(static_cast<double>(flips), 1000, 100);  // 2000 throws: 4.5 deviations
  EXPECT_NEAR(static_cast<double>(repeats), 40, 30);   // one in 50
  const Datasets sets = open(kAugment);
  EXPECT_NE(single_sample(*sets.train, 0, 4).numbers("image"), single_sample(*sets.train, 1, 4).numbers("image"));
  EXPECT_EQ(single_sample(*sets.train, 1, 4).numbers("image"), single_sample(*sets.train, 1, 4).numbers("image"));
}

// Written the other way round: the image is put into the padded one, then cut, then mirrored.
TEST_F(Images, CropIsCutFromThePaddedImage) {
  const Datasets sets = open(R"(, "mean": [0.25], "augment": {"pad": 2, "flip": true})");
  const std::string pixels = pixels_of(30);
  for (std::int64_t epoch = 0; epoch < 4; ++epoch) {
    for (std::int64_t n = 0; n < 30; ++n) {
      const Crop crop = crop_of({2, true}, epoch, n);
      std::vector<int> padded(9 * 8, 0);
      for (std::size_t y = 0; y < kHeight; ++y)
        for (std::size_t x = 0; x < kWidth; ++x)
          padded[(y + 2) * 8 + x + 2] =
              static_cast<unsigned char>(pixels[static_cast<std::size_t>(n) * kPixels + y * kWidth + x]);
      std::vector<float> wanted(kPixels);
      for (std::size_t y = 0; y < kHeight; ++y)
        for (std::size_t x = 0; x < kWidth; ++x)
          wanted[y * kWidth + (crop.flipped ? kWidth - 1 - x : x)] = static_cast<float>(
              padded[(y + static_cast<std::size_t>(crop.down)) * 8 + x + static_cast<std::size_t>(crop.right)] / 255.0 -
              0.25);
      EXPECT_EQ(single_sample(*sets.train, epoch, n).numbers("image"), wanted);
    }
  }
}

TEST_F(Images, EvaluationIsUntouched) {
  const Datasets plain = open(), augmented = open(kAugment);
  const Batch all = evaluation_batch(*augmented.evaluate, 0, {0, 8});
  EXPECT_EQ(all.numbers("image"), evaluation_batch(*plain.evaluate, 0, {0, 8}).numbers("image"));
  EXPECT_EQ(all.padded_rows, 1);
  EXPECT_EQ(all.integers("labels")[7], -1);
  const std::string pixels = pixels_of(7, 100);
  for (std::size_t i = 0; i < pixels.size(); ++i)
    EXPECT_FLOAT_EQ(all.numbers("image")[i], static_cast<unsigned char>(pixels[i]) / 255.0F);
}

TEST_F(Images, EverySampleOnceForAnyRanks) {
  const Datasets sets = open(kAugment);
  for (std::int64_t ranks : {1, 2, 3, 7}) {
    const Json report = verify_coverage(sets, {3, 8, ranks, 3}, quiet);
    EXPECT_EQ(report.at("training_samples").integer(), 30);
    EXPECT_EQ(report.at("evaluation_labels").integer(), 7);
  }
  // The first pixel of an image without crops tells which one it is.
  const Datasets plain = open();
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    std::set<float> seen;
    for (std::int64_t step = epoch * 5; step < epoch * 5 + 5; ++step) {
      const Batch batch = training_batch(*plain.train, 9, step, 6, {0, 6});
      for (std::size_t row = 0; row < 6; ++row) seen.insert(batch.numbers("image")[row * kPixels]);
    }
    EXPECT_EQ(seen.size(), 30u);
  }
  expect_parts(message_of([&] { require_one_batch(*sets.train, 31); }), {"30 samples", "31 images"});
}

TEST_F(Images, ManifestIsHeld) {
  Json manifest = new_manifest("set");
  Json entry = Json::object();
  entry.set("file", "ti");
  entry.set("kind", "idx");
  entry.set("bytes", 616);
  entry.set("sha256", sha256_of(idx_images(30)));
  entry.set("shape", Json(Json::Array{30, 5, 4}));
  const auto put = [&](const Json& e) {
    set_manifest_entry(manifest, e);
    write("manifest.json", manifest.text());
  };
  put(entry);
  EXPECT_NO_THROW(verify_directory(root_ / "set", quiet));
  EXPECT_NO_THROW(open().train->scan());
  write("ti", idx_images(30, 1));
  expect_parts(message_of([&] { open().train->scan(); }), {"/set/ti has SHA-256"});
  write("ti", idx_images(29));
  expect_parts(message_of([&] { open(); }), {"/set/ti has 596 bytes", "its manifest says 616"});
  write("ti", idx_images(30));
  entry.set("shape", Json(Json::Array{30, 4, 5}));
  put(entry);
  expect_parts(message_of([&] { verify_directory(root_ / "set", quiet); }), {"/set/ti has other dimensions"});
}

}  // namespace
}  // namespace quadrille
