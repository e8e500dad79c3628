# SPDX-License-Identifier: Apache-2.0
"""All that is public has type annotations that can be read at run time."""
import importlib
import inspect
import pathlib
import sys
import typing
import unittest

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "lib" / "python"
sys.path.insert(0, str(PACKAGE))

try:
    import torch
except ImportError:
    torch = None

PUBLIC = ["tilec"]
if torch:
    PUBLIC += ["tilec.distributed", "tilec.flash_attn", "tilec.flex_attention",
               "tilec.integrations.diffusers", "tilec.integrations.export",
               "tilec.integrations.inductor", "tilec.integrations.transformers"]


def _is_public(name):
    return not name.startswith("_") or name.endswith("__")


def _is_ours(f):
    """Whether it is written in the package: dataclasses write some."""
    return f.__code__.co_filename.startswith(str(PACKAGE))


def functions_of(module):
    """(name, function) of the functions, methods of tilec's classes too."""
    for name in module.__all__:
        found = getattr(module, name)
        if inspect.isclass(found) and found.__module__.startswith("tilec"):
            for part, f in vars(found).items():
                f = f.fget if isinstance(f, property) else f
                if inspect.isfunction(f) and _is_public(part) and \
                        _is_ours(f):
                    yield "%s.%s" % (name, part), f
        elif inspect.isfunction(found) and _is_ours(found):
            yield name, found


class Annotations(unittest.TestCase):
    def test_each_parameter_and_result(self):
        for path in PUBLIC:
            module = importlib.import_module(path)
            found = list(functions_of(module))
            self.assertTrue(found, path)
            for name, f in found:
                with self.subTest("%s.%s" % (path, name)):
                    hints = typing.get_type_hints(f)
                    self.assertIn("return", hints)
                    for parameter in inspect.signature(f).parameters:
                        if parameter != "self":
                            self.assertIn(parameter, hints)


if __name__ == "__main__":
    unittest.main()
