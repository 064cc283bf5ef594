import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class CheckUnused(unittest.TestCase):
    def check(self, files):
        """Compiles the sources and asks which of their functions nobody calls."""
        with tempfile.TemporaryDirectory() as temp:
            for name, text in files.items():
                path = Path(temp) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
                built = Path(temp) / "build/CMakeFiles/foretrace_objects.dir" / (name + ".o")
                built.parent.mkdir(parents=True, exist_ok=True)
                if name.startswith("src/"):
                    subprocess.run(["c++", "-c", path, "-o", built], check=True)
            done = subprocess.run([ROOT / "scripts/check_unused", Path(temp) / "build", temp], capture_output=True, text=True)
        return done.returncode, done.stdout

    def test_what_nobody_calls_is_named_with_its_file(self):
        status, out = self.check({
            "src/base/a.cpp": "namespace foretrace { int here() { return 1; } int nowhere() { return here(); } }\n",
            "src/base/b.cpp": "namespace foretrace { int here(); int other() { return here(); } }\n",
            "src/base/c.cpp": "namespace foretrace { int other(); } int main() { return foretrace::other(); }\n"})
        self.assertEqual((status, out), (1, "src/base/a.cpp: nobody calls foretrace::nowhere\n"))

    def test_the_python_module_counts(self):
        status, out = self.check({
            "src/base/a.cpp": "namespace foretrace { int shown() { return 1; } }\n",
            "python/bindings/a.cpp": "int x = foretrace::shown();\n"})
        self.assertEqual((status, out), (0, "unused: none\n"))


if __name__ == "__main__":
    unittest.main()
