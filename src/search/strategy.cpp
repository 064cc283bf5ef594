#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>

#include "base/byte_source.hpp"
#include "base/suggest.hpp"
#include "foretrace/search/optimize.hpp"

namespace foretrace::search {

namespace {

using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::object;

constexpr std::string_view kHint =
    "`foretrace optimize --strategy-out FILE` writes one; docs/reference/optimize.md shows its form";

class Reader {
 public:
  explicit Reader(std::string origin) : origin_(std::move(origin)) {}

  Result<Strategy> read(std::string_view text) {
    simdjson::dom::parser parser;
    element root;
    if (const auto error = parser.parse(text.data(), text.size()).get(root); error != simdjson::SUCCESS) {
      return wrong(fmt::format("this is not JSON: {}", simdjson::error_message(error)));
    }
    object top;
    if (root.get(top) != simdjson::SUCCESS) return wrong("a strategy is a JSON object");
    Strategy s;
    for (const auto field : top) {
      if (field.key == "schema") {
        std::int64_t schema = 0;
        if (field.value.get(schema) != simdjson::SUCCESS || schema != 1) return wrong("\"schema\" must be 1");
      } else if (field.key == "whatifs") {
        FORETRACE_TRY(s.whatifs, whatifs(field.value));
      } else if (field.key == "communication") {
        if (field.value.is_null()) continue;
        FORETRACE_TRY(s.communication, communication(field.value));
      } else if (field.key != "about") {
        return unknown(field.key, {"schema", "about", "whatifs", "communication"});
      }
    }
    FORETRACE_TRY_VOID(uses_of(s));
    return s;
  }

 private:
  [[nodiscard]] tl::unexpected<Error> wrong(std::string message, std::string hint = std::string(kHint)) const {
    return tl::unexpected<Error>(
        Error{ErrorCode::kUnreadable, std::move(message), origin_, Error::kNoOffset, std::move(hint)});
  }
  [[nodiscard]] tl::unexpected<Error> unknown(std::string_view key, const std::vector<std::string>& known) const {
    std::string hint = did_you_mean(key, known);
    if (hint.empty()) hint = fmt::format("known: {}", fmt::join(known, ", "));
    return wrong(fmt::format("a strategy has no \"{}\" here", key), std::move(hint));
  }

  Result<std::vector<std::string>> whatifs(const element& value) const {
    array list;
    if (value.get(list) != simdjson::SUCCESS) return wrong("\"whatifs\" must be a list");
    std::vector<std::string> out;
    for (const element one : list) {
      std::string_view text;
      if (one.get(text) == simdjson::SUCCESS) {
        out.emplace_back(text);
        continue;
      }
      object fields;
      if (one.get(fields) != simdjson::SUCCESS) return wrong("a what-if is a text or an object");
      std::string name;
      std::string parameters;
      for (const auto field : fields) {
        FORETRACE_TRY(const std::string as_text, text_of(field.value, field.key));
        if (field.key == "whatif") {
          name = as_text;
          continue;
        }
        const bool quoted = as_text.find_first_of(",:='\"") != std::string::npos;
        const char quote = as_text.find('\'') == std::string::npos ? '\'' : '"';
        parameters += fmt::format("{}{}={}", parameters.empty() ? ":" : ",", field.key,
                                  quoted ? fmt::format("{0}{1}{0}", quote, as_text) : as_text);
      }
      if (name.empty()) return wrong("a what-if needs its name", "{\"whatif\": \"amp\", \"dtype\": \"bf16\"}");
      out.push_back(name + parameters);
    }
    return out;
  }

  // Numbers and lists as they are written on the command line.
  Result<std::string> text_of(const element& value, std::string_view key) const {
    std::string_view text;
    if (value.get(text) == simdjson::SUCCESS) return std::string(text);
    array list;
    if (value.get(list) == simdjson::SUCCESS) {
      std::string joined;
      for (const element one : list) {
        FORETRACE_TRY(const std::string part, text_of(one, key));
        joined += (joined.empty() ? "" : "|") + part;
      }
      return joined;
    }
    if (value.is_number()) return std::string(simdjson::minify(value));
    return wrong(fmt::format("\"{}\" must be a text, a number or a list", key));
  }

  Result<double> number(const element& value, std::string_view key, double least) const {
    double d = 0;
    if (value.get(d) != simdjson::SUCCESS || !(d >= least) || d > 1e12) {
      return wrong(fmt::format("\"{}\" must be a number from {} up", key, least));
    }
    return d;
  }

  Result<std::string> text(const element& value, std::string_view key) const {
    std::string_view t;
    if (value.get(t) != simdjson::SUCCESS) return wrong(fmt::format("\"{}\" must be a text", key));
    return std::string(t);
  }

  Result<Communication> communication(const element& value) const {
    object fields;
    if (value.get(fields) != simdjson::SUCCESS) return wrong("\"communication\" must be an object");
    Communication c;
    for (const auto field : fields) {
      const std::string_view key = field.key;
      if (key == "workers" || key == "gpus_per_node") {
        FORETRACE_TRY(const double n, number(field.value, key, 1));
        (key == "workers" ? c.workers : c.gpus_per_node) = static_cast<int>(std::min(n, 1e6));
      } else if (key == "fabric") {
        FORETRACE_TRY(c.fabric, text(field.value, key));
      } else if (key == "collectives") {
        FORETRACE_TRY(c.collectives, text(field.value, key));
      } else if (key == "collectives_tag") {
        FORETRACE_TRY(c.collectives_tag, text(field.value, key));
      } else if (key == "scheme") {
        FORETRACE_TRY(c.scheme, text(field.value, key));
      } else if (key == "compression") {
        FORETRACE_TRY(c.compression, text(field.value, key));
      } else if (key == "bucket_mb") {
        FORETRACE_TRY(c.bucket_mb, number(field.value, key, 0));
      } else if (key == "first_bucket_mb") {
        FORETRACE_TRY(c.first_bucket_mb, number(field.value, key, 0));
      } else if (key == "buckets") {
        FORETRACE_TRY(c.buckets, buckets(field.value));
      } else {
        return unknown(key, {"workers", "gpus_per_node", "fabric", "collectives", "collectives_tag", "scheme",
                             "compression", "bucket_mb", "first_bucket_mb", "buckets"});
      }
    }
    return c;
  }

  Result<std::vector<PlannedBucket>> buckets(const element& value) const {
    array list;
    if (value.get(list) != simdjson::SUCCESS) return wrong("\"buckets\" must be a list");
    std::vector<PlannedBucket> out;
    std::uint32_t next = 0;
    for (const element one : list) {
      object fields;
      if (one.get(fields) != simdjson::SUCCESS) return wrong("a bucket is an object");
      PlannedBucket b;
      bool found = false;
      for (const auto field : fields) {
        if (field.key == "gradients") {
          array range;
          if (field.value.get(range) != simdjson::SUCCESS || range.size() != 2) {
            return wrong("\"gradients\" of a bucket are the first and the last one: [0, 41]");
          }
          FORETRACE_TRY(const double first, number(range.at(0).value_unsafe(), "gradients", 0));
          FORETRACE_TRY(const double last, number(range.at(1).value_unsafe(), "gradients", 0));
          if (last < first || last > 4e9) return wrong("a bucket's last gradient comes before its first");
          b.first = static_cast<std::uint32_t>(first);
          b.last = static_cast<std::uint32_t>(last);
          found = true;
        } else if (field.key == "mb") {
          FORETRACE_TRY(b.mb, number(field.value, "mb", 0));
        } else if (field.key == "partitions") {
          FORETRACE_TRY(const double parts, number(field.value, "partitions", 1));
          b.partitions = static_cast<int>(std::min(parts, 1e6));
        } else {
          return unknown(field.key, {"gradients", "mb", "partitions"});
        }
      }
      if (!found) return wrong("a bucket needs its \"gradients\"");
      if (b.first != next) return wrong(fmt::format("gradient {} is missing or twice in the buckets", next));
      next = b.last + 1;
      out.push_back(b);
    }
    return out;
  }

  std::string origin_;
};

}  // namespace

Result<Strategy> parse_strategy(std::string_view text, const std::string& origin) { return Reader(origin).read(text); }

Result<Strategy> load_strategy(const std::string& path) {
  FORETRACE_TRY(const std::string text, read_file(path));
  return parse_strategy(text, path);
}

Result<std::vector<whatif::Use>> uses_of(const Strategy& strategy) {
  std::vector<whatif::Use> uses;
  for (const std::string& text : strategy.whatifs) {
    FORETRACE_TRY(whatif::Use use, whatif::parse_use(text));
    uses.push_back(std::move(use));
  }
  return uses;
}

Communication plain_communication(const Communication& c) {
  Communication plain;
  plain.workers = c.workers;
  plain.fabric = c.fabric;
  plain.collectives = c.collectives;
  plain.collectives_tag = c.collectives_tag;
  plain.gpus_per_node = c.gpus_per_node;
  plain.first_bucket_mb = 1;  // as long as bucket_cap_mb is not given
  return plain;
}

std::string short_use(std::string_view use) {
  const auto entries = 1 + std::count(use.begin(), use.end(), '|');
  if (entries < 4) return std::string(use);
  return fmt::format("{}|… ({})", use.substr(0, use.find('|')), entries);
}

std::string key_of(const Strategy& strategy) {
  std::string key = fmt::format("{}", fmt::join(strategy.whatifs, "+"));
  if (const auto& c = strategy.communication) {
    key += fmt::format(";{};{};{};{};{};{};{};{};{}", c->workers, c->fabric, c->collectives, c->collectives_tag,
                       c->gpus_per_node, c->scheme, c->compression, c->bucket_mb, c->first_bucket_mb.value_or(-1));
    for (const PlannedBucket& b : c->buckets) key += fmt::format(";{}-{}/{}", b.first, b.last, b.partitions);
  }
  return key;
}

std::string describe(const Strategy& strategy) {
  std::string out;
  for (const std::string& use : strategy.whatifs) out += (out.empty() ? "" : " + ") + short_use(use);
  if (const auto& c = strategy.communication; c && c->workers > 1) {
    if (!out.empty()) out += ", ";
    out += c->scheme;
    if (!c->buckets.empty()) {
      out += fmt::format(" in {} bucket{}", c->buckets.size(), c->buckets.size() == 1 ? "" : "s");
    } else {
      out += fmt::format(" in buckets of {:g} MB", c->bucket_mb);
    }
    if (c->compression != "none") out += ", " + c->compression + " gradients";
  }
  return out.empty() ? "as it is" : out;
}

}  // namespace foretrace::search
