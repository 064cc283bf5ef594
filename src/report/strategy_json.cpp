#include "report/strategy_json.hpp"

#include "foretrace/report/report.hpp"

namespace foretrace::report {

namespace {

void write_use(JsonWriter& json, const std::string& text) {
  const Result<whatif::Use> use = whatif::parse_use(text);
  if (!use) {  // checked when the strategy was made; text reads back all the same
    json.value(text);
    return;
  }
  json.begin_object().member("whatif", use->whatif->name);
  for (const whatif::Parameter& p : use->whatif->parameters) {
    if (!use->parameters.given(p.name)) continue;
    if (p.type == whatif::ParameterType::kNumber) {
      json.member(p.name, use->parameters.number(p.name));
    } else if (use->parameters.text(p.name).find('|') != std::string::npos) {
      json.member(p.name, use->parameters.list(p.name));
    } else {
      json.member(p.name, use->parameters.text(p.name));
    }
  }
  json.end_object();
}

}  // namespace

void write_strategy(JsonWriter& json, const search::Strategy& s) {
  json.key("whatifs").begin_array();
  for (const std::string& text : s.whatifs) write_use(json, text);
  json.end_array();
  if (!s.communication) return;
  const search::Communication& c = *s.communication;
  json.key("communication").begin_object().member("workers", c.workers);
  if (!c.fabric.empty()) json.member("fabric", c.fabric);
  if (!c.collectives.empty()) json.member("collectives", c.collectives);
  if (!c.collectives_tag.empty()) json.member("collectives_tag", c.collectives_tag);
  if (c.gpus_per_node > 0) json.member("gpus_per_node", c.gpus_per_node);
  json.member("scheme", c.scheme).member("compression", c.compression).member("bucket_mb", c.bucket_mb);
  if (c.first_bucket_mb) json.member("first_bucket_mb", *c.first_bucket_mb);
  if (!c.buckets.empty()) {
    json.objects("buckets", c.buckets, [&](const search::PlannedBucket& b) {
      json.member("gradients", std::vector<std::uint32_t>{b.first, b.last});
      json.member("mb", b.mb).member("partitions", b.partitions);
    });
  }
  json.end_object();
}

std::string strategy_json(const search::Strategy& strategy) {
  std::string out;
  JsonWriter json(out, 3);
  json.begin_object().member("schema", 1).member("about", describe(strategy));
  write_strategy(json, strategy);
  json.end_object();
  return out + "\n";
}

}  // namespace foretrace::report
