// `npm run compare -- accuracy MODEL.gguf`: how far the next-token distributions of Chairlift and of llama.cpp, as they serve the
// file, are from what its weights say when nothing is rounded. The text is this project's documents. Ends in one JSON
// line. Options: bench-compare/README.md.

import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { kvTypes } from '../dist/compute/backend.js';
import { openText } from '../dist/text/open-text.js';
import { openModelFiles } from '../dist/weights/open-model.js';
import { compare, logProbabilities, summarize } from './distributions.js';
import { nodeLlamaCpp } from './engines/node-llama-cpp.js';
import { alignedTable, count, give } from './harness.js';
import { openLlamaLogits } from './llama.js';
import { writeFloatCopy } from './model.js';
import { contextOf, openOwnLogits } from './own-logits.js';

const root = fileURLToPath(new URL('..', import.meta.url));

/**
 * @typedef {object} Place
 * @property {string} path
 * @property {() => Promise<string>} floatPath the same weights as float32
 * @property {number} threads
 * @property {number} contextTokens
 * @property {import('../dist/compute/backend.js').KvType} [kvType]
 */

/** @type {Readonly<Record<string, (place: Place) => Promise<import('./own-logits.js').LogitSource>>>} */
const sources = {
  float32: async ({ floatPath, kvType: _, ...rest }) =>
    openOwnLogits(await floatPath(), { ...rest, backend: 'cpu' }),
  reference: (place) => openOwnLogits(place.path, { ...place, backend: 'reference' }),
  cpu: (place) => openOwnLogits(place.path, { ...place, backend: 'cpu' }),
  webgpu: (place) => openOwnLogits(place.path, { ...place, backend: 'webgpu' }),
  'llama.cpp': (place) => openLlamaLogits(place.path, place),
  'llama.cpp-float32': async ({ floatPath, ...rest }) => openLlamaLogits(await floatPath(), rest),
};

function readOptions() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      tokens: { type: 'string', default: '4096' },
      window: { type: 'string', default: '512' },
      oracle: { type: 'string', default: 'float32' },
      contenders: { type: 'string', default: 'cpu,llama.cpp' },
      'kv-types': { type: 'string', default: 'f16' },
      threads: { type: 'string', default: String(availableParallelism()) },
    },
  });
  const known = (name) =>
    name in sources ? name : give(`${name} is not known; there are ${Object.keys(sources).join(', ')}`);
  const knownKvType = (type) =>
    kvTypes.find((one) => one === type) ??
    give(`KV of ${type} is not known; there are ${kvTypes.join(', ')}`);
  const [path, ...others] = positionals;
  if (path === undefined || others.length > 0) give('give one GGUF file');
  return {
    path,
    tokens: count('tokens', values.tokens, 2),
    windowTokens: count('window', values.window, 2),
    oracle: known(values.oracle),
    contenders: values.contenders.split(',').map(known),
    kvTypes: values['kv-types'].split(',').map(knownKvType),
    threads: count('threads', values.threads),
  };
}

/** Chairlift's own backends are asked with each KV type but the oracle's, which is that of `f16`. */
function sourcesOf({ oracle, contenders, kvTypes: asked }) {
  const ofContender = (name) =>
    ['cpu', 'webgpu'].includes(name)
      ? asked.map((kvType) => ({ name, kvType, title: kvType === 'f16' ? name : `${name}, KV ${kvType}` }))
      : [{ name, title: name }];
  const all = [{ name: oracle, title: oracle }, ...contenders.flatMap(ofContender)];
  return all.filter(({ title }, index) => all.findIndex((one) => one.title === title) === index);
}

/** The documents, cut into texts of equal length, each after the model's beginning-of-text tokens. */
function textsOf(path, tokens, windowTokens) {
  const files = openModelFiles(path);
  files.weights.close();
  const { tokenizer } = openText(files);
  const documents = [
    'README.md',
    ...readdirSync(join(root, 'docs'))
      .sort()
      .map((name) => join('docs', name)),
  ];
  const text = documents
    .filter((name) => name.endsWith('.md'))
    .map((name) => readFileSync(join(root, name), 'utf8'))
    .join('\n');
  const ids = [...tokenizer.encode(text)];
  const before = [...tokenizer.encode('', { bos: true })];
  const own = windowTokens - before.length;
  const count = Math.max(1, Math.floor(Math.min(tokens, ids.length) / windowTokens));
  return Array.from({ length: count }, (_, index) => [
    ...before,
    ...ids.slice(index * own, (index + 1) * own),
  ]);
}

/**
 * Every position's comparison with the first source, by source; the first is compared with itself.
 *
 * @param {readonly (readonly number[])[]} texts
 * @param {ReadonlyMap<string, import('./own-logits.js').LogitSource>} opened
 */
async function compareAll(texts, opened) {
  /** @type {Map<string, import('./distributions.js').Comparison[]>} */
  const positions = new Map([...opened.keys()].map((name) => [name, []]));
  for (const [index, text] of texts.entries()) {
    process.stderr.write(`text ${index + 1} of ${texts.length}\n`);
    /** @type {Float64Array[] | undefined} */
    let truth;
    for (const [name, source] of opened) {
      const rows = await source.logitsAfter(text, 0);
      truth ??= rows.map(logProbabilities);
      // No token is known after the last one.
      for (const [at, next] of text.slice(1).entries()) {
        positions.get(name)?.push(compare(truth[at], rows[at], next));
      }
    }
  }
  return positions;
}

function table(summaries, oracle) {
  return alignedTable([
    ['', 'perplexity', `KL from ${oracle}`, '99 % below', 'same likeliest'],
    ...summaries.map(({ name, ...summary }) => [
      name,
      summary.perplexity.toFixed(4),
      `${summary.divergence.toPrecision(3)} ± ${summary.divergenceError.toPrecision(1)}`,
      summary.divergence99.toPrecision(3),
      `${(100 * summary.sameLikeliest).toFixed(1)} %`,
    ]),
  ]);
}

async function main() {
  const { path, tokens, windowTokens, threads, ...wanted } = readOptions();
  const missing = nodeLlamaCpp.missing('');
  if (missing !== undefined && wanted.contenders.some((name) => name.startsWith('llama'))) {
    give(`node-llama-cpp: ${missing}`);
  }
  const texts = textsOf(path, tokens, windowTokens);
  const folder = mkdtempSync(join(tmpdir(), 'accuracy-'));
  /** @type {Promise<string> | undefined} */
  let copied;
  const floatPath = () => {
    const copyPath = join(folder, 'float32.gguf');
    copied ??= writeFloatCopy(path, copyPath).then(() => copyPath);
    return copied;
  };
  const place = { path, floatPath, threads, contextTokens: contextOf(windowTokens) };
  /** @type {Map<string, import('./own-logits.js').LogitSource>} */
  const opened = new Map();
  try {
    for (const { title, name, kvType } of sourcesOf(wanted)) {
      opened.set(title, await sources[name]({ ...place, kvType }));
    }
    const positions = await compareAll(texts, opened);
    const summaries = [...positions].map(([name, list]) => ({ name, ...summarize(list) }));
    process.stdout.write(`${basename(path)}, ${texts.length} texts of ${windowTokens} tokens\n\n`);
    process.stdout.write(`${table(summaries, wanted.oracle)}\n\n`);
    process.stdout.write(
      `${JSON.stringify({ benchmark: 'accuracy', model: basename(path), windowTokens, ...wanted, summaries })}\n`,
    );
  } finally {
    for (const source of opened.values()) await source.close();
    rmSync(folder, { recursive: true });
  }
}

await main().catch((error) => give(error.message));
