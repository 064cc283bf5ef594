#include "report/job_kind.hpp"

#include <fmt/format.h>

#include <optional>
#include <vector>

#include "base/readable.hpp"
#include "report/text_table.hpp"

namespace foretrace::report {

using analysis::RanksReport;

namespace {

/// A line of the table of groups: one group, or the mean of many of one kind.
struct GroupRow {
  std::string name, ranks;
  ranks::JobGroup mean;
};

std::vector<GroupRow> group_rows(const std::vector<ranks::JobGroup>& groups) {
  constexpr std::size_t kMostOfAKind = 4;  // a job of thousands of ranks has hundreds of groups
  std::vector<GroupRow> out;
  for (std::size_t i = 0, end = 0; i < groups.size(); i = end) {
    while (end < groups.size() && groups[end].kind == groups[i].kind) ++end;
    const std::size_t n = end - i;
    if (n <= kMostOfAKind) {
      for (std::size_t k = i; k < end; ++k) {
        const ranks::JobGroup& g = groups[k];
        out.push_back({g.description.empty() ? g.name : g.description, ranks::list_of(g.ranks), g});
      }
      continue;
    }
    GroupRow row{fmt::format("{} groups", n), fmt::format("{} each", groups[i].ranks.size()), groups[i]};
    for (std::size_t k = i + 1; k < end; ++k) {
      row.mean.bytes += groups[k].bytes;
      row.mean.wait += groups[k].wait;
      row.mean.transfer += groups[k].transfer;
      row.mean.exposed += groups[k].exposed;
      row.mean.bandwidth_gbs += groups[k].bandwidth_gbs;
    }
    const auto count = static_cast<Ns>(n);
    row.mean.bytes /= static_cast<double>(n);
    row.mean.bandwidth_gbs /= static_cast<double>(n);
    row.mean.wait /= count;
    row.mean.transfer /= count;
    row.mean.exposed /= count;
    out.push_back(std::move(row));
  }
  return out;
}

}  // namespace

std::string kind_text(const RanksReport& report, const TextStyle& style) {
  const ranks::JobKind& kind = report.kind;
  if (kind.parallel.empty()) return {};
  std::string out = wrap(fmt::format("{}: {}", kind.parallel, kind.text), style.width, 2, 0) + "\n";
  if (kind.pipeline) {
    out +=
        wrap(fmt::format("bubble: {} ms of {} a rank, {:.1f} % (no compute kernel runs while a receive is under way)",
                         format_ms(kind.pipeline->bubble), format_ms(report.job_step),
                         100.0 * static_cast<double>(kind.pipeline->bubble) / static_cast<double>(report.job_step)),
             style.width, 2, 0) +
        "\n";
  }
  TextTable table({{"Group", Align::kLeft, true},
                   {"ranks", Align::kLeft},
                   {"calls"},
                   {"size"},
                   {"wait"},
                   {"transfer"},
                   {"exposed"},
                   {"GB/s"},
                   {"fabric"}},
                  0);
  for (const GroupRow& row : group_rows(kind.groups)) {
    const ranks::JobGroup& g = row.mean;
    table.row({fmt::format("  {} ({})", to_string(g.kind), printable(row.name)), row.ranks,
               fmt::format("{}", g.operations), g.bytes > 0 ? format_bytes(static_cast<std::uint64_t>(g.bytes)) : "?",
               format_ms(g.wait), format_ms(g.transfer), format_ms(g.exposed),
               g.bandwidth_gbs > 0 ? fmt::format("{:.1f}", g.bandwidth_gbs) : "?",
               g.fabric_gbs > 0 ? fmt::format("{:.1f}", g.fabric_gbs) : "?"});
  }
  std::string columns =
      "calls, size: of one rank in the step. wait: for the last rank; transfer: from then on. exposed: its kernels run "
      "and no compute kernel does. GB/s: size / transfer";
  if (!kind.fabric.empty()) columns += fmt::format("; fabric: what {} inside a node could, as modelled", kind.fabric);
  return out + "\n" + table.render(style) + "  " + wrap(columns + ".", style.width, 2, 2) + "\n\n";
}

void write_kind(JsonWriter& json, const ranks::JobKind& kind) {
  const auto rate = [](double gbs) { return gbs > 0 ? std::optional(gbs) : std::nullopt; };
  json.member("parallel", kind.parallel).member("parallel_text", kind.text);
  json.objects("groups", kind.groups, [&](const ranks::JobGroup& g) {
    json.member("kind", to_string(g.kind)).member("name", g.name).member("description", g.description);
    json.member("ranks", g.ranks).member("operations", g.operations).member("bytes", g.bytes);
    json.member_ms("wait_ms", g.wait).member_ms("transfer_ms", g.transfer).member_ms("exposed_ms", g.exposed);
    json.member("algorithm_gbs", rate(g.bandwidth_gbs)).member("fabric_gbs", rate(g.fabric_gbs));
  });
  json.key("pipeline");
  if (kind.pipeline) {
    json.begin_object().member("stages", kind.pipeline->stages).member("chunks", kind.pipeline->chunks);
    json.member("micro_batches", kind.pipeline->micro_batches).member("schedule", to_string(kind.pipeline->schedule));
    json.member_ms("bubble_ms", kind.pipeline->bubble).end_object();
  } else {
    json.null();
  }
  json.member_ms("bubble_ms", kind.pipeline ? std::optional(kind.pipeline->bubble) : std::nullopt);
  json.member("sequence_parallel", kind.sequence_parallel).member("zero", kind.zero).member("hsdp", kind.hybrid);
  json.member_or_null("fabric", kind.fabric).member("absent", kind.absent);
}

std::string purpose_of(const analysis::RanksStep& step, const ranks::Rendezvous& meeting) {
  const ranks::Collective& c = step.matching.collectives[meeting.collective];
  const ranks::Parallelism purpose = step.kind.purpose(c.group, 1u << static_cast<std::uint32_t>(c.kind));
  return fmt::format("{} {}", to_string(purpose), to_string(c.kind));
}

ranks::Intervals bubble_of(const ranks::Job& job, const analysis::RanksStep& step, const ranks::Traffic& traffic,
                           std::uint32_t rank) {
  const ranks::Clock& clock = step.clocks.clocks[rank];
  const Ns base = job.ranks[rank].trace.base_time_ns;
  ranks::Intervals out = traffic.bubble(rank);
  for (auto& [from, to] : out) {
    const Ns begin = clock.aligned(base + from) - step.graph.begin;
    to = begin + (to - from);
    from = begin;
  }
  return out;
}

}  // namespace foretrace::report
