import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class CheckLayers(unittest.TestCase):
    def check(self, files):
        with tempfile.TemporaryDirectory() as temp:
            for name, text in files.items():
                path = Path(temp) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            done = subprocess.run([ROOT / "scripts/check_layers", temp], capture_output=True, text=True)
        return done.returncode, done.stdout

    def test_earlier_folders_and_the_own_one_are_fine(self):
        status, out = self.check({
            "include/foretrace/trace/trace.hpp": '#include "foretrace/base/time.hpp"\n',
            "src/report/doctor.cpp": '#include "foretrace/trace/trace.hpp"\n#include "report/table.hpp"\n#include <cli/x>\n',
        })
        self.assertEqual((status, out), (0, "layers: in order\n"))

    def test_a_later_folder_is_named_with_its_line(self):
        status, out = self.check({"src/base/a.cpp": '#include <vector>\n#include "foretrace/trace/trace.hpp"\n'})
        self.assertEqual(status, 1)
        self.assertIn("src/base/a.cpp:2: base/ may not use trace/", out)

    def test_hardware_knows_no_graph(self):
        status, out = self.check({"src/hardware/cost.hpp": '#include "foretrace/graph/graph.hpp"\n#include "trace/latencies.hpp"\n'})
        self.assertEqual((status, out), (1, "src/hardware/cost.hpp:1: hardware/ may not use graph/: foretrace/graph/graph.hpp\n"))

    def test_public_headers_include_only_public_ones(self):
        status, out = self.check({"include/foretrace/trace/a.hpp": '#include "base/inflate.hpp"\n'})
        self.assertEqual(status, 1)
        self.assertIn("include/foretrace/trace/a.hpp:1", out)

    def test_bindings_include_only_public_headers(self):
        status, out = self.check({
            "python/bindings/a.cpp": '#include "foretrace/version.hpp"\n#include "views.hpp"\n#include "report/notes.hpp"\n'})
        self.assertEqual(status, 1)
        self.assertIn("python/bindings/a.cpp:3", out)
        self.assertEqual(out.count("\n"), 1, out)

    def test_sub_folders_have_an_order_too(self):
        status, out = self.check({
            "src/whatif/rewrite/rows.cpp": '#include "whatif/dataflow/dataflow.hpp"\n#include "whatif/catalogue/catalogue.hpp"\n',
            "src/whatif/predict/predict.cpp": '#include "whatif/rewrite/rows.hpp"\n',
            "src/whatif/loose.cpp": "",
        })
        self.assertEqual(status, 1)
        self.assertEqual(out.count("\n"), 2, out)
        self.assertIn("src/whatif/rewrite/rows.cpp:2: whatif/rewrite/ may not use whatif/catalogue/", out)
        self.assertIn("src/whatif/loose.cpp: not in a sub-folder of whatif/", out)

    def test_an_unknown_folder_is_refused(self):
        self.assertEqual(self.check({"src/misc/a.cpp": ""})[0], 1)

    def test_the_library_does_not_print(self):
        status, out = self.check({
            "src/trace/a.cpp": '// printf(\n\nvoid f() { printf("x"); }\n',
            "src/report/b.cpp": 'auto s = "getenv(";\nint snprintf_like(int);\nvoid g() { snprintf_like(1); }\n',
            "src/cli/main.cpp": 'int main() { printf("x"); }\n',
        })
        self.assertEqual(status, 1)
        self.assertEqual(out.count("\n"), 1, out)
        self.assertIn("src/trace/a.cpp:3", out)

    def test_report_never_computes(self):
        status, out = self.check({
            "src/report/page.cpp": '// predict(\nauto a = analysis::predict(base, uses);\nauto b = to_json(o.predictions);\n',
            "include/foretrace/report/export.hpp": 'inline int f() { return make_baseline (1); }\n',
            "src/overview/overview.cpp": "auto a = search::advise(base, {});\n",
        })
        self.assertEqual(status, 1)
        self.assertEqual(out.count("\n"), 2, out)
        self.assertIn("src/report/page.cpp:2: report/ renders results", out)
        self.assertIn("include/foretrace/report/export.hpp:1", out)

    def test_a_whatif_is_not_asked_for_by_name(self):
        status, out = self.check({
            "src/whatif/catalogue/tf32.cpp": 'const Registered kRegistered({.name = "tf32",\n',
            "src/report/scheme.cpp": 'if (scheme == "ddp") {}\n',
            "src/search/a.cpp": '// tf32\nif (use.whatif->name == "tf32") {}\n',
            "src/report/b.cpp": 'constexpr Row kRows[] = {{"tf32", write_tf32}};\n',
        })
        self.assertEqual(status, 1)
        self.assertEqual(out.count("\n"), 2, out)
        self.assertIn("src/search/a.cpp:2: a what-if is asked for by name", out)
        self.assertIn("src/report/b.cpp:1", out)

    def test_a_lane_is_not_known_by_its_name(self):
        status, out = self.check({
            "src/graph/a.cpp": '// lane.name == kWorkers\nif (g.strings[lane.name] == kWorkers) return l;\n',
            "src/search/b.cpp": "if (g.lanes[l].name != name || lane.role == role) {}\nlane.name = name;\n",
            "src/trace/c.cpp": 'if (strings[lane.name] == "main") {}\n',
        })
        self.assertEqual(status, 1)
        self.assertEqual(out.count("\n"), 2, out)
        self.assertIn("src/graph/a.cpp:2: a lane is known by its role", out)
        self.assertIn("src/search/b.cpp:1", out)


if __name__ == "__main__":
    unittest.main()
