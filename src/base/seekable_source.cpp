#include "base/seekable_source.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

namespace foretrace {

namespace {

constexpr std::size_t kBlock = std::size_t{1} << 20;
constexpr std::size_t kMostInMemory = std::size_t{64} << 20;

// A stream laid down: the first part in memory, all of it in a file once it is larger than that.
class LaidDown final : public SeekableSource {
 public:
  LaidDown() = default;
  LaidDown(const LaidDown&) = delete;
  LaidDown& operator=(const LaidDown&) = delete;
  ~LaidDown() override {
    if (file_ != nullptr) std::fclose(file_);
  }

  [[nodiscard]] std::uint64_t size() const override { return size_; }
  Result<std::size_t> read_at(std::uint64_t offset, char* out, std::size_t n) override {
    if (offset >= size_) return 0;
    n = static_cast<std::size_t>(std::min<std::uint64_t>(n, size_ - offset));
    if (file_ == nullptr) {
      std::memcpy(out, bytes_.data() + offset, n);
      return n;
    }
    return read_descriptor(::fileno(file_), offset, out, n);
  }

  Status append(const char* bytes, std::size_t n) {
    if (file_ == nullptr && bytes_.size() + n > kMostInMemory) {
      file_ = std::tmpfile();
      if (file_ == nullptr) return no_room("cannot make a temporary file");
      if (std::fwrite(bytes_.data(), 1, bytes_.size(), file_) != bytes_.size()) return no_room("cannot write");
      bytes_ = {};
    }
    if (file_ == nullptr) {
      bytes_.append(bytes, n);
    } else if (std::fwrite(bytes, 1, n, file_) != n) {
      return no_room("cannot write");
    }
    size_ += n;
    return {};
  }
  Status finish() {
    if (file_ != nullptr && std::fflush(file_) != 0) return no_room("cannot write");
    return {};
  }

 private:
  static Status no_room(const char* what) {
    return fail(ErrorCode::kUnreadable, std::string(what) + " to lay down the inflated input: " + std::strerror(errno),
                "inflate the file yourself (gunzip, zstd -d) where there is room, and give that");
  }

  std::string bytes_;
  std::FILE* file_ = nullptr;
  std::uint64_t size_ = 0;
};

}  // namespace

Result<std::unique_ptr<SeekableSource>> make_seekable(ByteSource& source) {
  if (std::unique_ptr<SeekableSource> direct = source.in_place()) return direct;
  auto laid_down = std::make_unique<LaidDown>();
  std::vector<char> block(kBlock);
  while (true) {
    Result<std::size_t> got = source.read(block.data(), block.size());
    if (!got) {
      laid_down->damage = got.error();
      break;
    }
    if (*got == 0) break;
    FORETRACE_TRY_VOID(laid_down->append(block.data(), *got));
  }
  FORETRACE_TRY_VOID(laid_down->finish());
  return laid_down;
}

}  // namespace foretrace
