#include "cli/output.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace foretrace::cli {
namespace {

namespace fs = std::filesystem;

std::string reason(int error) { return std::generic_category().message(error); }

tl::unexpected<Error> cannot_write(const std::string& path, const std::string& why, std::string hint = {},
                                   ErrorCode code = ErrorCode::kUsage) {
  return tl::unexpected(
      Error{code, fmt::format("cannot write the output: {}", why), path, Error::kNoOffset, std::move(hint)});
}

// The path was valid and the error is not the user's: a full disk, a quota, a device that fails.
tl::unexpected<Error> cannot_write(const std::string& path, int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EIO:
      return cannot_write(path, reason(error), error == EIO ? "" : "make room, or write elsewhere with -o FILE",
                          ErrorCode::kOutput);
    default:
      return cannot_write(path, reason(error));
  }
}

/// 0, or the errno of the write that failed.
int write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0) {
      if (errno == EINTR) continue;
      return errno;
    }
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return 0;
}

Status write_special(const std::string& path, std::string_view text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return cannot_write(path, errno);
  const int error = write_all(fd, text);
  ::close(fd);
  if (error != 0 && error != EPIPE) return cannot_write(path, error);
  return {};
}

Status write_file(const std::string& path, std::string_view text) {
  std::error_code error;
  fs::path target(path);
  const fs::file_status status = fs::status(target, error);
  if (fs::is_directory(status)) {
    return cannot_write(path, "it is a folder",
                        fmt::format("give a file name, for example {}", (target / "out.json").string()));
  }
  if (fs::exists(status) && !fs::is_regular_file(status)) return write_special(path, text);
  // Through a link to the file it names: renaming over the link would replace it.
  if (fs::is_symlink(fs::symlink_status(target, error))) {
    const fs::path real = fs::weakly_canonical(target, error);
    if (!error) target = real;
  }
  const fs::path folder = target.has_parent_path() ? target.parent_path() : fs::path(".");
  if (!fs::is_directory(folder, error)) {
    return cannot_write(path, "its folder does not exist", fmt::format("mkdir -p {}", folder.string()));
  }
  const std::string temporary = (folder / fmt::format(".{}.{}.tmp", target.filename().string(), ::getpid())).string();
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (fd < 0) return cannot_write(path, errno);
  int failed = write_all(fd, text);
  if (::close(fd) != 0 && failed == 0) failed = errno;
  if (failed == 0 && ::rename(temporary.c_str(), target.c_str()) != 0) failed = errno;
  if (failed != 0) {
    ::unlink(temporary.c_str());
    return cannot_write(path, failed);
  }
  return {};
}

}  // namespace

Status write_output(const std::optional<std::string>& path, std::FILE* out, std::string_view text) {
  if (path && *path != "-") {
    if (path->empty()) return cannot_write(*path, "the file name is empty");
    return write_file(*path, text);
  }
  errno = 0;
  const bool written = std::fwrite(text.data(), 1, text.size(), out) == text.size() && std::fflush(out) == 0;
  if (!written && errno != EPIPE) return cannot_write("standard output", errno);
  return {};
}

}  // namespace foretrace::cli
