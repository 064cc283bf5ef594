#include "base/inflate.hpp"

#include <isa-l/igzip_lib.h>
#include <zstd.h>

#include <algorithm>
#include <vector>

namespace foretrace {

namespace {

constexpr std::size_t kInputBytes = 256 * 1024;

tl::unexpected<Error> cut_off(const char* what) {
  return fail(ErrorCode::kUnreadable, std::string("the ") + what + " data ends in the middle: the file is truncated",
              "the writer was probably interrupted; --partial reads what came before the cut");
}

// Shared by both formats: a buffer of compressed input, refilled from below.
class InflatingSource : public ByteSource {
 public:
  explicit InflatingSource(std::unique_ptr<ByteSource> compressed)
      : compressed_(std::move(compressed)), input_(kInputBytes) {}
  [[nodiscard]] std::uint64_t consumed() const override { return compressed_->consumed(); }
  [[nodiscard]] std::uint64_t total() const override { return compressed_->total(); }

 protected:
  Result<std::size_t> refill() { return compressed_->read(input_.data(), input_.size()); }
  std::unique_ptr<ByteSource> compressed_;
  std::vector<char> input_;
};

class GzipSource final : public InflatingSource {
 public:
  explicit GzipSource(std::unique_ptr<ByteSource> compressed) : InflatingSource(std::move(compressed)) {
    start_member();
  }

  bool rewind() override {
    if (!compressed_->rewind()) return false;
    done_ = false;
    pending_ = false;
    damage_ = ISAL_DECOMP_OK;
    state_.avail_in = 0;
    start_member();
    return true;
  }

  Result<std::size_t> read(char* out, std::size_t n) override {
    std::size_t got = 0;
    while (got < n && !done_ && damage_ == ISAL_DECOMP_OK) {
      if (state_.avail_in == 0 && !pending_) {
        FORETRACE_TRY(const std::size_t more, refill());
        if (more == 0) {
          if (between_members_) {
            done_ = true;
            break;
          }
          if (got > 0) return got;
          return cut_off("gzip");
        }
        state_.next_in = reinterpret_cast<std::uint8_t*>(input_.data());
        state_.avail_in = static_cast<std::uint32_t>(more);
      }
      if (between_members_) {
        pending_ = false;
        if (!next_member()) continue;
      }
      state_.next_out = reinterpret_cast<std::uint8_t*>(out + got);
      state_.avail_out = static_cast<std::uint32_t>(std::min<std::size_t>(n - got, 1u << 30));
      const std::uint32_t before = state_.avail_out;
      const int status = isal_inflate(&state_);
      got += before - state_.avail_out;
      // A full output buffer may hide inflated bytes that need no further input.
      pending_ = state_.avail_out == 0;
      if (status != ISAL_DECOMP_OK && status != ISAL_END_INPUT && status != ISAL_OUT_OVERFLOW) {
        damage_ = status;
        break;
      }
      if (state_.block_state == ISAL_BLOCK_FINISH) between_members_ = true;
    }
    // What came before the damage goes out first; the error comes with the next call.
    if (got == 0 && damage_ != ISAL_DECOMP_OK) {
      return fail(ErrorCode::kUnreadable, "the gzip data is damaged (" + reason(damage_) + ")",
                  "copy the file again, or read what came before the damage with --partial");
    }
    return got;
  }

 private:
  void start_member() {
    std::uint8_t* next_in = state_.next_in;
    const std::uint32_t avail_in = state_.avail_in;
    isal_inflate_init(&state_);
    state_.crc_flag = ISAL_GZIP;
    state_.next_in = next_in;
    state_.avail_in = avail_in;
    between_members_ = false;
  }
  // After a member: the next one, padding (skipped), or foreign bytes (ignored to the end, as gzip does).
  bool next_member() {
    while (state_.avail_in > 0 && *state_.next_in == 0) {
      ++state_.next_in;
      --state_.avail_in;
    }
    if (state_.avail_in == 0) return false;
    if (*state_.next_in != 0x1f) {
      done_ = true;
      return false;
    }
    start_member();
    return true;
  }
  static std::string reason(int status) {
    switch (status) {
      case ISAL_INVALID_BLOCK:
        return "invalid block";
      case ISAL_INVALID_SYMBOL:
        return "invalid symbol";
      case ISAL_INVALID_LOOKBACK:
        return "invalid reference";
      case ISAL_INVALID_WRAPPER:
        return "invalid header";
      case ISAL_UNSUPPORTED_METHOD:
        return "unknown method";
      case ISAL_INCORRECT_CHECKSUM:
        return "wrong checksum";
      default:
        return "code " + std::to_string(status);
    }
  }

  inflate_state state_{};
  int damage_ = ISAL_DECOMP_OK;
  bool between_members_ = false;
  bool pending_ = false;
  bool done_ = false;
};

class ZstdSource final : public InflatingSource {
 public:
  explicit ZstdSource(std::unique_ptr<ByteSource> compressed)
      : InflatingSource(std::move(compressed)), stream_(ZSTD_createDStream()) {}
  ZstdSource(const ZstdSource&) = delete;
  ZstdSource& operator=(const ZstdSource&) = delete;
  ~ZstdSource() override { ZSTD_freeDStream(stream_); }

  bool rewind() override {
    if (!compressed_->rewind()) return false;
    ZSTD_initDStream(stream_);
    in_ = {nullptr, 0, 0};
    frame_open_ = false;
    return true;
  }

  Result<std::size_t> read(char* out, std::size_t n) override {
    ZSTD_outBuffer target{out, n, 0};
    while (target.pos < n) {
      if (in_.pos == in_.size && !pending_) {
        FORETRACE_TRY(const std::size_t more, refill());
        if (more == 0) {
          if (frame_open_ && target.pos == 0) return cut_off("zstd");
          break;
        }
        in_ = {input_.data(), more, 0};
      }
      const std::size_t before = target.pos;
      const std::size_t left = ZSTD_decompressStream(stream_, &target, &in_);
      if (ZSTD_isError(left) != 0) {
        if (target.pos > 0) break;
        return fail(ErrorCode::kUnreadable, std::string("the zstd data is damaged (") + ZSTD_getErrorName(left) + ")",
                    "copy the file again, or read what came before the damage with --partial");
      }
      frame_open_ = left != 0;
      // A full output buffer may hide decoded bytes that need no further input.
      pending_ = target.pos == target.size && target.pos != before;
    }
    return target.pos;
  }

 private:
  ZSTD_DStream* stream_;
  ZSTD_inBuffer in_{nullptr, 0, 0};
  bool frame_open_ = false;
  bool pending_ = false;
};

}  // namespace

Result<std::unique_ptr<ByteSource>> inflate_gzip(std::unique_ptr<ByteSource> compressed) {
  return std::make_unique<GzipSource>(std::move(compressed));
}

Result<std::unique_ptr<ByteSource>> inflate_zstd(std::unique_ptr<ByteSource> compressed) {
  return std::make_unique<ZstdSource>(std::move(compressed));
}

}  // namespace foretrace
