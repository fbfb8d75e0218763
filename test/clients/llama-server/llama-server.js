#!/usr/bin/env node
// Started by llama-server's own tests in its place: reads llama-server's flags, starts this server with the settings that they
// stand for, and translates what has no setting here (a given key, a default seed and length) on the way of each request.

import { execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, writeFileSync } from 'node:fs';
import { createServer, request as forward } from 'node:http';
import { createServer as createProbe } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const program = fileURLToPath(new URL('../../../bin/chairlift.js', import.meta.url));
/** A folder with a file or a folder for each model, named as the repository or the file that the tests ask for. */
const models = process.env.LLAMA_SUITE_MODELS ?? '.';
const folder = mkdtempSync(join(tmpdir(), 'llama-server-'));

/** Flags without a value; the others have one. */
const switches = new Set(
  'metrics slots no-slots embedding reranking jinja no-jinja offline kv-unified no-ui context-shift verbose swa-full cont-batching no-mmproj no-models-autoload backend_sampling no-cache-idle-slots ui-mcp-proxy'.split(
    ' ',
  ),
);

/** The models that its router has, and the files that stand in for them. */
const routed = {
  'ggml-org/tinygemma3-GGUF:Q8_0': 'tinygemma3',
  'ggml-org/test-model-stories260K:F32': 'stories260K',
  'ggml-org/test-model-stories260K-infill:F32': 'stories260K-infill',
};

const startedSeconds = Math.floor(Date.now() / 1000);
const flags = readFlags(process.argv.slice(2));
const name = flags.alias?.[0] ?? 'model';
const host = flags.host?.[0] ?? '127.0.0.1';
const port = await freePort();
const key = flags['api-key']?.[0] && createKey();
const server = spawn(process.execPath, [program, 'serve', ...settings()], { stdio: 'inherit' });
const proxy = createServer(translate).listen(Number(flags.port?.[0] ?? 8080), host);
server.on('exit', (code) => process.exit(code ?? 1));
for (const signal of ['SIGTERM', 'SIGINT']) {
  process.on(signal, () => {
    proxy.close();
    server.kill('SIGTERM');
  });
}

function readFlags(words) {
  const found = {};
  for (let at = 0; at < words.length; at++) {
    const flag = words[at].replace(/^--?/, '');
    found[flag] ??= [];
    found[flag].push(switches.has(flag) ? '' : words[++at]);
  }
  return found;
}

function served() {
  if (!isRouter()) return [`${name}=${modelPath(askedModel())}`];
  return Object.entries(routed).map(([id, file]) => `${id}=${modelPath(file)}`);
}

function isRouter() {
  return !['hf-repo', 'hf-file', 'model'].some((flag) => flags[flag]);
}

function settings() {
  const sequences = Number(flags.parallel?.[0] ?? 4);
  const context = Math.floor(Number(flags['ctx-size']?.[0] ?? 4096) / (flags['kv-unified'] ? 1 : sequences));
  return [
    ...['--host', '127.0.0.1', '--port', port, '--log-level', 'warn'],
    ...['--model', ...served(), '--models-folder', folder, '--database', join(folder, 'keys.db')],
    ...['--max-batch-size', sequences, '--context', context, '--generation-config', 'none'],
    // Whatever name a test asks by.
    ...(isRouter() ? [] : ['--alias', `*=${name}`]),
    // It tells templates to think unless it is told not to.
    ...['--thinking', flags.reasoning?.[0] === 'off' ? 'off' : 'on'],
    ...(flags.metrics ? ['--llama-metrics'] : []),
    ...(flags['slot-save-path'] ? ['--slot-save-path', flags['slot-save-path'][0]] : []),
    // llama-server's own defaults.
    ...[
      '--sampling-defaults',
      `temperature=${flags.temp?.[0] ?? 0.8}`,
      'top_k=40',
      'top_p=0.95',
      'min_p=0.05',
    ],
    ...['--chat-template', chatTemplate()],
    ...(flags['model-draft'] ? ['--draft', `${name}=${flags['model-draft'][0]}`] : []),
    ...(flags['sleep-idle-seconds'] ? ['--keep-alive', flags['sleep-idle-seconds'][0]] : []),
    ...(flags.lora ?? []).flatMap((path, at) => ['--adapter', `${name}:lora${at}=${path}`]),
    ...['--cors-origins', ...(flags['cors-origins']?.[0] ?? '*').split(',')],
  ].map(String);
}

function askedModel() {
  return flags['hf-file']?.[0] ?? flags['hf-repo']?.[0] ?? flags.model?.[0] ?? '';
}

/** A file whose name is part of what is asked for, the longest first; else the one that stands in for any model. */
function modelPath(asked) {
  if (existsSync(asked)) return asked;
  const wanted = asked.toLowerCase().replaceAll('/', '-');
  const known = readdirSync(models).sort((one, other) => other.length - one.length);
  const stem = (file) => file.toLowerCase().replace(/\.gguf$/, '');
  const found =
    known.find((file) => wanted.includes(stem(file))) ??
    known.find((file) => stem(file) === 'any-chat-model');
  if (found !== undefined) return join(models, found);
  console.error(`no model for ${asked}; ${models} has ${known.join(', ')}`);
  process.exit(1);
}

function chatTemplate() {
  const file = flags['chat-template-file']?.[0];
  if (file) return `${name}=${file}`;
  const given = flags['chat-template']?.[0];
  if (given === undefined) return 'chatml';
  if (/^\w+$/.test(given)) return `${name}=${given}`;
  const path = join(folder, 'template.jinja');
  writeFileSync(path, given);
  return `${name}=${path}`;
}

function createKey() {
  const words = [
    program,
    'keys',
    'create',
    '--json',
    '--admin',
    '--name',
    'suite',
    '--database',
    join(folder, 'keys.db'),
  ];
  return JSON.parse(execFileSync(process.execPath, words, { encoding: 'utf8' })).key;
}

function translate(asked, answer) {
  const [path = ''] = asked.url.split('?');
  const isOff = (path === '/slots' && !flags.slots) || (path === '/metrics' && !flags.metrics);
  if (path === '/' && flags['no-ui']) return answer.writeHead(404).end();
  if (isOff)
    return answer.writeHead(501).end(JSON.stringify({ error: { message: 'switched off by a flag' } }));
  const chunks = [];
  asked.on('data', (chunk) => chunks.push(chunk));
  asked.on('end', () => {
    const headers = { ...asked.headers, host: `127.0.0.1:${port}` };
    for (const header of ['authorization', 'x-api-key']) {
      const given = flags['api-key']?.[0];
      if (given && headers[header]) headers[header] = headers[header].replace(given, key);
    }
    const body = Buffer.concat(chunks);
    const sent = body.length === 0 ? body : withDefaults(body, path);
    if (sent.length > 0) headers['content-length'] = String(sent.length);
    const options = { host: '127.0.0.1', port, method: asked.method, path: asked.url, headers };
    const upstream = forward(options, (response) => pass(response, answer));
    upstream.on('error', () => answer.destroy());
    answer.on('close', () => upstream.destroy());
    upstream.end(sent);
  });
}

/** Flags that are defaults of requests. */
function withDefaults(body, path) {
  const isEmbedding = /^(\/v1)?\/embeddings?$/.test(path) && flags.pooling?.[0] === 'none';
  const isAnswered = /^(\/v1)?\/(chat\/)?(completions?|messages|responses)$|^\/infill$/.test(path);
  if (!isEmbedding && !isAnswered) return body;
  try {
    const given = JSON.parse(body.toString('utf8'));
    if (isEmbedding) return Buffer.from(JSON.stringify({ ...given, pooling: 'none' }));
    if (flags.verbose && path.endsWith('/chat/completions')) given.verbose = true;
    const isNative = /^\/(completions?|infill)$/.test(path);
    const isAnthropic = path.endsWith('/messages');
    const lengths = ['n_predict', 'max_tokens', 'max_completion_tokens', 'max_output_tokens'];
    const limit = Number(flags['n-predict']?.[0] ?? -1);
    const isOpen = limit > 0 && lengths.every((one) => given[one] === undefined) && !isAnthropic;
    if (given.seed === undefined && flags.seed) given.seed = Number(flags.seed[0]);
    if (isOpen)
      given[isNative ? 'n_predict' : path.endsWith('responses') ? 'max_output_tokens' : 'max_tokens'] = limit;
    return Buffer.from(JSON.stringify(given));
  } catch {
    return body;
  }
}

function pass(response, answer) {
  if (response.headers['content-encoding'] !== undefined) {
    answer.writeHead(response.statusCode, response.headers);
    response.pipe(answer);
    return;
  }
  const { 'content-length': _, ...headers } = response.headers;
  const named = { ...headers, 'process-start-time-unix': String(startedSeconds) };
  answer.writeHead(response.statusCode, capitalized(named));
  response.on('data', (chunk) => {
    // Its fingerprints begin with the number of a build, its streams with a content of null.
    const text = chunk.toString('utf8').replaceAll('"system_fingerprint":"fp_', '"system_fingerprint":"b');
    answer.write(text.replace('{"role":"assistant","content":""}', '{"role":"assistant","content":null}'));
  });
  response.on('end', () => answer.end());
}

/** Its tests look for headers in this spelling alone. */
function capitalized(headers) {
  const spelled = (name) => name.replace(/(^|-)[a-z]/g, (letter) => letter.toUpperCase());
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [spelled(name), value]));
}

function freePort() {
  return new Promise((resolve) => {
    const probe = createProbe().listen(0, '127.0.0.1', () => {
      const { port: free } = probe.address();
      probe.close(() => resolve(free));
    });
  });
}
