#include "output.hpp"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace foretrace::inject {
namespace {

int number_of(std::initializer_list<const char*> variables) {
  for (const char* variable : variables) {
    const char* text = std::getenv(variable);
    if (text == nullptr || *text == '\0') continue;
    char* end = nullptr;
    const long value = std::strtol(text, &end, 10);
    if (*end == '\0' && value >= 0 && value < 1'000'000) return static_cast<int>(value);
  }
  return -1;
}

/// The place of the suffix: "run.1/out.json.gz" -> behind "out".
std::size_t suffix_at(const std::string& path) {
  for (const char* suffix : {".json.gz", ".json"}) {
    if (path.ends_with(suffix)) return path.size() - std::strlen(suffix);
  }
  return path.size();
}

std::string with_part(const std::string& path, const std::string& part) {
  const std::size_t at = suffix_at(path);
  return path.substr(0, at) + "." + part + path.substr(at);
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + "\"";
}

bool add_line(const std::string& status, const std::string& line) {
  if (status.empty()) return false;
  const std::string path = status + "/" + std::to_string(getpid()) + ".cuda.jsonl";
  std::FILE* file = std::fopen(path.c_str(), "ae");
  if (file == nullptr) return false;
  std::fputs((line + "\n").c_str(), file);
  return std::fclose(file) == 0;
}

}  // namespace

int environment_rank() { return number_of({"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"}); }
int environment_world_size() { return number_of({"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"}); }

std::string rank_path(const std::string& path, int rank) {
  return rank < 0 ? path : with_part(path, "rank" + std::to_string(rank));
}

std::string own_path(const std::string& path, const std::string& status) {
  if (const int rank = environment_rank(); rank >= 0) return rank_path(path, rank);
  if (status.empty()) return path;
  const int claim = open((status + "/claim-cuda").c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  if (claim < 0 && errno == EEXIST) return with_part(path, "pid" + std::to_string(getpid()));
  if (claim >= 0) close(claim);
  return path;
}

bool write_whole(const std::string& path,
                 const std::function<bool(const std::function<bool(std::string_view)>&)>& fill) {
  const std::string unfinished = path + ".unfinished" + std::to_string(getpid());
  // "T": not compressed, through the same calls.
  const gzFile file = gzopen(unfinished.c_str(), path.ends_with(".gz") ? "wb6e" : "wbTe");
  if (file == nullptr) return false;
  const bool filled = fill([&](std::string_view text) {
    return gzwrite(file, text.data(), static_cast<unsigned>(text.size())) == static_cast<int>(text.size());
  });
  const bool closed = gzclose(file) == Z_OK;
  if (filled && closed && std::rename(unfinished.c_str(), path.c_str()) == 0) return true;
  unlink(unfinished.c_str());
  return false;
}

void tell_file(const std::string& status, const std::string& path) {
  const int rank = environment_rank();
  add_line(status, "{\"file\": " + quoted(path) +
                       ", \"steps\": 0, \"rank\": " + (rank < 0 ? "null" : std::to_string(rank)) + "}");
}

void tell(const std::string& status, const std::string& text, bool when_nothing_else) {
  const std::string key = when_nothing_else ? "{\"hint\": " : "{\"say\": ";
  if (!add_line(status, key + quoted(text) + "}")) std::fprintf(stderr, "foretrace: %s\n", text.c_str());
}

}  // namespace foretrace::inject
