#pragma once
// Where the trace goes: a file that is complete or absent, and word to the `foretrace record` that waits for it.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace foretrace::inject {

/// The environment's rank, as launchers set it; -1 where there is none.
int environment_rank();
int environment_world_size();

/// "out.json.gz" -> "out.rank3.json.gz"; the path itself for rank -1.
std::string rank_path(const std::string& path, int rank);

/// The path for this process: the rank's; without ranks the path itself for the first process that asks, "out.pid77.json.gz" for
/// another. `status`: the folder of `foretrace record`, in which processes find each other; empty: none.
std::string own_path(const std::string& path, const std::string& status);

/// Calls `fill` with a sink and puts the file in its place when it was filled; otherwise nothing is left. Compressed when the name
/// ends in .gz. False when it could not be written.
bool write_whole(const std::string& path,
                 const std::function<bool(const std::function<bool(std::string_view)>&)>& fill);

/// A line for `foretrace record`: a file that was written, or something to say. To standard error when nobody waits.
/// `when_nothing_else`: only where nothing was recorded at all: one of several processes may have touched CUDA without using it.
void tell_file(const std::string& status, const std::string& path);
void tell(const std::string& status, const std::string& text, bool when_nothing_else = false);

}  // namespace foretrace::inject
