# SPDX-License-Identifier: Apache-2.0
"""The tilec of another commit, in the same process: its Python package under
another name, on its own library.

The package's folder is copied, so that its names can be changed: torch knows an
operator by its name, and two packages may not have the same.
"""
import importlib
import os
import pathlib
import re
import sys
import tempfile

NAME = "tilec_before"


def load(lib, package):
    """The package of the folder `package` (lib/python/tilec of a checkout),
    with the library `lib`."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix=NAME))
    to = folder / NAME
    to.mkdir()
    for path in pathlib.Path(package).rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        text = re.sub(r"\btilec::", NAME + "::", text)
        text = re.sub(r"\bops\.tilec\b", "ops." + NAME, text)
        text = text.replace('Library("tilec"', 'Library("%s"' % NAME)
        own = to / path.relative_to(package)
        own.parent.mkdir(parents=True, exist_ok=True)
        own.write_text(text, encoding="utf-8")
    sys.path.insert(0, str(folder))
    own = os.environ.get("TILEC_LIBRARY")
    os.environ["TILEC_LIBRARY"] = os.path.abspath(lib)
    try:
        module = importlib.import_module(NAME)
        module.version()  # loads the library
    finally:
        if own is None:
            del os.environ["TILEC_LIBRARY"]
        else:
            os.environ["TILEC_LIBRARY"] = own
    return module
