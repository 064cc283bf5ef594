#pragma once
// Protocol buffers as bytes: fields of a message, one after the other. Enough for reading files whose messages are few and
// known (xplane, HLO); nothing is generated and nothing is copied.
//
//   for (ProtoWire wire(message); wire.next();) if (wire.field == 2) name = wire.bytes;
//   for (ProtoCursor c(file, 0, file.size()); c.next();) …      // the same where a message is too large to hold

#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/seekable_source.hpp"

namespace foretrace::trace {

/// A number of up to ten bytes, seven bits each; moves `at` behind it. False where the bytes end before it does, or it is longer.
inline bool read_varint(const char*& at, const char* end, std::uint64_t& value) {
  value = 0;
  for (unsigned shift = 0; shift < 70 && at != end; shift += 7) {
    const auto byte = static_cast<unsigned char>(*at++);
    if (shift < 64) value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

class ProtoWire {
 public:
  explicit ProtoWire(std::string_view message) : at_(message.data()), end_(at_ + message.size()) {}

  std::uint32_t field = 0;
  std::uint64_t number = 0;  ///< of varints and fixed numbers, as bits
  std::string_view bytes;    ///< of texts, bytes and messages
  bool packed = false;       ///< `bytes` is what the field holds, not `number`

  /// Moves to the next field; false at the end, and where the bytes are no message (`bad`).
  bool next() {
    std::uint64_t tag = 0;
    if (at_ == end_ || !varint(tag)) return false;
    field = static_cast<std::uint32_t>(tag >> 3);
    bytes = {};
    packed = false;
    if (field == 0) return wrong();
    switch (tag & 7) {
      case 0:
        return varint(number);
      case 1:
        return fixed(8);
      case 2: {
        std::uint64_t length = 0;
        if (!varint(length) || length > static_cast<std::uint64_t>(end_ - at_)) return wrong();
        bytes = {at_, static_cast<std::size_t>(length)};
        at_ += length;
        packed = true;
        return true;
      }
      case 5:
        return fixed(4);
      default:
        return wrong();
    }
  }
  [[nodiscard]] bool bad() const { return bad_; }
  [[nodiscard]] std::int64_t integer() const { return static_cast<std::int64_t>(number); }
  [[nodiscard]] double real() const {
    double d = 0;
    std::memcpy(&d, &number, sizeof d);
    return d;
  }
  /// The numbers of a repeated field, packed or one by one.
  void append_to(std::vector<std::int64_t>& list) const {
    if (!packed) {
      list.push_back(integer());
      return;
    }
    ProtoWire inner(bytes);
    for (std::uint64_t n = 0; inner.at_ != inner.end_ && inner.varint(n);) list.push_back(static_cast<std::int64_t>(n));
  }

 private:
  bool wrong() {
    bad_ = true;
    at_ = end_;
    return false;
  }
  bool varint(std::uint64_t& value) { return read_varint(at_, end_, value) || wrong(); }
  bool fixed(std::size_t n) {
    if (static_cast<std::size_t>(end_ - at_) < n) return wrong();
    number = 0;
    std::memcpy(&number, at_, n);
    at_ += n;
    return true;
  }

  const char* at_;
  const char* end_;
  bool bad_ = false;
};

/// A window over a file of messages: memory is that of the largest one looked at as a whole.
class ProtoFile {
 public:
  explicit ProtoFile(SeekableSource& source) : source_(source) {}
  [[nodiscard]] std::uint64_t size() const { return source_.size(); }
  /// n bytes from `at` on, valid until the next call; less at the end of the input.
  std::string_view view(std::uint64_t at, std::size_t n);

 private:
  SeekableSource& source_;
  std::vector<char> buffer_;
  std::uint64_t begin_ = 0;
  std::size_t filled_ = 0;
};

class ProtoCursor {
 public:
  ProtoCursor(ProtoFile& file, std::uint64_t from, std::uint64_t to) : file_(&file), at_(from), end_(to) {}

  std::uint32_t field = 0;
  std::uint64_t number = 0;
  std::uint64_t begin = 0, end = 0;  ///< of what a text or a message holds
  bool packed = false;

  bool next();
  /// The bytes ended inside a field: `end` is then where they do.
  [[nodiscard]] bool cut() const { return cut_; }
  [[nodiscard]] bool bad() const { return bad_; }
  [[nodiscard]] std::string_view bytes() const { return file_->view(begin, static_cast<std::size_t>(end - begin)); }

 private:
  ProtoFile* file_;
  std::uint64_t at_, end_;
  bool cut_ = false, bad_ = false;
};

}  // namespace foretrace::trace
