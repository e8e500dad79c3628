#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Syntax files of editors color what the language has.

    editors.py TILEC SOURCE [vim]

Every op, word, scalar type and attribute of the tables, and every token of the
kernels, gets the scope or group of its kind: by the TextMate grammar, which is
read here, or (`vim`) by vim itself. What kind a token is, a lexer here says.
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

TILEC, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
KERNELS = sorted(SOURCE.glob("kernels/**/*.tile")) + [
    SOURCE / "test/ir/nvptx" / name
    for name in ("reordered.tile", "warp-groups.tile", "tma.tile")]

# kind: scopes that begin so; groups of vim
KINDS = {
    "comment": (["comment."], ["tilecComment", "tilecTodo"]),
    "string": (["string.", "constant.character"],
               ["tilecString", "tilecEscape"]),
    "value": (["variable.other"], ["tilecValueName"]),
    "function": (["entity.name.function"], ["tilecFunction"]),
    "layout": (["entity.name.tag"], ["tilecLayout"]),
    "number": (["constant.numeric"], ["tilecNumber", "tilecSide"]),
    "type": (["storage.type"], ["tilecType", "tilecSideType"]),
    "op": (["support.function", "keyword.control"],
           ["tilecOp", "tilecMachineOp", "tilecKeyword"]),
    "word": (["keyword.control", "storage.modifier", "support.function",
              "constant.language"],
             ["tilecKeyword", "tilecClause", "tilecOp", "tilecConstant"]),
    "attribute": (["entity.other", "support.function", "keyword.control",
                   "storage.modifier"],
                  ["tilecAttribute", "tilecOp", "tilecMachineOp",
                   "tilecKeyword", "tilecClause"]),
    "parameter": (["variable.parameter"],
                  ["tilecParameter", "tilecSideParameter"]),
    "operator": (["keyword.operator"], ["tilecOperator", "tilecBy"]),
}


# ---- The language, from its tables ----

def tables():
    ops = re.findall(r'^OP\(\w+, "(\w+)", \w+, [^"]*"[^"]*", "[^"]*",((?:\s*"[^"]*")+)',
                     (SOURCE / "ir/ops.def").read_text(), re.MULTILINE)
    attributes = set()
    for _, strings in ops:
        # The last string or strings are the summary: declarations have `:`.
        for piece in re.findall(r'"([^"]*)"', strings):
            attributes |= set(re.findall(r"(?:^| )(\w+)\??:(?=[a-z])", piece))
    words = re.findall(r'^WORD\((\w+), "(\w+)"\)',
                       (SOURCE / "ir/words.def").read_text(), re.MULTILINE)
    types = re.findall(r'\[TC_\w+\] = \{"(\w+)", \d',
                       (SOURCE / "ir/types/type.c").read_text())
    assert len(ops) > 90 and len(words) > 50 and len(types) >= 18, \
        (len(ops), len(words), types)
    return {name for name, _ in ops}, words, set(types), attributes


OPS, WORDS, TYPES, ATTRIBUTES = tables()
TYPES |= {text for kind, text in WORDS if kind == "TYPE"}

TOKEN = re.compile(r"""(?P<comment>//.*)|(?P<string>"(?:[^"\\]|\\.)*")
    |(?P<value>%[\w.]+)|(?P<function>@[\w.]+)|(?P<layout>\#[A-Za-z_]\w*)
    |(?P<shape>\b(?:tile|block_ptr|smem)(?=<))
    |(?P<number>0[xX][0-9a-fA-F]+|\d+(?:x\d+)+|\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)
    |(?P<name>[A-Za-z_]\w*)
    |(?P<operator>->|\+:|>>>|<<|>>|[=!<>]=|[-+*/=<>&|^~!?])|(?P<space>\s+)|.
    """, re.VERBOSE)
SIDE = re.compile(r"""(?P<number>\d+)|(?P<operator>x)|(?P<layout>\#[A-Za-z_]\w*)
    |(?P<type>%s)|(?P<parameter>[A-Z_a-wyz][A-Z_a-wyz0-9]*)|(?P<space>\s+)|(?P<end>[<>(,])|.
    """ % "|".join(sorted(TYPES, key=len, reverse=True)), re.VERBOSE)


def kind_of_name(text, after):
    if text in TYPES:
        return "type"
    if text in OPS:
        return "op"
    if text == "x":
        return "operator"
    if text in {word for _, word in WORDS}:
        return "word"
    if text in ATTRIBUTES and re.match(r"\s*(\(|=(?!=))", after):
        return "attribute"
    return "parameter" if text[0].isupper() else None


def tokens(line):
    """(column, text, kind) of what has a kind."""
    at, sides = 0, False
    while at < len(line):
        m = (SIDE if sides else TOKEN).match(line, at)
        kind, text = m.lastgroup, m.group()
        if kind == "end":
            sides = False
            kind = "operator" if text not in "(,<>" else None
        elif kind == "shape":
            kind, sides = "type", True
            yield at, text, kind
            at, kind = m.end() + 1, None
            continue
        elif kind == "name":
            kind = kind_of_name(text, line[m.end():])
        if kind == "operator" and text in "<>":
            kind = None # of a type: punctuation
        if kind and kind != "space":
            yield at, text, kind
        at = m.end()


def samples():
    """Lines: each word of the tables by itself, then the kernels."""
    for text in sorted(OPS | TYPES | {w for _, w in WORDS}):
        yield "tables", text
    for text in sorted(ATTRIBUTES):
        yield "tables", f"{text}(1)"
        yield "tables", f"f({text}=1)"
    for path in KERNELS:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            yield f"{path.relative_to(SOURCE)}:{number}", line


# ---- TextMate ----

class Grammar:
    """What the engines do with the parts of grammars that are used here."""

    def __init__(self, text):
        self.top = json.loads(text)
        self.compiled = {}

    def patterns(self, rules):
        for rule in rules:
            if "include" not in rule:
                yield rule
            elif rule["include"] == "$self":
                yield from self.patterns(self.top["patterns"])
            else:
                part = self.top["repository"][rule["include"][1:]]
                yield from self.patterns(part["patterns"])

    def search(self, pattern, line, at):
        if pattern not in self.compiled:
            self.compiled[pattern] = re.compile(pattern)
        return self.compiled[pattern].search(line, at)

    def first(self, rules, line, at):
        best = None
        for rule in self.patterns(rules):
            m = self.search(rule.get("match") or rule["begin"], line, at)
            if m and (best is None or m.start() < best[0].start()):
                best = m, rule
                if m.start() == at:
                    break
        return best or (None, None)

    def scopes(self, line):
        """The scope of each character of a line."""
        out = [""] * (len(line) + 1)
        stack = [{"patterns": self.top["patterns"]}]
        at = 0
        while at <= len(line):
            region = stack[-1]
            m, rule = self.first(region["patterns"], line, at)
            end = self.search(region["end"], line, at) if "end" in region \
                else None
            if end and (not m or end.start() <= m.start()):
                m, rule = end, None
            if not m:
                m_start = len(line)
            else:
                m_start = m.start()
            for i in range(at, m_start):
                out[i] = region.get("name", "")
            if not m:
                break
            name = (rule or region).get("name", region.get("name", ""))
            for i in range(m.start(), m.end()):
                out[i] = name
            for group, capture in (rule or {}).get("beginCaptures", {}).items():
                for i in range(m.start(int(group)), m.end(int(group))):
                    out[i] = capture["name"]
            if rule is None:
                stack.pop()
            elif "begin" in rule:
                stack.append(rule)
            elif m.end() == m.start():
                sys.exit(f"{rule['match']} matches nothing")
            at = m.end()
        assert len(stack) == 1, f"open after its line: {line}"
        return out


def printed(topic):
    return subprocess.run([TILEC, "info", topic], check=True,
                          capture_output=True, text=True).stdout


def textmate(lines):
    text = printed("textmate")
    check_extension(json.loads(text))
    # Without one op, that one is found.
    broken = Grammar(text.replace("|load|", "|"))
    assert not broken.scopes("load")[0], "a grammar without `load` has it"
    grammar = Grammar(text)
    return [grammar.scopes(line) for line in lines]


def check_extension(grammar):
    """The extension of VS Code names this grammar, and its files are JSON."""
    folder = SOURCE / "tools/editors/vscode"
    parts = json.loads((folder / "package.json").read_text())["contributes"]
    entry, = parts["grammars"]
    language, = parts["languages"]
    assert entry["scopeName"] == grammar["scopeName"]
    assert entry["language"] == language["id"]
    assert [f".{name}" for name in grammar["fileTypes"]] == \
        language["extensions"]
    settings = json.loads((folder / language["configuration"]).read_text())
    word = re.compile(settings["wordPattern"])
    for text in ("%lo.1", "@causal", "#mma", "exp2", "-1.5e-3"):
        assert word.fullmatch(text), text


# ---- vim ----

LOOK = r"""
let rows = []
for line in range(1, line('$'))
  let row = []
  for col in json_decode(columns[line - 1])
    call add(row, synIDattr(synID(line, col, 1), 'name'))
  endfor
  call add(rows, json_encode(row))
endfor
call writefile(rows, 'out')
qa!
"""


def vim(lines):
    if not shutil.which("vim"):
        print("there is no vim")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for part in ("syntax", "ftdetect"):
            (folder / part).mkdir()
        (folder / "syntax/tilec.vim").write_text(printed("vim"))
        shutil.copy(SOURCE / "tools/editors/vim/ftdetect/tilec.vim",
                    folder / "ftdetect")
        # A name that vim would know another way.
        (folder / "text.tile").write_text("\n".join(lines) + "\n")
        columns = [json.dumps([at + 1 for at, _, _ in tokens(line)])
                   for line in lines]
        (folder / "columns").write_text("\n".join(columns) + "\n")
        (folder / "look.vim").write_text(
            "let columns = readfile('columns')\n" + LOOK)
        run = subprocess.run(
            ["vim", "-N", "-u", "NONE", "-i", "NONE", "-es", "--not-a-term",
             "--cmd", f"set rtp^={folder}", "-c", "filetype on",
             "-c", "syntax on", "-c", "edit text.tile",
             "-c", "source look.vim", "-c", "qa!"],
            cwd=folder, capture_output=True, text=True, check=False)
        if not (folder / "out").exists():
            print(run.stdout, run.stderr)
            sys.exit("vim wrote nothing (has it +eval and +syntax?)")
        rows = [json.loads(row)
                for row in (folder / "out").read_text().splitlines()]
    out = []
    for line, row in zip(lines, rows, strict=True):
        groups = [""] * (len(line) + 1)
        for (at, _, _), group in zip(tokens(line), row, strict=True):
            groups[at] = group
        out.append(groups)
    return out


def main():
    which = 1 if sys.argv[3:] == ["vim"] else 0
    places, lines = zip(*samples())
    rows = (textmate, vim)[which](lines)
    seen, wrong = set(), 0
    for place, line, row in zip(places, lines, rows, strict=True):
        for at, text, kind in tokens(line):
            seen.add(kind)
            allowed = KINDS[kind][which]
            good = row[at] in allowed if which else \
                any(row[at].startswith(scope) for scope in allowed)
            if not good and wrong < 20:
                print(f"{place}:{at + 1}: `{text}` is a {kind}, "
                      f"found `{row[at]}`, expected {' or '.join(allowed)}")
            wrong += not good
    missing = set(KINDS) - seen
    if wrong or missing:
        sys.exit(f"{wrong} tokens; no token of {sorted(missing)}")
    print(f"{len(lines)} lines")


main()
