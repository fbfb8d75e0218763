// `npm run compare -- speed`: Chairlift and its peers on the same GGUF file, prompts and lengths, in turn, each trial in a
// fresh process. Prints a table of medians for each model and ends in one JSON line. Options: bench-compare/README.md.

import { writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { basename, join, parse } from 'node:path';
import { parseArgs } from 'node:util';
import { loadAddon } from '../dist/compute/cpu/binding.js';
import { engines } from './engines.js';
import { count, give } from './harness.js';
import { dummyFile } from './model.js';
import { plot, summarize, table } from './report.js';
import { runTrial } from './trials.js';

const BANDWIDTH_MEGABYTES = 1024;
const peers = Object.keys(engines).filter((name) => name !== 'chairlift');
/** MLX's CPU backend takes many minutes for what the others do in seconds. */
const usualPeers = peers.filter((name) => name !== 'mlx');

function readOptions() {
  const { values } = parseArgs({
    options: {
      dummy: { type: 'string', multiple: true },
      layers: { type: 'string' },
      model: { type: 'string', multiple: true },
      peers: { type: 'string', default: usualPeers.join(',') },
      streams: { type: 'string' },
      prompt: { type: 'string', default: '128' },
      tokens: { type: 'string' },
      prefill: { type: 'string', default: '512' },
      rounds: { type: 'string' },
      threads: { type: 'string', default: String(availableParallelism()) },
      timeout: { type: 'string', default: '300' },
      python: { type: 'string', default: 'python3' },
      cache: { type: 'string', default: join(tmpdir(), 'chairlift-bench-compare') },
      plot: { type: 'string' },
      quick: { type: 'boolean', default: false },
    },
  });
  const wanted = values.peers.split(',').filter((name) => name !== '');
  const unknown = wanted.find((name) => !peers.includes(name));
  if (unknown !== undefined) give(`--peers: ${unknown} is not known; there are ${peers.join(', ')}`);
  const streams = values.streams ?? (values.quick ? '1,8' : '1,4,8,16');
  const wishes =
    values.dummy ?? (values.model === undefined ? ['llama-3.2-1b:q8_0', 'llama-3.2-1b:q4_0'] : []);
  return {
    wishes,
    layers: values.layers === undefined ? undefined : count('layers', values.layers),
    files: values.model ?? [],
    wanted,
    streams: streams.split(',').map((text) => count('streams', text)),
    promptTokens: count('prompt', values.prompt),
    answerTokens: count('tokens', values.tokens ?? (values.quick ? '24' : '64'), 4),
    prefillTokens: count('prefill', values.prefill, 0),
    rounds: count('rounds', values.rounds ?? (values.quick ? '1' : '3')),
    threads: count('threads', values.threads),
    timeoutSeconds: count('timeout', values.timeout),
    python: values.python,
    cache: values.cache,
    plot: values.plot,
  };
}

/** @returns {import('./report.js').Workload[]} */
function workloadsOf({ streams, promptTokens, answerTokens, prefillTokens }) {
  const decode = streams.map((count) => ({
    name: count === 1 ? '1 stream' : `${count} streams`,
    kind: /** @type {const} */ ('decode'),
    streams: count,
    promptTokens,
    answerTokens,
  }));
  if (prefillTokens === 0) return decode;
  const name = `prompt of ${prefillTokens}`;
  return [...decode, { name, kind: 'prefill', streams: 1, promptTokens: prefillTokens, answerTokens: 1 }];
}

/** @returns {Promise<import('./report.js').ModelResult>} */
async function compare(model, path, names, workloads, options) {
  const bandwidths = [];
  const cells = workloads.flatMap((workload) => names.map((engine) => ({ engine, workload, trials: [] })));
  for (let round = 1; round <= options.rounds; round++) {
    bandwidths.push(readBandwidth(options.threads));
    for (const cell of cells) {
      if (cell.failure !== undefined) continue;
      const progress = `${model}, round ${round} of ${options.rounds}, ${cell.workload.name}, ${cell.engine}`;
      process.stderr.write(`${progress}: `);
      const result = await runTrial(flagsOf(cell, path, options), options.timeoutSeconds);
      if (result.ok) cell.trials.push(result.trial);
      else cell.failure = result.reason;
      if (!result.ok && result.timedOut) giveUpLarger(cells, cell);
      process.stderr.write(result.ok ? `${shortResult(result.trial)}\n` : `failed: ${result.reason}\n`);
    }
  }
  return { model, bandwidths, cells };
}

/** What takes too long for a few streams takes no less for more. */
function giveUpLarger(cells, { engine, workload, failure }) {
  for (const cell of cells) {
    const larger = cell.workload.kind === workload.kind && cell.workload.streams > workload.streams;
    if (cell.engine === engine && larger) cell.failure ??= `${failure} for ${workload.name}`;
  }
}

function readBandwidth(threads) {
  const load = loadAddon();
  return load.available ? load.addon.readBandwidth(threads, BANDWIDTH_MEGABYTES) : give(load.reason);
}

function flagsOf({ engine, workload }, path, { threads, python }) {
  const { streams, promptTokens: prompt, answerTokens: tokens } = workload;
  return { engine, model: path, streams, prompt, tokens, threads, python };
}

/** @param {import('./trials.js').Trial} trial */
function shortResult({ decodeTokensPerSecond, prefillTokensPerSecond, othersShare, disturbed }) {
  const speed =
    decodeTokensPerSecond === undefined
      ? `${prefillTokensPerSecond.toFixed(1)} tokens/s`
      : `${decodeTokensPerSecond.toFixed(1)} tokens/s, prompts ${prefillTokensPerSecond.toFixed(1)}`;
  return disturbed ? `${speed}, disturbed: others used ${Math.round(othersShare * 100)} %` : speed;
}

/** With several models each has a plot of its own: compare.svg becomes compare-NAME.svg. */
function plotPath(path, model, several) {
  if (!several) return path;
  const { dir, name, ext } = parse(path);
  return join(dir, `${name}-${model.replaceAll(/[^\w.-]+/g, '-')}${ext}`);
}

async function main() {
  const options = readOptions();
  const missing = [];
  for (const engine of ['chairlift', ...options.wanted]) {
    const reason = engines[engine].missing(options.python);
    if (reason !== undefined) missing.push({ engine, reason });
  }
  if (missing[0]?.engine === 'chairlift') give(missing[0].reason);
  for (const { engine, reason } of missing)
    process.stderr.write(`${engines[engine].label} is missing: ${reason}\n`);
  const names = [
    'chairlift',
    ...options.wanted.filter((name) => !missing.some(({ engine }) => engine === name)),
  ];
  const workloads = workloadsOf(options);
  const models = options.files.map((path) => ({ model: basename(path), path }));
  for (const wanted of options.wishes)
    models.push({ model: wanted, path: await dummyFile(wanted, options.cache, options.layers) });
  const summaries = [];
  for (const { model, path } of models) {
    const summary = summarize(await compare(model, path, names, workloads, options), names, workloads);
    summaries.push(summary);
    process.stdout.write(`${table(summary, workloads, options.threads, options.rounds)}\n\n`);
    if (options.plot !== undefined) {
      writeFileSync(plotPath(options.plot, model, models.length > 1), plot(summary, workloads));
    }
  }
  for (const { engine, reason } of missing)
    process.stdout.write(`missing: ${engines[engine].label}: ${reason}\n`);
  const { rounds, threads } = options;
  process.stdout.write(
    `${JSON.stringify({ benchmark: 'compare', threads, rounds, workloads, models: summaries, missing })}\n`,
  );
}

await main().catch((error) => give(error.message));
