// SPDX-License-Identifier: Apache-2.0
//
// Starts `tilec lsp` and hands its answers to VS Code, without libraries: the
// server knows few requests, all of which are about an open document.
'use strict';
const {spawn} = require('child_process');
const vscode = require('vscode');

const LANGUAGE = 'tilec';

// Messages have a header with their bytes, and are JSON.
class Server {
  constructor(command, onNotification, onEnd) {
    this.waiting = new Map();
    this.id = 0;
    this.bytes = Buffer.alloc(0);
    this.onNotification = onNotification;
    this.process = spawn(command, ['lsp'],
                         {stdio: ['pipe', 'pipe', 'ignore']});
    this.process.on('error', (error) => this.end(onEnd, error.message));
    this.process.on('exit', (code) => this.end(onEnd, `exit code ${code}`));
    this.process.stdin.on('error', () => {}); // its end is reported above
    this.process.stdout.on('data', (bytes) => this.read(bytes));
  }

  end(onEnd, why) {
    if (!this.ended) {
      this.ended = true;
      for (const resolve of this.waiting.values())
        resolve(null);
      onEnd(why);
    }
  }

  read(bytes) {
    this.bytes = Buffer.concat([this.bytes, bytes]);
    for (;;) {
      const head = this.bytes.indexOf('\r\n\r\n');
      const length = head < 0 ? null : /Content-Length: (\d+)/i.exec(
        this.bytes.toString('latin1', 0, head));
      const end = length ? head + 4 + Number(length[1]) : Infinity;
      if (this.bytes.length < end)
        return;
      const text = this.bytes.toString('utf8', head + 4, end);
      this.bytes = this.bytes.subarray(end);
      this.take(JSON.parse(text));
    }
  }

  take(message) {
    if (message.method) {
      this.onNotification(message.method, message.params);
    } else if (this.waiting.has(message.id)) {
      const resolve = this.waiting.get(message.id);
      this.waiting.delete(message.id);
      resolve(message.error ? null : message.result);
    }
  }

  write(message) {
    if (this.ended)
      return;
    const text = JSON.stringify({jsonrpc: '2.0', ...message});
    this.process.stdin.write(
      `Content-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`);
  }

  notify(method, params) {
    this.write({method, params});
  }

  // null: an error, or no server.
  request(method, params) {
    if (this.ended)
      return Promise.resolve(null);
    const id = ++this.id;
    const answer = new Promise((resolve) => this.waiting.set(id, resolve));
    this.write({id, method, params});
    return answer;
  }
}

// ---- From the protocol ----

const range = (r) => new vscode.Range(r.start.line, r.start.character,
                                      r.end.line, r.end.character);
const location = (l) => new vscode.Location(vscode.Uri.parse(l.uri),
                                            range(l.range));
const locations = (found) => [].concat(found).map(location);
const edit = (e) => vscode.TextEdit.replace(range(e.range), e.newText);

function diagnostic(d) {
  const out = new vscode.Diagnostic(range(d.range), d.message,
                                    (d.severity || 1) - 1);
  out.source = d.source;
  out.relatedInformation = (d.relatedInformation || []).map(
    (r) => new vscode.DiagnosticRelatedInformation(location(r.location),
                                                   r.message));
  return out;
}

function completion(c) {
  const out = new vscode.CompletionItem(c.label, c.kind - 1);
  out.detail = c.detail;
  return out;
}

function workspaceEdit(result) {
  const out = new vscode.WorkspaceEdit();
  for (const [uri, edits] of Object.entries(result.changes))
    out.set(vscode.Uri.parse(uri), edits.map(edit));
  return out;
}

// ---- To the protocol ----

const named = (document) => ({uri: document.uri.toString()});
const at = (document, position) => ({
  textDocument: named(document),
  position: {line: position.line, character: position.character},
});

function followDocuments(server, context) {
  const ours = (document) => document.languageId === LANGUAGE;
  const open = (document) => ours(document) &&
    server.notify('textDocument/didOpen', {textDocument: {
      ...named(document), languageId: LANGUAGE, version: document.version,
      text: document.getText()}});
  const change = ({document, contentChanges}) => ours(document) &&
    server.notify('textDocument/didChange', {
      textDocument: {...named(document), version: document.version},
      contentChanges: contentChanges.map(({range, text}) => ({range, text}))});
  const close = (document) => ours(document) &&
    server.notify('textDocument/didClose', {textDocument: named(document)});
  vscode.workspace.textDocuments.forEach(open);
  context.subscriptions.push(
    vscode.workspace.onDidOpenTextDocument(open),
    vscode.workspace.onDidChangeTextDocument(change),
    vscode.workspace.onDidCloseTextDocument(close));
}

function offer(server, context) {
  const ask = async (method, params, make) => {
    const result = await server.request(`textDocument/${method}`, params);
    return result ? make(result) : null;
  };
  const l = vscode.languages;
  context.subscriptions.push(
    l.registerHoverProvider(LANGUAGE, {
      provideHover: (d, p) => ask('hover', at(d, p), (h) => new vscode.Hover(
        new vscode.MarkdownString().appendText(h.contents.value),
        range(h.range)))}),
    l.registerDefinitionProvider(LANGUAGE, {
      provideDefinition: (d, p) => ask('definition', at(d, p), locations)}),
    l.registerReferenceProvider(LANGUAGE, {
      provideReferences: (d, p, context) => ask(
        'references', {...at(d, p), context}, locations)}),
    l.registerRenameProvider(LANGUAGE, {
      provideRenameEdits: (d, p, newName) => ask(
        'rename', {...at(d, p), newName}, workspaceEdit)}),
    l.registerDocumentFormattingEditProvider(LANGUAGE, {
      provideDocumentFormattingEdits: (d, options) => ask(
        'formatting', {textDocument: named(d), options},
        (edits) => edits.map(edit))}),
    l.registerCompletionItemProvider(LANGUAGE, {
      provideCompletionItems: (d, p) => ask(
        'completion', at(d, p), (items) => items.map(completion))},
                                     '%', '@'));
}

let server = null;

async function activate(context) {
  const settings = vscode.workspace.getConfiguration('tilec');
  const command = settings.get('path');
  const problems = vscode.languages.createDiagnosticCollection(LANGUAGE);
  context.subscriptions.push(problems);
  server = new Server(command, (method, params) => {
    if (method === 'textDocument/publishDiagnostics')
      problems.set(vscode.Uri.parse(params.uri),
                   params.diagnostics.map(diagnostic));
  }, (why) => {
    problems.clear();
    if (server)
      vscode.window.showErrorMessage(
        `\`${command} lsp\` does not run (${why}): install tilec, or set ` +
        'tilec.path to the command');
  });
  await server.request('initialize', {
    processId: process.pid, rootUri: null, capabilities: {},
    initializationOptions: {target: settings.get('target'),
                            bindings: settings.get('bindings')}});
  server.notify('initialized', {});
  followDocuments(server, context);
  offer(server, context);
}

async function deactivate() {
  const ending = server;
  server = null;
  if (ending) {
    await ending.request('shutdown', null);
    ending.notify('exit');
  }
}

module.exports = {activate, deactivate};
