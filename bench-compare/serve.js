// `npm run compare -- serve MODEL.gguf`: Chairlift and llama-server under the same load, in turns, each trial with a server of its
// own. Streamed chats with a shared beginning arrive at random, at several rates. Prints a table for each rate and ends in one
// JSON line. Options: bench-compare/README.md.

import { writeFileSync } from 'node:fs';
import { basename, parse, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { linePlot } from '../dist/bench/plot/plots.js';
import { noKey, parseLengths } from '../dist/bench/serve/load-plan.js';
import { LiveLoad } from '../dist/bench/serve/run-load.js';
import { benchServer } from '../dist/bench/serve/serve-bench.js';
import { undisturbedMedian } from './figures.js';
import { alignedTable, count, give, machineSeconds, othersShareSince, ownSeconds } from './harness.js';
import { llamaServerVersion } from './llama-server.js';
import { servers, startServer } from './servers.js';
import { oneFile, setupOf, setupOptions } from './setup-options.js';

/**
 * @typedef {object} Trial
 * @property {string} server
 * @property {number} rate requests a second
 * @property {import('../dist/bench/serve/summary.js').Summary} summary
 * @property {number | undefined} othersShare of the machine
 * @property {string} [failure]
 */

const names = Object.keys(servers);

function readOptions() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      rates: { type: 'string', default: '0.7,2,4' },
      requests: { type: 'string', default: '32' },
      system: { type: 'string', default: '600' },
      prompt: { type: 'string', default: '30-700' },
      tokens: { type: 'string', default: '32-128' },
      ...setupOptions({ context: '2048', rounds: '1' }),
      slots: { type: 'string', default: '16' },
      timeout: { type: 'string', default: '300' },
      plot: { type: 'string' },
    },
  });
  const path = oneFile(positionals);
  const rates = values.rates.split(',').map(Number);
  if (!rates.every((rate) => rate > 0 && rate < 1000))
    give('--rates: give requests a second, such as 0.7,2,4');
  return {
    setup: setupOf(path, values),
    rates,
    rounds: count('rounds', values.rounds),
    load: {
      model: undefined,
      endpoint: /** @type {const} */ ('chat'),
      keys: [noKey],
      requests: count('requests', values.requests),
      warmup: 2,
      concurrency: undefined,
      promptTokens: lengths('prompt', values.prompt),
      outputTokens: lengths('tokens', values.tokens),
      prefixes: 1,
      prefixTokens: count('system', values.system, 0),
      temperature: 0,
      seed: 1,
      ignoreEos: true,
      timeoutMs: 1000 * count('timeout', values.timeout),
      goodput: undefined,
    },
    plot: values.plot,
  };
}

function lengths(name, text) {
  return parseLengths(text) ?? give(`--${name}: give tokens, such as 256 or 30-700`);
}

/** @returns {Promise<Trial>} */
async function runTrial(server, rate, { setup, load }) {
  const started = await startServer(server, setup);
  try {
    const before = machineSeconds();
    const used = () => (started.cpuSeconds() ?? Number.NaN) + ownSeconds();
    const usedBefore = used();
    const settings = { ...load, baseUrl: `${started.url}/v1`, requestsPerSecond: rate };
    const report = await benchServer(settings, {
      signal: new AbortController().signal,
      live: new LiveLoad(),
    });
    const othersShare = othersShareSince(before, used() - usedBefore);
    return {
      server,
      rate,
      summary: report.summary,
      othersShare: Number.isNaN(othersShare) ? undefined : othersShare,
      ...(started.hasEnded() === null ? {} : { failure: `ended: ${started.lastLines()}` }),
    };
  } finally {
    await started.stop();
  }
}

const milliseconds = (value) =>
  value === undefined ? '-' : `${value < 100 ? value.toFixed(1) : value.toFixed(0)} ms`;

/** @type {readonly (readonly [string, (summary: Trial['summary']) => number | undefined, (value: number | undefined) => string])[]} */
const columns = [
  ['tokens/s', (one) => one.outputTokensPerSecond, (value) => (value ?? 0).toFixed(1)],
  ['first token p50', (one) => one.ttftMs?.p50, milliseconds],
  ['p99', (one) => one.ttftMs?.p99, milliseconds],
  ['gap p50', (one) => one.itlMs?.p50, milliseconds],
  ['p99', (one) => one.itlMs?.p99, milliseconds],
  ['answer p50', (one) => one.e2elMs?.p50, milliseconds],
  ['p99', (one) => one.e2elMs?.p99, milliseconds],
];

/** @param {readonly Trial[]} trials */
const figure = (trials, of) => undisturbedMedian(trials, ({ summary }) => of(summary));

function tableOf(rate, trials) {
  const rows = names.map((name) => {
    const own = trials.filter((trial) => trial.server === name);
    const lost = own.reduce((sum, { summary }) => sum + summary.sent - summary.completed, 0);
    return [
      servers[name].label,
      ...columns.map(([, of, show]) => show(figure(own, of))),
      String(lost),
      own
        .map(({ othersShare }) => (othersShare === undefined ? '-' : `${(100 * othersShare).toFixed(0)} %`))
        .join(', '),
    ];
  });
  const head = [`${rate} requests/s`, ...columns.map(([title]) => title), 'not answered', 'others used'];
  return alignedTable([head, ...rows]);
}

function plotOf(title, label, rates, trials, of) {
  return linePlot({
    title,
    x: { label: 'requests a second', from: 0, ticks: rates },
    y: { label },
    series: names.map((name) => ({
      name: servers[name].label,
      points: rates.flatMap((rate) => {
        const value = figure(
          trials.filter((trial) => trial.server === name && trial.rate === rate),
          of,
        );
        return value === undefined ? [] : [/** @type {const} */ ([rate, value])];
      }),
    })),
  });
}

const options = readOptions();
const { setup, load, rates, rounds } = options;
/** @type {Trial[]} */
const trials = [];
for (let round = 0; round < rounds; round++) {
  for (const rate of rates) {
    for (const server of round % 2 === 0 ? names : names.toReversed()) {
      process.stderr.write(`round ${round + 1} of ${rounds}, ${rate} requests/s, ${servers[server].label}\n`);
      const trial = await runTrial(server, rate, options);
      if (trial.failure !== undefined) process.stderr.write(`${servers[server].label} ${trial.failure}\n`);
      trials.push(trial);
    }
  }
}
const { requests, prefixTokens } = load;
process.stdout.write(
  `${basename(setup.path)}, ${setup.threads} threads, ${requests} streamed chats with a shared beginning of ${prefixTokens} tokens; llama-server ${llamaServerVersion(setup.llamaServer)} with ${setup.slots} slots; medians of ${rounds}\n\n`,
);
for (const rate of rates) {
  process.stdout.write(
    `${tableOf(
      rate,
      trials.filter((trial) => trial.rate === rate),
    )}\n\n`,
  );
}
if (options.plot !== undefined) {
  const { dir, name, ext } = parse(options.plot);
  const file = (/** @type {string} */ kind) => resolve(dir, `${name}-${kind}${ext || '.svg'}`);
  const model = basename(setup.path, '.gguf');
  writeFileSync(
    file('tokens'),
    plotOf(`Under load, ${model}`, 'tokens a second', rates, trials, (one) => one.outputTokensPerSecond),
  );
  writeFileSync(
    file('first-token'),
    plotOf(`Under load, ${model}`, 'first token after (ms), median', rates, trials, (one) => one.ttftMs?.p50),
  );
}
process.stdout.write(
  `${JSON.stringify({ comparison: 'serve', model: basename(setup.path), threads: setup.threads, trials })}\n`,
);
