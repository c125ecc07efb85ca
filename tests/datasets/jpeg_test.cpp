// SPDX-License-Identifier: Apache-2.0
// JPEG files in folders: what is listed, which part of an image is taken, what comes out of it, and that broken files
// are refused by name.
#include <cmath>
#include <map>
#include <set>
#include <thread>

#include "core/random.h"
#include "datasets/jpeg_folders.h"
#include "tests/datasets/helpers.h"
#include "tests/datasets/jpeg_writer.h"

namespace quadrille {
namespace {

// Planes: what a triangle of any width leaves as it is, away from the image's edges.
double plane(int colour, double y, double x) { return 60 + 40 * colour + 0.5 * y + 0.25 * (colour - 1) * x; }
void paint_plane(std::int64_t y, std::int64_t x, unsigned char* pixel) {
  for (int c = 0; c < 3; ++c)
    pixel[c] = static_cast<unsigned char>(
        std::lround(std::min(255.0, plane(c, static_cast<double>(y) + 0.5, static_cast<double>(x) + 0.5))));
}
void paint_red(std::int64_t, std::int64_t, unsigned char* pixel) { pixel[0] = 200, pixel[1] = 30, pixel[2] = 40; }

Pixels decoded(const std::string& bytes, int reduction = 1) {
  return read_jpeg(bytes, "x.jpg", [&](const ImageSize&) { return reduction; });
}

class JpegFolders : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* set : {"train", "val"})
      for (const char* name : {"fish", "bird", "cat"})
        for (int n = 0; n < (set[0] == 't' ? 4 : 2); ++n)
          write(fmt::format("set/{}/{}/{}.{}", set, name, 9 - n, n % 2 ? "JPEG" : "jpg"), jpeg_of(48, 64, paint_plane));
  }
  void write(const std::string& name, std::string_view bytes) {
    std::filesystem::create_directories(std::filesystem::path(root_ / name).parent_path());
    root_.write(name, bytes);
  }
  Datasets open(const std::string& more = "", int classes = 3) {
    return open_datasets(parse_json(fmt::format(R"({{"source": "jpeg_folders", "directory": "set", "train": "train",
                                                     "evaluate": "val", "size": 16, "classes": {}{}}})",
                                                classes, more),
                                    "test"),
                         0, root_.path());
  }
  Folder root_;
};

TEST_F(JpegFolders, ClassesAndFilesAreInOrder) {
  write("set/train/cat/.hidden", "no image");
  const Datasets sets = open();
  EXPECT_EQ(text_of(sets.train->fields()), "image [16, 16, 3] f32, labels [1] i32");
  EXPECT_EQ(sets.train->size(), 12);
  EXPECT_EQ(sets.evaluate->size(), 6);
  EXPECT_EQ(sets.train->vocabulary(), 3);
  EXPECT_EQ(sets.train->unit(), "image");
  const ImageList list(root_ / "set/train");
  EXPECT_EQ(list.classes(), (std::vector<std::string>{"bird", "cat", "fish"}));
  EXPECT_EQ(list.path(0), root_ / "set/train/bird/6.JPEG");
  EXPECT_EQ(list.path(7), root_ / "set/train/cat/9.jpg");
  for (std::int64_t n = 0; n < 12; ++n) {
    EXPECT_EQ(list.class_of(n), n / 4);
    EXPECT_EQ(single_sample(*sets.train, 1, n).integers("labels")[0], n / 4);
  }
  std::filesystem::rename(root_ / "set/train/cat/9.jpg", root_ / "set/train/cat/99.jpg");
  EXPECT_NE(ImageList(root_ / "set/train").digest(), list.digest());
}

TEST_F(JpegFolders, EvaluationSeesTheSquareInTheMiddle) {
  const Datasets sets = open(R"(, "mean": [0.5, 0.25, 0], "deviation": [0.5, 0.25, 2])");
  const Batch batch = single_sample(*sets.evaluate, 0, 3);
  const double side = 48.0 * 224 / 256, top = (48 - side) / 2, left = (64 - side) / 2;
  const double mean[] = {0.5, 0.25, 0}, deviation[] = {0.5, 0.25, 2};
  for (int y = 0; y < 16; ++y)
    for (int x = 0; x < 16; ++x)
      for (int c = 0; c < 3; ++c) {
        const double wanted = plane(c, top + (y + 0.5) * side / 16, left + (x + 0.5) * side / 16);
        const double found = batch.numbers("image")[static_cast<std::size_t>((y * 16 + x) * 3 + c)];
        EXPECT_NEAR((found * deviation[c] + mean[c]) * 255, wanted, 2.5) << y << " " << x << " " << c;
      }
  EXPECT_EQ(batch.numbers("image"), single_sample(*sets.evaluate, 5, 3).numbers("image"));
}

// The plane tells where each corner of a training image came from.
TEST_F(JpegFolders, TrainingTakesTheDrawnPart) {
  const Datasets sets = open();
  int mirrored = 0;
  for (std::int64_t epoch = 0; epoch < 20; ++epoch)
    for (std::int64_t n = 0; n < 12; ++n) {
      const auto [part, flipped] = random_part({}, {48, 64}, epoch, n);
      mirrored += flipped;
      const Batch batch = single_sample(*sets.train, epoch, n);
      EXPECT_EQ(batch.numbers("image"), single_sample(*sets.train, epoch, n).numbers("image"));
      for (const int y : {1, 14})
        for (const int x : {1, 14}) {
          const double from = flipped ? 15 - x : x;
          const double wanted =
              plane(2, part.top + (y + 0.5) * part.height / 16, part.left + (from + 0.5) * part.width / 16);
          EXPECT_NEAR(batch.numbers("image")[static_cast<std::size_t>((y * 16 + x) * 3 + 2)] * 255, wanted, 3);
        }
    }
  EXPECT_GT(mirrored, 90);
  EXPECT_LT(mirrored, 150);
  const Datasets plain = open(R"(, "augment": {"crop": false, "flip": false})");
  EXPECT_EQ(single_sample(*plain.train, 3, 0).numbers("image"), single_sample(*plain.evaluate, 0, 0).numbers("image"));
}

TEST(RandomPart, HasTheBoundsThatItIsDrawnFrom) {
  const ImageSize whole{375, 500};
  double least = 1, most = 0, narrow = 2, wide = 0, sum = 0;
  std::set<double> tops;
  constexpr int kCount = 4000;
  for (int n = 0; n < kCount; ++n) {
    const Part p = random_part({}, whole, n % 3, n).part;
    const double share = p.height * p.width / (375.0 * 500), ratio = p.width / p.height;
    least = std::min(least, share), most = std::max(most, share), sum += share;
    narrow = std::min(narrow, ratio), wide = std::max(wide, ratio);
    tops.insert(p.top);
    EXPECT_GE(p.top, 0);
    EXPECT_GE(p.left, 0);
    EXPECT_LE(p.top + p.height, 375);
    EXPECT_LE(p.left + p.width, 500);
  }
  EXPECT_NEAR(least, 0.08, 0.005);
  EXPECT_GT(most, 0.97);
  // A part of ratio r fits if its share is at most m = r·375/500, so the mean share is E[m² - 0.08²] / 2E[m - 0.08].
  EXPECT_NEAR(sum / kCount, 0.432, 0.015);
  EXPECT_NEAR(narrow, 0.75, 0.02);
  EXPECT_NEAR(wide, 4.0 / 3, 0.02);
  EXPECT_GT(tops.size(), 200U);
  // Nothing of this kind fits into a strip: its middle then.
  const Part strip = random_part({true, true, 0.9}, {10, 1000}, 0, 0).part;
  EXPECT_EQ(strip.height, 10);
  EXPECT_EQ(strip.width, 13);
  EXPECT_EQ(strip.left, 493);
}

TEST(RandomPart, DependsOnEpochAndImage) {
  const auto of = [](std::int64_t epoch, std::int64_t index) {
    const Part p = random_part({}, {375, 500}, epoch, index).part;
    return std::array{p.top, p.left, p.height, p.width};
  };
  EXPECT_EQ(of(1, 2), of(1, 2));
  EXPECT_NE(of(1, 2), of(2, 2));
  EXPECT_NE(of(1, 2), of(1, 3));
}

// By the definition: every new pixel is the mean of all old ones under a triangle.
TEST(Resample, IsTheTriangleOfTheDefinition) {
  const Key key = key_of(3, "pixels");
  Pixels image{{13, 17}, std::vector<unsigned char>(13 * 17 * 3)};
  for (std::size_t i = 0; i < image.bytes.size(); ++i) image.bytes[i] = static_cast<unsigned char>(bits_at(key, i));
  const auto weight = [](double begin, double extent, int size, int i, int k) {
    const double distance = extent / size, reach = std::max(1.0, distance);
    return std::max(0.0, 1 - std::abs(k + 0.5 - (begin + (i + 0.5) * distance)) / reach);
  };
  for (const Part part : {Part{0, 0, 13, 17}, Part{1.5, 2.25, 9, 11.5}, Part{3, 4, 2, 2}, Part{12.2, 16.1, 0.5, 0.9}})
    for (const bool mirrored : {false, true}) {
      constexpr int kHeight = 5, kWidth = 7;
      std::vector<float> out(kHeight * kWidth * 3);
      resample(image, part, {kHeight, kWidth}, mirrored, out);
      for (int y = 0; y < kHeight; ++y)
        for (int x = 0; x < kWidth; ++x)
          for (int c = 0; c < 3; ++c) {
            double sum = 0, weights = 0;
            for (int v = 0; v < 13; ++v)
              for (int u = 0; u < 17; ++u) {
                const double w = weight(part.top, part.height, kHeight, y, v) *
                                 weight(part.left, part.width, kWidth, mirrored ? kWidth - 1 - x : x, u);
                sum += w * image.bytes[static_cast<std::size_t>((v * 17 + u) * 3 + c)], weights += w;
              }
            EXPECT_NEAR(out[static_cast<std::size_t>((y * kWidth + x) * 3 + c)], sum / weights, 1e-3);
          }
    }
}

TEST(Jpeg, ReductionLeavesEnough) {
  EXPECT_EQ(reduction_for({0, 0, 223, 500}, 224), 1);
  EXPECT_EQ(reduction_for({0, 0, 447, 500}, 224), 1);
  EXPECT_EQ(reduction_for({0, 0, 448, 500}, 224), 2);
  EXPECT_EQ(reduction_for({0, 0, 1000, 1000}, 224), 4);
  EXPECT_EQ(reduction_for({0, 0, 4000, 4000}, 224), 8);
  const std::string bytes = jpeg_of(150, 203, paint_plane);
  for (const int reduction : {1, 2, 4, 8}) {
    const Pixels pixels = decoded(bytes, reduction);
    ASSERT_EQ(pixels.size.height, (150 + reduction - 1) / reduction);
    ASSERT_EQ(pixels.size.width, (203 + reduction - 1) / reduction);
    for (const std::int64_t y : {std::int64_t{2}, pixels.size.height - 3})
      for (const std::int64_t x : {std::int64_t{2}, pixels.size.width - 3})
        EXPECT_NEAR(pixels.bytes[static_cast<std::size_t>((y * pixels.size.width + x) * 3 + 1)],
                    plane(1, (static_cast<double>(y) + 0.5) * reduction, (static_cast<double>(x) + 0.5) * reduction),
                    3);
  }
}

TEST(Jpeg, GreyInksAndProgressiveFilesAreColours) {
  const auto first = [](const std::string& bytes) {
    const Pixels pixels = decoded(bytes);
    return std::array<int, 3>{pixels.bytes[0], pixels.bytes[1], pixels.bytes[2]};
  };
  const auto near = [&](const std::string& bytes, std::array<int, 3> wanted) {
    const auto found = first(bytes);
    for (std::size_t c = 0; c < 3; ++c) EXPECT_NEAR(found[c], wanted[c], 3);
  };
  near(jpeg_of(9, 9, paint_red), {200, 30, 40});
  near(jpeg_of(9, 9, paint_red, JpegKind::progressive), {200, 30, 40});
  near(jpeg_of(
           9, 9, [](auto, auto, unsigned char* p) { p[0] = 77; }, JpegKind::grey),
       {77, 77, 77});
  // The library marks such files as Adobe's: they tell how much ink is missing.
  const std::string inks = jpeg_of(
      9, 9, [](auto, auto, unsigned char* p) { p[0] = 200, p[1] = 60, p[2] = 80, p[3] = 128; }, JpegKind::inks);
  near(inks, {100, 30, 40});
  std::string bare = inks;
  const std::size_t mark = bare.find("Adobe");
  ASSERT_NE(mark, std::string::npos);
  bare[mark] = 'a';
  near(bare, {(255 - 200) * 127 / 255, (255 - 60) * 127 / 255, (255 - 80) * 127 / 255});
}

TEST_F(JpegFolders, BrokenFilesAreRefusedByName) {
  const std::string good = jpeg_of(48, 64, paint_plane);
  const Datasets sets = open();
  const auto refused = [&](std::string_view bytes) {
    write("set/train/bird/6.JPEG", bytes);
    return message_of([&] { single_sample(*sets.train, 0, 0); });
  };
  for (const double share : {0.1, 0.3, 0.5, 0.7, 0.9, 0.99})
    expect_parts(refused(good.substr(0, static_cast<std::size_t>(share * static_cast<double>(good.size())))),
                 {"bird/6.JPEG", "cannot be read as a JPEG file"});
  expect_parts(refused(good.substr(0, good.size() - 2)), {"bird/6.JPEG", "remature end"});
  std::string damaged = good;
  for (std::size_t i = damaged.size() * 3 / 4; i < damaged.size() - 10; ++i) damaged[i] = static_cast<char>(0xff);
  expect_parts(refused(damaged), {"bird/6.JPEG", "orrupt"});
  expect_parts(refused("\x89PNG\r\n\x1a\n and so on"), {"bird/6.JPEG", "not a JPEG file", "onvert"});
  expect_parts(refused(""), {"bird/6.JPEG"});
  expect_parts(refused("\xff\xd8"), {"bird/6.JPEG"});
  std::string huge = good;
  const std::size_t frame = huge.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  for (const std::size_t i : {5, 6, 7, 8}) huge[frame + i] = static_cast<char>(0xf0);
  expect_parts(refused(huge), {"bird/6.JPEG", "61680 x 61680 pixels", "at most 67108864"});
  std::filesystem::remove(root_ / "set/train/bird/6.JPEG");
  expect_parts(message_of([&] { single_sample(*sets.train, 0, 0); }), {"cannot open", "bird/6.JPEG"});
  // Whatever byte is wrong: an image or a refusal.
  const Key key = key_of(1, "damage");
  for (std::uint64_t n = 0; n < 2000; ++n) {
    std::string bytes = good;
    for (std::uint64_t k = 0; k < 1 + n % 3; ++k)
      bytes[bits_at(key, 8 * n + k) % bytes.size()] = static_cast<char>(bits_at(key, 8 * n + 4 + k));
    try {
      decoded(bytes, 1 << n % 4);
    } catch (const Error&) {}
  }
}

// Bytes between segments do no harm: cameras write them.
TEST(Jpeg, ExtraBytesAreNoDamage) {
  std::string bytes = jpeg_of(16, 16, paint_red);
  bytes.insert(bytes.size() - 2, "\x12\x34\x56");
  EXPECT_NEAR(decoded(bytes).bytes[0], 200, 3);
  EXPECT_NEAR(decoded(bytes + "trailing").bytes[0], 200, 3);
}

TEST_F(JpegFolders, ThreadsReadTheSame) {
  const Datasets sets = open();
  std::map<std::int64_t, std::vector<float>> wanted;
  for (std::int64_t n = 0; n < 12; ++n) wanted[n] = single_sample(*sets.train, 2, n).numbers("image");
  std::vector<std::thread> threads;
  for (std::int64_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (std::int64_t n = 0; n < 12; ++n)
        EXPECT_EQ(single_sample(*sets.train, 2, (n + 3 * t) % 12).numbers("image"), wanted.at((n + 3 * t) % 12));
    });
  for (std::thread& thread : threads) thread.join();
}

TEST_F(JpegFolders, RefusesFoldersThatAreNoSet) {
  const auto refused = [&](const std::string& more = "", int classes = 3) {
    return message_of([&] { open(more, classes); });
  };
  expect_parts(refused("", 4), {"data.classes", "is 4", "3 folders"});
  expect_parts(refused(R"(, "sze": 3)"), {"sze", "size"});
  expect_parts(refused(R"(, "augment": {"least_area": 0})"), {"data.augment.least_area", "above 0"});
  expect_parts(refused(R"(, "mean": [1])"), {"data.mean", "3, one for each channel"});
  write("set/val/bird/note.txt", "x");
  expect_parts(refused(), {"val/bird/note.txt", ".jpg"});
  std::filesystem::remove(root_ / "set/val/bird/note.txt");
  write("set/val/readme", "x");
  expect_parts(refused(), {"val/readme", "folder for each class"});
  std::filesystem::remove(root_ / "set/val/readme");
  std::filesystem::create_directory(root_ / "set/val/dog");
  expect_parts(refused(), {"val/dog", "empty"});
  write("set/val/dog/1.jpg", "x");
  expect_parts(refused(), {"other classes", "fish there, dog here"});
  std::filesystem::remove_all(root_ / "set/val");
  expect_parts(refused(), {"set/val", "no folder"});
}

}  // namespace
}  // namespace quadrille
