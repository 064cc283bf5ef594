"""Which sources clang-tidy looks at, also in clones that do not hold what it compares with."""

import importlib.machinery
import importlib.util
import io
import subprocess
import tempfile
import unittest
from contextlib import redirect_stdout
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
loader = importlib.machinery.SourceFileLoader("tidy", str(ROOT / "scripts/tidy"))
tidy = importlib.util.module_from_spec(importlib.util.spec_from_loader("tidy", loader))
loader.exec_module(tidy)


class Chosen(unittest.TestCase):
    def setUp(self):
        temp = tempfile.TemporaryDirectory()
        self.addCleanup(temp.cleanup)
        self.root = Path(temp.name)
        self.git("init", "-q", "-b", "main")
        for name in (f"s{i:02}.cpp" for i in range(50)):
            (self.root / name).write_text('#include "h.hpp"\n' if name == "s07.cpp" else "\n")
        (self.root / "h.hpp").write_text("\n")
        self.commit()
        self.sources = sorted(self.root.glob("*.cpp"))
        for name, value in {"ROOT": self.root, "RELEASE": self.root / "last-release"}.items():
            patch = mock.patch.object(tidy, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def git(self, *args):
        subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@t", *args], cwd=self.root, check=True, capture_output=True)

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "x")

    def change(self, name):
        (self.root / name).write_text((self.root / name).read_text() + "// changed\n")
        self.commit()

    def chosen(self, *argv):
        tidy.includes.cache_clear()
        with redirect_stdout(io.StringIO()) as out:
            found = [s.name for s in tidy.chosen(list(argv), self.sources)]
        self.said = out.getvalue()
        return found

    def test_what_a_commit_changed_and_who_includes_it(self):
        self.change("h.hpp")
        self.change("s11.cpp")
        self.assertEqual(self.chosen("--since", "HEAD~1"), ["s11.cpp"])
        self.assertEqual(self.chosen("--since", "HEAD~2"), ["s07.cpp", "s11.cpp"])

    def test_a_revision_that_is_not_there_still_checks_something(self):
        self.assertEqual(self.chosen("--since", "HEAD~7"), ["s00.cpp", "s25.cpp"])
        self.assertIn("not in this clone", self.said)

    def test_the_release_is_a_tag_or_a_named_commit_or_everything(self):
        self.change("s03.cpp")
        self.assertEqual(len(self.chosen("--since-release")), 50)
        first = subprocess.run(["git", "rev-list", "--max-parents=0", "HEAD"], cwd=self.root, check=True, capture_output=True, text=True)
        tidy.RELEASE.write_text(f"# the last release\n{first.stdout.strip()} 0.1.0\n")
        self.assertEqual(self.chosen("--since-release"), ["s03.cpp"])
        self.git("tag", "v0.2.0")
        self.change("s04.cpp")
        self.assertEqual(self.chosen("--since-release"), ["s04.cpp"])
        tidy.RELEASE.write_text("0123456789012345678901234567890123456789\n")
        self.git("tag", "-d", "v0.2.0")
        self.assertEqual(len(self.chosen("--since-release")), 50)


if __name__ == "__main__":
    unittest.main()
