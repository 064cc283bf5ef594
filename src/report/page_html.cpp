#include "report/page_html.hpp"

#include "base/readable.hpp"

namespace foretrace::report {
namespace {

// `text` with each of `characters` replaced by the entry of `replacements` at the same place.
std::string escaped(std::string_view text, std::string_view characters,
                    const std::vector<std::string_view>& replacements) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    if (const std::size_t at = characters.find(c); at != std::string_view::npos) {
      out += replacements[at];
    } else {
      out += c;
    }
  }
  return out;
}

std::string joined(const std::vector<DataFile>& files) {
  std::string out;
  for (const DataFile& file : files) out += file.text;
  return out;
}

}  // namespace

std::string file_name(const std::string& path) { return path.substr(path.find_last_of("/\\") + 1); }

std::string page_html(const std::string& path, const std::string& json, const std::vector<DataFile>& scripts,
                      const std::vector<DataFile>& styles, std::string_view pack) {
  const std::string css = joined(data_files_in("report/page", ".css")) + joined(styles);
  const std::string js = joined(scripts);
  std::string_view rest = data_files_in("report/page", ".html").front().text;
  std::string out;
  out.reserve(json.size() + pack.size() + css.size() + js.size() + rest.size());
  // {{name}} in the page stands for one of these.
  while (true) {
    const std::size_t at = rest.find("{{");
    out += rest.substr(0, at);
    if (at == std::string_view::npos) break;
    const std::size_t end = rest.find("}}", at);
    const std::string_view name = rest.substr(at + 2, end - at - 2);
    rest = rest.substr(end + 2);
    if (name == "title") {
      out += escaped(printable(file_name(path)), "<>&\"", {"&lt;", "&gt;", "&amp;", "&quot;"});
    } else if (name == "css") {
      out += css;
    } else if (name == "js") {
      out += js;
    } else if (name == "pack") {
      out += pack;
    } else {
      out += escaped(json, "<", {"\\u003c"});
    }
  }
  return out;
}

}  // namespace foretrace::report
