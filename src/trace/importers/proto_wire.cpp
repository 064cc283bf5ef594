#include "trace/importers/proto_wire.hpp"

#include <algorithm>

namespace foretrace::trace {

std::string_view ProtoFile::view(std::uint64_t at, std::size_t n) {
  constexpr std::size_t kWindow = std::size_t{1} << 20;
  if (at >= size()) return {};
  n = static_cast<std::size_t>(std::min<std::uint64_t>(n, size() - at));
  if (at < begin_ || at + n > begin_ + filled_) {
    const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(std::max(n, kWindow), size() - at));
    if (buffer_.size() < wanted) buffer_.resize(wanted);
    const Result<std::size_t> got = source_.read_at(at, buffer_.data(), wanted);
    begin_ = at;
    filled_ = got ? *got : 0;
    n = std::min(n, filled_);
  }
  return {buffer_.data() + (at - begin_), n};
}

bool ProtoCursor::next() {
  if (cut_ || bad_ || at_ >= end_) return false;
  constexpr std::size_t kLongestHead = 20;  // tag and length, ten bytes each
  const auto left = static_cast<std::size_t>(std::min<std::uint64_t>(kLongestHead, end_ - at_));
  const std::string_view head = file_->view(at_, left);
  const char* next = head.data();
  const char* const head_end = next + head.size();
  const auto varint = [&](std::uint64_t& value) {
    if (read_varint(next, head_end, value)) return true;
    (next == head_end ? cut_ : bad_) = true;
    return false;
  };
  const auto behind_head = [&] { return at_ + static_cast<std::uint64_t>(next - head.data()); };
  std::uint64_t tag = 0;
  if (!varint(tag)) return false;
  field = static_cast<std::uint32_t>(tag >> 3);
  packed = false;
  number = 0;
  begin = end = behind_head();
  const auto wire_type = tag & 7;
  if (wire_type == 0) {
    if (!varint(number)) return false;
    at_ = behind_head();
  } else if (wire_type == 1 || wire_type == 5) {
    at_ = begin + (wire_type == 1 ? 8 : 4);
  } else if (wire_type == 2) {
    std::uint64_t length = 0;
    if (!varint(length)) return false;
    packed = true;
    begin = behind_head();
    end = begin + length;
    if (end > end_ || end < begin) {
      end = end_;
      cut_ = true;
    }
    at_ = end;
  } else {
    bad_ = true;
    return false;
  }
  if (field == 0) bad_ = true;
  if (at_ > end_) cut_ = true;
  return !bad_ && at_ <= end_;
}

}  // namespace foretrace::trace
