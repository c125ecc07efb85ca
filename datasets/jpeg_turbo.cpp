// SPDX-License-Identifier: Apache-2.0
// See jpeg.h. The library answers what it cannot read by calling error_exit, which may not return: ours jumps back to
// where the library was called. Between the two lie frames of the library and functions here whose objects need no
// destructor; everything that does need one lives outside.
#include <csetjmp>
#include <cstddef>
#include <cstdio>  // jpeglib.h wants FILE

#include "datasets/jpeg.h"
// After them: these two bring no types of their own.
#include <jerror.h>
#include <jpeglib.h>

#include "core/error.h"

namespace quadrille {
namespace {

struct Errors {
  jpeg_error_mgr manager;  // first: the library knows this part alone
  std::jmp_buf back;
  char message[JMSG_LENGTH_MAX];
};

[[noreturn]] void leave(j_common_ptr codec) {
  auto* errors = reinterpret_cast<Errors*>(codec->err);
  errors->manager.format_message(codec, errors->message);
  std::longjmp(errors->back, 1);
}

// The library only warns where data are missing or make no sense, and paints such places grey. What is harmless: bytes
// too many between segments, odd versions and marks of other programs.
void warn(j_common_ptr codec, int level) {
  if (level >= 0) return;  // a trace
  switch (codec->err->msg_code) {
    case JWRN_EXTRANEOUS_DATA:
    case JWRN_TOO_MUCH_DATA:
    case JWRN_JFIF_MAJOR:
    case JWRN_ADOBE_XFORM:
      return;
    default:
      leave(codec);
  }
}

struct Codec : jpeg_decompress_struct {
  Codec() : jpeg_decompress_struct{} {}
  ~Codec() { jpeg_destroy_decompress(this); }  // also one that was never created
  Codec(const Codec&) = delete;
  Codec& operator=(const Codec&) = delete;
};

class Decoder {
 public:
  Decoder(std::string_view bytes, const std::string& name) : name_(name) {
    codec_.err = jpeg_std_error(&errors_.manager);
    errors_.manager.error_exit = leave;
    errors_.manager.emit_message = warn;
    guarded([&] {
      jpeg_create_decompress(&codec_);
      jpeg_mem_src(&codec_, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
      jpeg_read_header(&codec_, TRUE);
    });
  }

  ImageSize size() const { return {codec_.image_height, codec_.image_width}; }
  bool inks() const { return codec_.jpeg_color_space == JCS_CMYK || codec_.jpeg_color_space == JCS_YCCK; }
  // Adobe's programs write how much ink is missing.
  bool inverted() const { return codec_.saw_Adobe_marker; }
  ImageSize start(int reduction) {
    guarded([&] {
      codec_.out_color_space = inks() ? JCS_CMYK : JCS_RGB;
      codec_.scale_num = 1, codec_.scale_denom = static_cast<unsigned>(reduction);
      jpeg_start_decompress(&codec_);
    });
    return {codec_.output_height, codec_.output_width};
  }
  void next_row(unsigned char* row) {
    guarded([&] { jpeg_read_scanlines(&codec_, &row, 1); });
  }
  void finish() {
    guarded([&] { jpeg_finish_decompress(&codec_); });
  }

 private:
  // `call` may hold nothing that needs a destructor.
  template <class Call>
  void guarded(Call call) {
    if (setjmp(errors_.back) == 0)
      call();
    else
      refuse();
  }
  [[noreturn]] void refuse() const {
    fail("{} cannot be read as a JPEG file: {}. Fetch it again or convert it", name_,
         static_cast<const char*>(errors_.message));
  }

  const std::string& name_;
  Errors errors_{};
  Codec codec_;
};

// [width, 4] of ink to [width, 3] of light.
void to_light(const unsigned char* inks, std::int64_t width, bool inverted, unsigned char* light) {
  for (std::int64_t x = 0; x < width; ++x, inks += 4, light += 3) {
    const int black = inverted ? inks[3] : 255 - inks[3];
    for (int c = 0; c < 3; ++c)
      light[c] = static_cast<unsigned char>(((inverted ? inks[c] : 255 - inks[c]) * black + 127) / 255);
  }
}

}  // namespace

Pixels read_jpeg(std::string_view bytes, const std::string& name,
                 const std::function<int(const ImageSize&)>& reduction) {
  require(bytes.starts_with("\xff\xd8"), "{} is not a JPEG file: it begins with other bytes than FF D8. Convert it",
          name);
  Decoder decoder(bytes, name);
  const ImageSize whole = decoder.size();
  require(whole.height <= kMostPixels / whole.width, "{} has {} x {} pixels: at most {} are read", name, whole.height,
          whole.width, kMostPixels);
  Pixels pixels;
  pixels.size = decoder.start(reduction(whole));
  const auto height = static_cast<std::size_t>(pixels.size.height), width = static_cast<std::size_t>(pixels.size.width);
  pixels.bytes.resize(height * width * 3);
  std::vector<unsigned char> inks(decoder.inks() ? width * 4 : 0);
  for (std::size_t y = 0; y < height; ++y) {
    unsigned char* row = pixels.bytes.data() + y * width * 3;
    decoder.next_row(inks.empty() ? row : inks.data());
    if (!inks.empty()) to_light(inks.data(), pixels.size.width, decoder.inverted(), row);
  }
  decoder.finish();
  return pixels;
}

}  // namespace quadrille
