import importlib.util
import io
import subprocess
import tempfile
import unittest
from contextlib import redirect_stdout
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("check_docs", ROOT / "scripts/check_docs.py")
check_docs = importlib.util.module_from_spec(spec)
spec.loader.exec_module(check_docs)

PAGE = """# Page
```console
$ echo one \\
    two > out.txt

$ cat out.txt
one two
$ grep -q 'one two' out.txt
```
```console exit=3
$ true
$ exit 3
```
```console no-run
$ exit 9
something
```
```python
assert open("out.txt").read() == "one two\\n"
```
```sh
exit 7
```
"""

TABLE = """printf 'what      ms\\nfirst   10.25\\nsecond   9.50\\nthird    1.00\\nfourth   2.00\\n'"""


class Pages(unittest.TestCase):
    def run_page(self, text, *options):
        with tempfile.TemporaryDirectory() as temp, redirect_stdout(io.StringIO()) as out:
            page = Path(temp) / "page.md"
            page.write_text(text)
            status = check_docs.main([str(page), "--program", "/bin/true", "--python", "python3", *options])
            self.page = page.read_text()
        return status, out.getvalue()


class CheckDocs(Pages):
    def test_commands_are_found_with_their_lines(self):
        with tempfile.TemporaryDirectory() as temp:
            page = Path(temp) / "page.md"
            page.write_text(PAGE)
            found = list(check_docs.snippets(page))
        self.assertEqual([s.where for s in found], [f"page.md:{n}" for n in (3, 6, 8, 11, 12, 15, 19)])
        self.assertEqual(found[0].text, "echo one two > out.txt")
        self.assertEqual([s.exit for s in found], [0, 0, 0, 0, 3, 0, 0])
        self.assertEqual([s.run for s in found], [True, True, True, True, True, False, True])
        self.assertEqual([s.shown for s in found], [[], ["one two"], [], [], [], ["something"], []])

    def test_a_page_that_works(self):
        status, out = self.run_page(PAGE)
        self.assertEqual(status, 0, out)
        self.assertIn("6 of 6 commands and scripts succeeded, 1 compared with what is shown, 1 not run", out)

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


class ShownOutput(Pages):
    def test_a_digit_that_differs_fails_the_page(self):
        self.assertEqual(self.run_page("```console\n$ echo 71.38 ms\n71.38 ms\n```\n")[0], 0)
        status, out = self.run_page("```console\n$ echo 71.38 ms\n71.34 ms\n```\n")
        self.assertEqual(status, 1)
        self.assertIn("-71.34 ms\n+71.38 ms", out)

    def test_lines_left_out_must_be_marked(self):
        shown = "what      ms\n{}second   9.50\n{}fourth   2.00\n"
        self.assertEqual(self.run_page(f"```console\n$ {TABLE}\n{shown.format('…' + chr(10), '…' + chr(10))}```\n")[0], 0)
        self.assertEqual(self.run_page(f"```console\n$ {TABLE}\n{shown.format('', '')}```\n")[0], 1)
        self.assertEqual(self.run_page(f"```console\n$ {TABLE}\nwhat      ms\n```\n")[0], 1)

    def test_cuts_alone_show_nothing(self):
        for options in ((), ("--update",)):
            self.assertEqual(self.run_page("```console\n$ echo 1; echo 2\n…\n```\n", *options)[0], 1)
        status, out = self.run_page("```console\n$ echo 1; echo 2\n…\nwords that are gone\n…\n```\n", "--update")
        self.assertEqual(status, 1, out)  # not silently cut away

    def test_text_left_out_of_a_line(self):
        self.assertEqual(self.run_page("```console\n$ echo 0.31 s, 5 steps\n… s, 5 steps\n```\n")[0], 0)
        self.assertEqual(self.run_page("```console\n$ echo 0.31 s, 5 steps\n… s, 6 steps\n```\n")[0], 1)

    def test_order_counts(self):
        self.assertFalse(check_docs.same(["b", "…", "a"], ["a", "b"]))
        self.assertTrue(check_docs.same(["…", "a", "…"], ["a"]))
        self.assertTrue(check_docs.same(["…", "b", "…", "b"], ["a", "b", "b", "a", "b"]))

    def test_a_script_prints_what_its_comments_say(self):
        self.assertEqual(self.run_page("```python\nprint('a 1')   #> a 1\nprint('x')\nprint('b 22 c')  #> b … c\n```\n")[0], 0)
        status, out = self.run_page("```python\nprint('a 1')   #> a 2\n```\n")
        self.assertEqual(status, 1)
        self.assertIn("it does not print: a 2", out)
        self.assertEqual(self.run_page("```python\nprint(1); print(2)  #> 2\nprint(3)  #> 1\n```\n")[0], 1)


class Update(Pages):
    def update(self, text):
        status, out = self.run_page(text, "--update")
        self.assertEqual(status, 0, out)
        once = self.page
        self.assertEqual(self.run_page(once)[0], 0)
        return once

    def test_what_is_printed_is_written(self):
        self.assertEqual(self.update("a\n```console\n$ echo 2; echo 3\n1\n$ echo 5\n4\n```\nb\n"),
                         "a\n```console\n$ echo 2; echo 3\n2\n3\n$ echo 5\n5\n```\nb\n")

    def test_what_was_left_out_stays_left_out(self):
        self.assertEqual(self.update(f"```console\n$ {TABLE}\nwhat      ms\n…\nsecond   8.50\n…\n```\n"),
                         f"```console\n$ {TABLE}\nwhat      ms\n…\nsecond   9.50\n…\n```\n")

    def test_what_is_new_between_shown_lines_is_shown(self):
        self.assertEqual(self.update(f"```console\n$ {TABLE}\n…\nsecond   9.50\nfourth   2.00\n```\n"),
                         f"```console\n$ {TABLE}\n…\nsecond   9.50\nthird    1.00\nfourth   2.00\n```\n")

    def test_of_lines_equally_alike_the_first(self):
        command = "printf 'best\\n 9.93 ms\\n detail\\nother\\n 34.29 ms\\n'"
        self.assertEqual(self.update(f"```console\n$ {command}\nbest\n 8.45 ms\n…\n```\n"), f"```console\n$ {command}\nbest\n 9.93 ms\n…\n```\n")

    def test_a_right_page_stays_as_it_is(self):
        self.assertEqual(self.update(PAGE), PAGE)


class FromClone(unittest.TestCase):
    README = """```console install
$ mkdir sub && cd sub && export GREETING=hello
```
```console
$ echo "$GREETING from ${PWD##*/}, home $(ls -A ~ | wc -l)"
hello from sub, home 0
```
```python
import pathlib
assert pathlib.Path.cwd().name == "sub"
```
```console no-run
$ exit 9
```
"""

    def ran(self, text: str) -> tuple[int, str]:
        with tempfile.TemporaryDirectory() as temp:
            readme = Path(temp) / "README.md"
            readme.write_text(text)
            git = ["git", "-C", temp, "-c", "user.name=a", "-c", "user.email=a@b"]
            for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "a"]):
                subprocess.run([*git, *words], check=True)
            said = io.StringIO()
            with mock.patch.object(check_docs, "ROOT", Path(temp)), redirect_stdout(said):
                return check_docs.main(["--from-clone", str(readme)]), said.getvalue()

    def test_lines_are_one_session(self):
        status, said = self.ran(self.README)
        self.assertEqual(status, 0, said)
        self.assertIn("3 of 3 lines", said)

    def test_a_line_that_fails_is_named(self):
        status, said = self.ran(self.README.replace("hello from", "good day from"))
        self.assertEqual(status, 1)
        self.assertIn("2 of 3 lines", said)

    def test_nothing_runs_without_what_was_to_be_installed(self):
        status, said = self.ran(self.README.replace("mkdir sub", "false"))
        self.assertEqual(status, 1)
        self.assertIn("0 of 1 lines", said)


if __name__ == "__main__":
    unittest.main()
