"""Generated code without PyTorch: every file compiles, defines what it calls, and keeps the order that was predicted.
FORETRACE_PROGRAM names the program."""

import ast
import builtins
import os
import symtable
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from plans import write_plans


def undefined(text: str, name: str) -> set[str]:
    """Globals that some function reads and nobody defines."""
    top = symtable.symtable(text, name, "exec")
    known = {s.get_name() for s in top.get_symbols() if s.is_assigned() or s.is_imported() or s.is_namespace()}
    missing: set[str] = set()

    def walk(table: symtable.SymbolTable) -> None:
        for symbol in table.get_symbols():
            if (symbol.is_referenced() and symbol.is_global()) or (table is top and symbol.is_referenced()):
                if symbol.get_name() not in known and not hasattr(builtins, symbol.get_name()):
                    missing.add(symbol.get_name())
        for child in table.get_children():
            walk(child)

    walk(top)
    return missing - {"__file__", "__name__"}


def body_of(text: str, function: str) -> str:
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and node.name == function:
            return ast.unparse(node)
    return ""


class GeneratedCode(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        program = os.environ.get("FORETRACE_PROGRAM", "build/foretrace")
        cls.texts = {n: p.read_text() for n, p in write_plans(Path(cls.folder.name), [program]).items()}

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_every_file_compiles_and_defines_what_it_calls(self):
        for name, text in self.texts.items():
            with self.subTest(name):
                compile(text, name, "exec")
                self.assertEqual(undefined(text, name), set())
                for function in ("prepare", "make_optimizer", "train_step", "make_step", "main"):
                    self.assertTrue(body_of(text, function), function)

    def test_nothing_is_carried_along_that_is_not_called(self):
        for name, text in self.texts.items():
            tree = ast.parse(text)
            read = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
            for node in tree.body:
                if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name != "train_step":
                    self.assertIn(node.name, read | {"make_loader"}, name)
                if isinstance(node, ast.Import):
                    self.assertTrue(all(a.name.split(".")[0] in read for a in node.names), f"{name}: {ast.unparse(node)}")

    def test_workers_are_joined_before_the_whole_model_is_compiled(self):
        # DistributedDataParallel inside the compiled graph cuts it at its buckets: gradients come as backward goes on.
        prepare = body_of(self.texts["ddp_compile"], "prepare")
        self.assertLess(prepare.index("distribute(model)"), prepare.index("model.compile()"))
        # A plan of one's own has nobody to cut the graph: block by block.
        self.assertIn("block.compile()", body_of(self.texts["plan"], "prepare"))
        self.assertNotIn("torch.compile(", "".join(self.texts.values()))

    def test_a_gain_has_one_sign(self):
        # A fused optimizer gains, checkpoints cost: as in the table of parts.
        self.assertRegex(self.texts["fused"], r'"fused"\] = True  # gains \+\d')
        self.assertRegex(self.texts["checkpoint"], r"repeated_blocks\(model\):  # gains -\d")


if __name__ == "__main__":
    unittest.main()
