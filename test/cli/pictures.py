#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the pictures of `tilec info mask` and `tilec info layout`: nothing may
be cut off at their edges, and colors must be what they are meant to be.

    pictures.py TILEC
"""
import io
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

try:
    from PIL import Image
    subprocess.run(["rsvg-convert", "--version"], check=True,
                   stdout=subprocess.DEVNULL)
except (ImportError, OSError) as why:
    print(f"skipped: no renderer (python3-pil, librsvg2-bin): {why}")
    sys.exit(77)

SVG = "{http://www.w3.org/2000/svg}"
WIDER = 400  # pixels: what would be cut off shows there


def make(arguments):
    with tempfile.NamedTemporaryFile(suffix=".svg") as out:
        subprocess.run([sys.argv[1], "info", *arguments, "-o", out.name],
                       check=True, stdout=subprocess.DEVNULL)
        return open(out.name, encoding="utf-8").read()


def render(text):
    done = subprocess.run(["rsvg-convert"], input=text.encode(), check=True,
                          stdout=subprocess.PIPE)
    return Image.open(io.BytesIO(done.stdout)).convert("RGBA")


def size_of(text):
    root = xml.fromstring(text)
    return int(root.get("width")), int(root.get("height"))


def enlarged(text):
    width, height = size_of(text)
    return re.sub(r'width="\d+" height="\d+"',
                  f'width="{width + WIDER}" height="{height + WIDER}"', text,
                  count=1)


def is_whole(text):
    """Nothing is drawn beyond the edges."""
    width, height = size_of(text)
    picture = render(enlarged(text))
    right = picture.crop((width, 0, width + WIDER, height + WIDER))
    below = picture.crop((0, height, width + WIDER, height + WIDER))
    return right.getbbox() is None and below.getbbox() is None


def check(arguments, cells):
    """cells: the number of titles of cells."""
    text = make(arguments)
    assert is_whole(text), f"{arguments}: something is cut off"
    assert not is_whole(re.sub(r'width="\d+"', 'width="60"', text, count=1)), \
        "the check for what is cut off finds nothing"
    root = xml.fromstring(text)
    titles = [t.text for t in root.iter(SVG + "title")]
    assert len(titles) == cells + 1, f"{arguments}: {len(titles)} titles"
    for color in re.findall(r'(?:fill|stroke)[=:]"?([^;"}]+)', text):
        assert color == "none" or re.fullmatch("#[0-9a-f]{6}", color), color
    return text, root


def color_at(picture, rect):
    x, y = (float(rect.get(k)) for k in ("x", "y"))
    return "#%02x%02x%02x" % picture.getpixel((int(x) + 2, int(y) + 2))[:3]


def main():
    for mask in ("causal", "causal & sliding_window(w=300)",
                 "causal & (sliding_window(w=256) | prefix_lm(prefix=32)) & "
                 "!sink_window(w=700, sink=1000)"):
        text = make(["mask", mask, "--q-len", "1000"])
        check(["mask", mask, "--q-len", "1000"], text.count('class="partial"')
              + text.count('class="full"'))
    text, root = check(["mask", "causal", "--q-len", "1000"], 8 + 7)
    picture = render(text)
    colors = {r.get("class"): color_at(picture, r)
              for r in root.iter(SVG + "rect")}
    assert colors["partial"] == "#9ecae1", colors
    assert colors["full"] == "#2171b5", colors
    for layout in ("#mma(4x1)", "#swizzle128", "#blocked(1x8, 4x8, 4x1)"):
        text, root = check(["layout", layout, "32x64"], 32 * 64)
        picture = render(text)
        for rect in root.iter(SVG + "rect"):
            want = rect.get("fill")
            got = color_at(picture, rect)
            assert got == want, f"{layout}: {got} is drawn, {want} meant"
    check(["layout", "#blocked(1x1, 4x8, 1x1)", "8x8"], 64)


main()
