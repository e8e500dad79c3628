# SPDX-License-Identifier: Apache-2.0
"""Pages of the inspector that tests open: kernels, and documents of other
commands."""
import json
import os
import subprocess

SKIPPED = 77
KERNELS = {
    "attention_fwd": ["attention_fwd", "--target", "sm_90a", "-D", "D=128",
                      "-D", "T=bf16", "-D", "mask_mod=@causal"],
    "attention_bwd": ["attention_bwd@attention_bwd", "--target", "sm_90a",
                      "-D", "D=128", "-D", "T=bf16", "-D", "mask_mod=@causal"],
    "matmul": ["matmul", "--target", "sm_80"],
}
BROKEN = """kernel @broken(%x: tensor<[?] x f32>) grid(1) {
  %t = lod %x[0 +: 64]
  store %x[0 +: 64], %t
}
"""
failures = []


def check(holds, what):
    if not holds:
        failures.append(what)
        print("failed: " + what)


def tilec(program, *words):
    return subprocess.run([program, *words], capture_output=True, text=True)


def make_page(program, folder, name, words, code=0):
    """The path of the page that `tilec inspect` writes."""
    path = os.path.join(folder, name + ".html")
    r = tilec(program, "inspect", *words, "-o", path)
    check(r.returncode == code, "%s: exit code %d: %s"
          % (name, r.returncode, r.stderr))
    return path


def make_broken(program, folder):
    source = os.path.join(folder, "broken.tile")
    with open(source, "w") as f:
        f.write(BROKEN)
    return make_page(program, folder, "broken",
                     [source, "--target", "sm_80"], code=1)


def make_mask(program, folder, *words):
    mask = os.path.join(folder, "mask.json")
    r = tilec(program, "info", "mask", *words, "--json", "-o", mask)
    check(r.returncode == 0, "info mask: " + r.stderr)
    return mask


def make_measured(program, folder, words):
    """A timeline that says that it is measured: twice as long as modelled."""
    r = tilec(program, "compile", *words, "--emit=timeline")
    check(r.returncode == 0, "--emit=timeline: " + r.stderr)
    timeline = json.loads(r.stdout)
    timeline.update(source="measured", step=2 * timeline["step"])
    measured = os.path.join(folder, "measured.json")
    with open(measured, "w") as f:
        json.dump(timeline, f)
    return measured, timeline
