// SPDX-License-Identifier: Apache-2.0
//
// The VS Code extension with the real language server, in an editor that this
// file stands for: it records what the extension registers and calls that.
//
//   node vscode.js TILEC SOURCE
'use strict';
const assert = require('assert');
const fs = require('fs');
const Module = require('module');
const os = require('os');
const path = require('path');

const [tilec, source] = process.argv.slice(2);

// ---- The editor ----

class Position {
  constructor(line, character) { Object.assign(this, {line, character}); }
}
class Range {
  constructor(a, b, c, d) {
    this.start = new Position(a, b);
    this.end = new Position(c, d);
  }
}
const record = (...names) => class {
  constructor(...values) {
    names.forEach((name, i) => { this[name] = values[i]; });
  }
};
class MarkdownString {
  constructor() { this.value = ''; }
  appendText(text) { this.value += text; return this; }
}
class WorkspaceEdit {
  constructor() { this.edits = []; }
  set(uri, edits) { this.edits.push([uri.toString(), edits]); }
}
const uri = (text) => ({toString: () => text});

const editor = {providers: {}, events: {}, problems: new Map(), errors: []};
const settings = {path: tilec};
const provide = (name) => (language, provider, ...more) => {
  assert.strictEqual(language, 'tilec');
  editor.providers[name] = provider;
  return {dispose() {}, more};
};
const event = (name) => (run) => {
  editor.events[name] = run;
  return {dispose() {}};
};
const vscode = {
  Range, MarkdownString, WorkspaceEdit,
  Location: record('uri', 'range'),
  Hover: record('contents', 'range'),
  CompletionItem: record('label', 'kind'),
  Diagnostic: record('range', 'message', 'severity'),
  DiagnosticRelatedInformation: record('location', 'message'),
  TextEdit: {replace: (range, newText) => ({range, newText})},
  Uri: {parse: uri},
  languages: {
    createDiagnosticCollection: () => ({
      set(u, list) {
        editor.problems.set(u.toString(), list);
        if (editor.onProblems)
          editor.onProblems(list);
      },
      clear() { editor.problems.clear(); },
      dispose() {},
    }),
    registerHoverProvider: provide('hover'),
    registerDefinitionProvider: provide('definition'),
    registerReferenceProvider: provide('references'),
    registerRenameProvider: provide('rename'),
    registerDocumentFormattingEditProvider: provide('format'),
    registerCompletionItemProvider: provide('completion'),
  },
  workspace: {
    textDocuments: [],
    getConfiguration: () => settings,
    onDidOpenTextDocument: event('open'),
    onDidChangeTextDocument: event('change'),
    onDidCloseTextDocument: event('close'),
  },
  window: {showErrorMessage: (text) => editor.errors.push(text)},
};
settings.get = (name) => settings[name];
const load = Module._load;
Module._load = (name, ...more) =>
  name === 'vscode' ? vscode : load(name, ...more);

// ---- The dialogue ----

const text = `// grüße 😀
func @twice(%x: f32) -> f32 {
  %y = %x+%x
  return %y
}
`;
const document = {
  uri: uri('file:///a%20b/twice.tile'), languageId: 'tilec', version: 1, text,
  getText() { return this.text; },
};
const problems = () => new Promise((resolve) => { editor.onProblems = resolve; });

async function main() {
  const folder = path.join(source, 'tools/editors/vscode');
  const extension = require(path.join(folder, 'extension.js'));
  const context = {subscriptions: []};
  // One that was opened before, and one of another language.
  vscode.workspace.textDocuments.push(document,
                                      {...document, languageId: 'c'});
  let next = problems();
  await extension.activate(context);
  assert.deepStrictEqual(await next, []);

  const {hover, definition, references, rename, format, completion} =
    editor.providers;
  const y = new Position(3, 10); // in `return %y`
  const shown = await hover.provideHover(document, y);
  assert.match(shown.contents.value, /%y: f32/);
  assert.strictEqual(shown.range.start.line, 3);
  const [place] = await definition.provideDefinition(document, y);
  assert.strictEqual(place.uri.toString(), document.uri.toString());
  assert.strictEqual(place.range.start.line, 2);
  const uses = await references.provideReferences(
    document, y, {includeDeclaration: true});
  assert.deepStrictEqual(uses.map((u) => u.range.start.line).sort(), [2, 3]);
  const renamed = await rename.provideRenameEdits(document, y, 'sum');
  assert.strictEqual(renamed.edits[0][0], document.uri.toString());
  assert.strictEqual(renamed.edits[0][1].length, 2);
  assert.strictEqual(await rename.provideRenameEdits(document, y, '1 2'), null);
  const edits = await format.provideDocumentFormattingEdits(document, {});
  assert.match(edits[0].newText, /%y = %x \+ %x\n/);
  const offered = await completion.provideCompletionItems(
    document, new Position(3, 2));
  const exp = offered.find((item) => item.label === 'exp2');
  assert.strictEqual(exp.kind, 2); // vscode.CompletionItemKind.Function

  // A mistake is typed, as an event of the editor, and undone.
  const type = (range, typed) => {
    document.version++;
    editor.events.change({document, contentChanges: [{range, text: typed}]});
  };
  next = problems();
  type(new Range(3, 9, 3, 11), '%z');
  const [problem] = await next;
  assert.match(problem.message, /%z/);
  assert.strictEqual(problem.range.start.line, 3);
  assert.strictEqual(problem.severity, 0);
  next = problems();
  type(new Range(3, 9, 3, 11), '%y');
  assert.deepStrictEqual(await next, []);
  next = problems();
  editor.events.close(document);
  assert.deepStrictEqual(await next, []);
  // The document is not open any more: no answer is no error.
  assert.strictEqual(await hover.provideHover(document, y), null);
  await extension.deactivate();
  assert.deepStrictEqual(editor.errors, []);

  // A command that is not there is said once.
  settings.path = path.join(os.tmpdir(), 'no-such-tilec');
  await extension.activate({subscriptions: []});
  assert.strictEqual(editor.errors.length, 1);
  assert.match(editor.errors[0], /no-such-tilec lsp.*does not run.*tilec.path/s);
  assert.strictEqual(await editor.providers.hover.provideHover(document, y),
                     null);

  // What package.json names is there; the setting has a default.
  const named = JSON.parse(
    fs.readFileSync(path.join(folder, 'package.json'), 'utf8'));
  assert(fs.existsSync(path.join(folder, named.main)));
  assert.strictEqual(
    named.contributes.configuration.properties['tilec.path'].default, 'tilec');
}

main().catch((error) => {
  console.error(error);
  process.exit(1); // the server may still run
});
