#pragma once
// How to get the Python module: the words of every hint that names it. foretrace is on no package index.

namespace foretrace {

/// `kInstallModule` + ", then …" is a hint.
inline constexpr const char* kInstallModule = "`pip install .` in foretrace's source folder, or install its wheel";

}  // namespace foretrace
