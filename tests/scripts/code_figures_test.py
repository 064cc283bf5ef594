"""What scripts/code_figures counts: code and comment lines, folders, repeated lines, sources that ran."""

import importlib.machinery
import importlib.util
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
loader = importlib.machinery.SourceFileLoader("code_figures", str(ROOT / "scripts/code_figures"))
code_figures = importlib.util.module_from_spec(importlib.util.spec_from_loader("code_figures", loader))
loader.exec_module(code_figures)


class CodeFigures(unittest.TestCase):
    def setUp(self):
        temp = tempfile.TemporaryDirectory()
        self.addCleanup(temp.cleanup)
        self.root = Path(temp.name).resolve()

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def test_blanks_and_comments_are_no_code(self):
        source = self.write("src/trace/a.cpp", '#include "a.hpp"\n\n// Why.\nint a() {  // behind code\n  return 1;\n}\n')
        self.assertEqual(code_figures.code_count(source), 4)
        self.assertEqual(code_figures.code_count(self.write("tools/a.py", "# Why.\nimport os\n\nx = 1\n")), 2)

    def test_header_and_source_are_in_one_room(self):
        for name in ("src/trace/importers/a.cpp", "include/foretrace/trace/a.hpp"):
            self.assertEqual(code_figures.room(self.root, self.root / name), "trace")
        self.assertEqual(code_figures.room(self.root, self.root / "include/foretrace/version.hpp"), "top level")
        self.assertEqual(code_figures.room(self.root, self.root / "tools/a.py"), "tools")

    def test_six_lines_in_a_row_are_repeated_and_five_are_not(self):
        lines = [f"call({i});" for i in range(6)]
        files = [self.write(f"src/{name}.cpp", "\n".join(text)) for name, text in (("a", lines), ("b", ["x();", *lines]), ("c", lines[:5]))]
        where, shared = code_figures.repeated(files)
        self.assertEqual({path.name: len(numbers) for path, numbers in where.items()}, {"a.cpp": 6, "b.cpp": 6})
        self.assertEqual(shared[files[0]], {files[1]})

    def test_thresholds_of_a_tree(self):
        self.write("tools/threshold_list.py", 'THRESHOLDS = {"a.cpp": {"kA": "", "kB": ""}, "b.cpp": {"kA": ""}}\n')
        self.assertEqual(code_figures.thresholds(self.root), 3)

    def test_sources_with_a_function_that_ran(self):
        def file(name, *functions):
            return {"file": str(self.root / name), "functions": [{"name": n, "execution_count": c} for n, c in functions]}

        report = {"current_working_directory": str(self.root), "files": [
            file("src/trace/ran.cpp", ("_Z3ranv", 1), ("_Z3notv", 0)),
            file("src/trace/idle.cpp", ("_Z4idlev", 0), ("_GLOBAL__sub_I_x", 1), ("_Z41__static_initialization_and_destruction_0ii", 1)),
            file("src/trace/header.hpp", ("_Z3inlv", 1)),
            file("elsewhere/ran.cpp", ("_Z3ranv", 1))]}
        self.assertEqual(code_figures.executed([report], self.root), {"src/trace/ran.cpp"})

    def test_change_in_percent(self):
        lines = code_figures.table({"code": 90, "gone now": None, "longest": "5, a"}, {"code": 100, "old room": 3, "longest": "7, b"}).splitlines()
        self.assertRegex(lines[0], r"code +100 +90 +-10\.0 %")
        self.assertRegex(lines[2], r"longest +5, a \(before: 7, b\)")
        self.assertRegex(lines[3], r"old room +3 +–$")


if __name__ == "__main__":
    unittest.main()
