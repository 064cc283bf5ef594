#pragma once
// A trace as bytes and back, for processes of one version that read for each other (a cluster's workers). Not a file format:
// it changes with the columns.
//
//   std::string bytes = pack(trace);
//   Result<Trace> same = unpack(bytes);      // equal in every column and id

#include <string>
#include <string_view>

#include "foretrace/base/result.hpp"
#include "foretrace/trace/trace.hpp"

namespace foretrace::trace {

std::string pack(const Trace& trace);
/// Refused when the bytes are not what `pack` of this version wrote: they carry its mark and a sum over themselves.
Result<Trace> unpack(std::string_view bytes);

}  // namespace foretrace::trace
