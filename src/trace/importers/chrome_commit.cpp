#include "trace/importers/chrome_commit.hpp"

#include <array>

#include "trace/importers/json_text.hpp"

namespace foretrace::trace {

namespace {

struct IncidentText {
  std::string_view name;
  Severity severity;
  std::string_view meaning;
};

// Indexed by Incident::What.
constexpr std::array<IncidentText, kIncidentKinds> kIncidentTexts = {{
    {"malformed_record", Severity::kDataLoss, "a record is not valid JSON and was left out"},
    {"invalid_utf8", Severity::kInfo, "a record holds bytes that are not UTF-8; they were replaced by U+FFFD"},
    {"unescaped_quotes", Severity::kInfo,
     "a name holds quotes that are not escaped (older PyTorch); the record was repaired"},
    {"control_character", Severity::kInfo, "a string holds a raw control character; it was escaped"},
    {"empty_record", Severity::kInfo, "an event is an empty object"},
    {"not_an_object", Severity::kDataLoss, "an element of traceEvents is not an object and was left out"},
    {"missing_timestamp", Severity::kDataLoss, "an event has no ts and was left out"},
    {"unreadable_timestamp", Severity::kDataLoss,
     "the ts of an event is not a number that fits and the event was left out"},
    {"unreadable_duration", Severity::kDataLoss, "the dur of an event is not a number that fits; it counts as 0"},
    {"negative_duration", Severity::kInfo, "an event has a negative dur; it counts as 0"},
    {"impossible_memory", Severity::kDataLoss,
     "an allocator event frees or takes more than any memory holds, or leaves less than nothing; its sizes were left "
     "out"},
    {"args_not_an_object", Severity::kInfo, "the args of an event are not an object; they are kept as text"},
}};

// Maps one column of local ids; `make` gives the global id of a local id seen for the first time.
template <class In, class Out, class Make>
void remap(const Column<In>& from, Column<Out>& to, std::vector<std::uint32_t>& map, std::size_t local_size,
           Make make) {
  if (map.size() < local_size) map.resize(local_size, kNone);
  Out* out = to.extend(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) {
    std::uint32_t local = 0;
    if constexpr (std::is_integral_v<In>) {
      local = from[i];
    } else {
      local = from[i].value;
      if (!from[i].valid()) {
        out[i] = Out{};
        continue;
      }
    }
    std::uint32_t& global = map[local];
    if (global == kNone) global = make(local);
    out[i] = static_cast<Out>(global);
  }
}

template <class T>
std::uint32_t append_side(Column<T>& to, const Column<T>& from) {
  const auto base = static_cast<std::uint32_t>(to.size());
  to.append(from.data(), from.size());
  return base;
}

}  // namespace

std::uint32_t Committer::global_name(std::string_view raw) {
  if (raw.find('\\') == std::string_view::npos) return trace_.strings.intern(raw).value;
  bool broken = false;
  const std::string text = unescape(raw, &broken);
  if (broken) {
    trace_.diagnostics.add("broken_escape", Severity::kInfo, "a name holds a broken escape; it was kept as written",
                           raw);
  }
  return trace_.strings.intern(text).value;
}

void Committer::commit(const Batch& batch, const LocalTables& tables, IdMaps& maps) {
  Events& to = trace_.events;
  const Events& from = batch.events;
  to.start.append(from.start.data(), from.size());
  to.duration.append(from.duration.data(), from.size());
  to.correlation.append(from.correlation.data(), from.size());
  to.external_id.append(from.external_id.data(), from.size());
  to.ph.append(from.ph.data(), from.size());
  remap(from.name, to.name, maps.names, tables.names.size(),
        [&](std::uint32_t local) { return global_name(tables.names[StringId{local}]); });
  remap(from.args, to.args, maps.tuples, tables.tuples.size(),
        [&](std::uint32_t local) { return trace_.args.intern(tables.tuples[StringId{local}]).value; });
  remap(from.lane, to.lane, maps.lanes, tables.lanes.size(),
        [&](std::uint32_t local) { return lane_keys_.intern(tables.lanes[StringId{local}]).value; });
  remap(from.category, to.category, maps.categories, tables.categories.size(), [&](std::uint32_t local) {
    const std::string_view key = tables.categories[StringId{local}];
    // Id 0 of a string table is the empty string, which is no category key: global ids start at 0 behind it.
    const std::uint32_t global = category_keys_.intern(key).value - 1;
    if (global == trace_.categories.size()) {
      const std::size_t cut = key.size() - 2;
      trace_.categories.push_back(
          {trace_.strings.intern(unescape(key.substr(0, cut))), static_cast<EventKind>(key.back() - 'A')});
    }
    return std::min<std::uint32_t>(global, 0xFFFF);
  });

  const std::array<std::uint32_t, 6> base = {0,
                                             append_side(trace_.op_ids, batch.op_ids),
                                             append_side(trace_.python_ids, batch.python_ids),
                                             append_side(trace_.memory_ids, batch.memory_ids),
                                             append_side(trace_.sync_ids, batch.sync_ids),
                                             append_side(trace_.copy_ids, batch.copy_ids)};
  const std::size_t first = to.side.size();
  std::uint32_t* side = to.side.extend(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) {
    const std::uint32_t local = from.side[i];
    if (local == kNone) {
      side[i] = local;
    } else {
      side[i] = local + base[static_cast<std::size_t>(side_table(trace_.kind(first + i)))];
    }
  }

  for (const Incident& incident : batch.incidents) {
    const auto what = static_cast<std::size_t>(incident.what);
    const IncidentText& text = kIncidentTexts[what];
    trace_.diagnostics.add(text.name, text.severity, text.meaning, incident.example,
                           static_cast<std::int64_t>(incident.offset), batch.incident_counts[what]);
  }
}

}  // namespace foretrace::trace
