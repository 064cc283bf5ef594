#pragma once
// One HTML file that needs nothing else: the frame and the style of all pages, with a page's own scripts and data.

#include <string>
#include <string_view>
#include <vector>

#include "base/data_files.hpp"

namespace foretrace::report {

/// A page names the file; where it was stored tells a reader nothing.
std::string file_name(const std::string& path);

/// `json` is what the scripts read as `data`, `pack` what `page_pack.hpp` packs; it may be empty. Scripts run in their order.
/// `styles` come behind those of all pages.
std::string page_html(const std::string& path, const std::string& json, const std::vector<DataFile>& scripts,
                      const std::vector<DataFile>& styles = {}, std::string_view pack = {});

}  // namespace foretrace::report
