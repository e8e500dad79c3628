# SPDX-License-Identifier: Apache-2.0
#
# The tests that are text: programs with RUN lines and expectations.
#
#   lit -sv test/ir -D tilec=build/tilec
#
# Substitutions: tilec, FileCheck, not, split-file, %s (the file), %t (a
# temporary name), nvptx_ptx (a kernel at machine level to PTX), %ptxas (does it
# assemble, without spills?), %same (do two safetensors files hold the same
# numbers?), %declines (does a pass leave each edit of a program as it is?). A file that expects nothing fails: it needs a CHECK line, or
# an expected-error (-warning, -remark, -note) with --verify-diagnostics.
import os
import re
import shutil
import sys

# lit sends the format to its workers by the name of its module.
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import expecting


def find_tool(name):
    """In LLVM's folders, the newest first, then in PATH."""
    folders = []
    if os.path.isdir("/usr/lib"):
        folders = [d for d in os.listdir("/usr/lib")
                   if re.fullmatch(r"llvm-\d+", d)]
    folders.sort(key=lambda d: -int(d[5:]))
    for d in folders:
        path = os.path.join("/usr/lib", d, "bin", name)
        if os.access(path, os.X_OK):
            return path
    return shutil.which(name)


config.name = "tilec"
config.suffixes = [".tile", ".test"]
# Inputs are what RUN lines of other files read.
config.excludes = ["Inputs", "broken"]
config.test_format = expecting.ExpectingTest(execute_external=False)
config.test_source_root = os.path.dirname(__file__)

tilec = lit_config.params.get("tilec", "build/tilec")
tilec = os.path.abspath(tilec)
if not os.access(tilec, os.X_OK):
    lit_config.fatal("no tilec at %s (-D tilec=PATH)" % tilec)
config.test_exec_root = os.path.join(os.path.dirname(tilec), "lit")

# `broken` holds tests that must fail: test/ir/opt/broken.test runs them.
if lit_config.params.get("broken"):
    config.excludes.remove("broken")

for name in ["FileCheck", "not", "split-file"]:
    path = find_tool(name)
    if not path:
        lit_config.fatal("%s is not installed (package llvm-22-tools)" % name)
    config.substitutions.append((r"(?<![\w/.-])%s(?![\w/.-])" % name, path))
lit_tool = os.path.abspath(sys.argv[0])
if os.access(lit_tool, os.X_OK):
    config.available_features.add("lit")
    config.substitutions.append(("%lit", lit_tool))
config.substitutions.append(("%tilec_path", tilec))
# After every pass the text must parse back to the same text.
config.substitutions.append((r"(?<![\w/.@%-])tilec opt(?![\w.:=-])",
                             tilec + " opt --round-trip"))
config.substitutions.append((r"(?<![\w/.@%-])tilec(?![\w/.:=-])", tilec))
nvptx_ptx = lit_config.params.get("nvptx_ptx") or os.path.join(
    os.path.dirname(tilec), "test", "nvptx_ptx")
config.substitutions.append((r"(?<![\w/.-])nvptx_ptx(?![\w.-])",
                             os.path.abspath(nvptx_ptx)))
config.substitutions.append(("%ptxas", "%s %s" % (
    sys.executable,
    os.path.join(os.path.dirname(os.path.abspath(__file__)), "ptxas.py"))))
config.substitutions.append(("%same", "%s %s" % (
    sys.executable,
    os.path.join(os.path.dirname(os.path.abspath(__file__)), "same.py"))))
config.substitutions.append(("%declines", "%s %s %s" % (
    sys.executable,
    os.path.join(os.path.dirname(os.path.abspath(__file__)), "declines.py"),
    tilec)))
config.substitutions.append(("%root", os.path.dirname(os.path.dirname(
    os.path.dirname(os.path.abspath(__file__))))))

# Tests that have output compared must not depend on the terminal.
config.environment["NO_COLOR"] = "1"
for name in ["ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"]:
    if name in os.environ:
        config.environment[name] = os.environ[name]
