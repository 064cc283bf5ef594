#include "base/byte_source.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/inflate.hpp"
#include "base/missing_file.hpp"
#include "base/seekable_source.hpp"

namespace foretrace {

std::unique_ptr<SeekableSource> ByteSource::in_place() { return nullptr; }

Result<std::size_t> read_descriptor(int fd, std::uint64_t offset, char* out, std::size_t n) {
  std::size_t got = 0;
  while (got < n) {
    const ssize_t r = ::pread(fd, out + got, n - got, static_cast<off_t>(offset + got));
    if (r < 0 && errno == EINTR) continue;
    if (r < 0) return fail(ErrorCode::kUnreadable, std::string("cannot read: ") + std::strerror(errno));
    if (r == 0) break;
    got += static_cast<std::size_t>(r);
  }
  return got;
}

namespace {

class FileInPlace final : public SeekableSource {
 public:
  FileInPlace(int fd, std::uint64_t size) : fd_(fd), size_(size) {}
  [[nodiscard]] std::uint64_t size() const override { return size_; }
  Result<std::size_t> read_at(std::uint64_t offset, char* out, std::size_t n) override {
    return read_descriptor(fd_, offset, out, n);
  }

 private:
  int fd_;
  std::uint64_t size_;
};

class MemoryInPlace final : public SeekableSource {
 public:
  explicit MemoryInPlace(std::string_view bytes) : bytes_(bytes) {}
  [[nodiscard]] std::uint64_t size() const override { return bytes_.size(); }
  Result<std::size_t> read_at(std::uint64_t offset, char* out, std::size_t n) override {
    if (offset >= bytes_.size()) return 0;
    n = std::min(n, bytes_.size() - static_cast<std::size_t>(offset));
    std::memcpy(out, bytes_.data() + offset, n);
    return n;
  }

 private:
  std::string_view bytes_;
};

// Plain bytes of a file descriptor. read() rather than mmap: no SIGBUS when a file shrinks while it is read, and the
// input never counts as memory of ours.
class FileSource final : public ByteSource {
 public:
  FileSource(int fd, bool owned, std::uint64_t total, bool seekable)
      : fd_(fd), owned_(owned), seekable_(seekable), total_(total) {}
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;
  ~FileSource() override {
    if (owned_) ::close(fd_);
  }

  Result<std::size_t> read(char* out, std::size_t n) override {
    std::size_t got = 0;
    while (got < n) {
      const ssize_t r = ::read(fd_, out + got, n - got);
      if (r < 0 && errno == EINTR) continue;
      if (r < 0) {
        if (got > 0) break;
        return fail(ErrorCode::kUnreadable, std::string("cannot read: ") + std::strerror(errno));
      }
      if (r == 0) break;
      got += static_cast<std::size_t>(r);
    }
    consumed_ += got;
    return got;
  }
  [[nodiscard]] std::uint64_t consumed() const override { return consumed_; }
  [[nodiscard]] std::uint64_t total() const override { return total_; }
  bool rewind() override {
    if (!seekable_ || ::lseek(fd_, 0, SEEK_SET) != 0) return false;
    consumed_ = 0;
    return true;
  }
  std::unique_ptr<SeekableSource> in_place() override {
    return seekable_ ? std::make_unique<FileInPlace>(fd_, total_) : nullptr;
  }

 private:
  int fd_;
  bool owned_;
  bool seekable_;
  std::uint64_t total_;
  std::uint64_t consumed_ = 0;
};

class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(std::string_view bytes) : bytes_(bytes) {}
  Result<std::size_t> read(char* out, std::size_t n) override {
    n = std::min(n, bytes_.size() - at_);
    if (n > 0) std::memcpy(out, bytes_.data() + at_, n);
    at_ += n;
    return n;
  }
  [[nodiscard]] std::uint64_t consumed() const override { return at_; }
  [[nodiscard]] std::uint64_t total() const override { return bytes_.size(); }
  bool rewind() override {
    at_ = 0;
    return true;
  }
  std::unique_ptr<SeekableSource> in_place() override { return std::make_unique<MemoryInPlace>(bytes_); }

 private:
  std::string_view bytes_;
  std::size_t at_ = 0;
};

// The first bytes were read to recognise the compression; this gives them back.
class PrefixedSource final : public ByteSource {
 public:
  PrefixedSource(std::string prefix, std::unique_ptr<ByteSource> rest)
      : prefix_(std::move(prefix)), rest_(std::move(rest)) {}
  Result<std::size_t> read(char* out, std::size_t n) override {
    const std::size_t from_prefix = std::min(n, prefix_.size() - at_);
    std::memcpy(out, prefix_.data() + at_, from_prefix);
    at_ += from_prefix;
    if (from_prefix == n) return n;
    FORETRACE_TRY(const std::size_t got, rest_->read(out + from_prefix, n - from_prefix));
    return from_prefix + got;
  }
  [[nodiscard]] std::uint64_t consumed() const override { return rest_->consumed(); }
  [[nodiscard]] std::uint64_t total() const override { return rest_->total(); }
  bool rewind() override {
    if (!rest_->rewind()) return false;
    prefix_.clear();
    at_ = 0;
    return true;
  }

 private:
  std::string prefix_;
  std::unique_ptr<ByteSource> rest_;
  std::size_t at_ = 0;
};

Result<std::unique_ptr<ByteSource>> recognise(std::unique_ptr<ByteSource> raw) {
  Result<std::string> head = peek(raw, 4);
  if (!head) return forward(head);
  if (head->starts_with("\x1f\x8b")) return inflate_gzip(std::move(raw));
  if (head->starts_with("\x28\xb5\x2f\xfd")) return inflate_zstd(std::move(raw));
  return raw;
}

}  // namespace

Result<std::string> peek(std::unique_ptr<ByteSource>& source, std::size_t n) {
  std::string head(n, '\0');
  FORETRACE_TRY(const std::size_t got, source->read(head.data(), n));
  head.resize(got);
  if (!source->rewind()) source = std::make_unique<PrefixedSource>(head, std::move(source));
  return head;
}

Result<std::unique_ptr<ByteSource>> open_source(const std::string& path) {
  if (path == "-") return recognise(std::make_unique<FileSource>(STDIN_FILENO, false, 0, false));
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    const int reason = errno;
    if (reason == ENOENT || reason == ENOTDIR) return tl::unexpected(missing_file(path));
    Error error{
        ErrorCode::kUnreadable, std::string("cannot open: ") + std::strerror(reason), path, Error::kNoOffset, {}};
    if (reason == EACCES) error.hint = "the file exists but may not be read by you; check its permissions";
    return tl::unexpected(std::move(error));
  }
  struct stat info{};
  const bool known = ::fstat(fd, &info) == 0;
  if (known && S_ISDIR(info.st_mode)) {
    ::close(fd);
    return tl::unexpected(Error{ErrorCode::kUnreadable, "is a folder, not a file", path, Error::kNoOffset,
                                "verbs that take several ranks accept a folder; this one needs one trace file"});
  }
  const bool regular = known && S_ISREG(info.st_mode);
  auto opened = recognise(
      std::make_unique<FileSource>(fd, true, regular ? static_cast<std::uint64_t>(info.st_size) : 0, regular));
  if (!opened) opened.error().file = path;
  return opened;
}

Result<std::string> read_file(const std::string& path, std::size_t most) {
  FORETRACE_TRY(const std::unique_ptr<ByteSource> source, open_source(path));
  std::string text;
  constexpr std::size_t kPart = 1u << 16;
  for (std::size_t got = kPart; got > 0;) {  // a short read may also be the last one before damage
    const std::size_t at = text.size();
    text.resize(at + kPart);
    Result<std::size_t> part = source->read(text.data() + at, kPart);
    if (!part) {
      part.error().file = path;
      return forward(part);
    }
    got = *part;
    text.resize(at + got);
    if (text.size() > most) {
      return tl::unexpected(Error{ErrorCode::kUnreadable, "is larger than any file of its kind", path, Error::kNoOffset,
                                  "was another file meant?"});
    }
  }
  return text;
}

Result<std::unique_ptr<ByteSource>> memory_source(std::string_view bytes) {
  return recognise(std::make_unique<MemorySource>(bytes));
}

}  // namespace foretrace
