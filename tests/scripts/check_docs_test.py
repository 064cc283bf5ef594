import importlib.util
import io
import tempfile
import unittest
from contextlib import redirect_stdout
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("check_docs", ROOT / "scripts/check_docs.py")
check_docs = importlib.util.module_from_spec(spec)
spec.loader.exec_module(check_docs)

PAGE = """# Page
```console
$ echo one \\
    two > out.txt
output that is not compared
$ grep -q 'one two' out.txt
```
```console exit=3
$ true
$ exit 3
```
```console no-run
$ exit 9
```
```python
assert open("out.txt").read() == "one two\\n"
```
```sh
exit 7
```
"""


class CheckDocs(unittest.TestCase):
    def run_page(self, text):
        with tempfile.TemporaryDirectory() as temp, redirect_stdout(io.StringIO()) as out:
            page = Path(temp) / "page.md"
            page.write_text(text)
            status = check_docs.main([str(page), "--program", "/bin/true", "--python", "python3"])
        return status, out.getvalue()

    def test_commands_are_found_with_their_lines(self):
        with tempfile.TemporaryDirectory() as temp:
            page = Path(temp) / "page.md"
            page.write_text(PAGE)
            found = list(check_docs.snippets(page))
        self.assertEqual([s.where for s in found], [f"page.md:{n}" for n in (3, 6, 9, 10, 13, 16)])
        self.assertEqual(found[0].text, "echo one two > out.txt")
        self.assertEqual([s.exit for s in found], [0, 0, 0, 3, 0, 0])
        self.assertEqual([s.run for s in found], [True, True, True, True, False, True])

    def test_a_page_that_works(self):
        status, out = self.run_page(PAGE)
        self.assertEqual(status, 0, out)
        self.assertIn("5 of 5 commands and scripts succeeded, 1 not run", out)

    def test_a_failing_command_fails_the_page(self):
        status, out = self.run_page("```console\n$ echo why; false\n```\n")
        self.assertEqual(status, 1)
        self.assertIn("page.md:2: FAILED", out)
        self.assertIn("why", out)

    def test_a_wrong_exit_code_fails_the_page(self):
        self.assertEqual(self.run_page("```console exit=3\n$ true\n```\n")[0], 1)

    def test_a_failing_script_fails_the_page(self):
        self.assertEqual(self.run_page("```python\nraise ValueError('x')\n```\n")[0], 1)

    def test_an_unknown_word_is_an_error(self):
        with self.assertRaises(SystemExit):
            self.run_page("```console exit-3\n$ true\n```\n")


if __name__ == "__main__":
    unittest.main()
