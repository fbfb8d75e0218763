// `npm run compare -- restore MODEL.gguf`: how soon a long prompt is answered again after a restart. Chairlift finds its KV in the
// folder of `--cache-disk` by itself; llama-server is told to save the slot and, started again, to restore it, which counts. Prints a table
// and ends in one JSON line. Options: bench-compare/README.md.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { parseArgs } from 'node:util';
import { median } from './figures.js';
import { firstToken } from './first-token.js';
import { alignedTable, count } from './harness.js';
import { llamaServerVersion } from './llama-server.js';
import { servers, startServer } from './servers.js';
import { oneFile, setupOf, setupOptions } from './setup-options.js';

const names = Object.keys(servers);
const WORDS = [
  'the',
  'snow',
  'lift',
  'carries',
  'people',
  'up',
  'and',
  'nobody',
  'waits',
  'below',
  'for',
  'long',
];

function readOptions() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      words: { type: 'string', default: '6000' },
      ...setupOptions({ context: '8192', rounds: '3' }),
    },
  });
  return {
    setup: setupOf(oneFile(positionals), values),
    rounds: count('rounds', values.rounds),
    words: count('words', values.words),
  };
}

/** Without an order that repeats. */
function promptOf(words) {
  let seed = 1;
  const next = () => {
    seed = (seed * 48_271) % 2_147_483_647;
    return WORDS[seed % WORDS.length];
  };
  return Array.from({ length: words }, next).join(' ');
}

async function slot(url, action) {
  const began = performance.now();
  const response = await fetch(`${url}/slots/0?action=${action}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ filename: 'slot.bin' }),
  });
  if (!response.ok) throw new Error(await response.text());
  return performance.now() - began;
}

async function runRound(server, { setup, words }) {
  const kept = mkdtempSync(join(tmpdir(), 'chairlift-compare-kept-'));
  const ask = ({ url }) =>
    firstToken(`${url}/v1/completions`, { prompt: promptOf(words), max_tokens: 8, temperature: 0 });
  try {
    const first = await startServer(server, { ...setup, kept });
    const cold = await ask(first);
    if (server === 'llama-server') await slot(first.url, 'save');
    await first.end();
    const second = await startServer(server, { ...setup, kept });
    const restoreMs = server === 'llama-server' ? await slot(second.url, 'restore') : 0;
    const again = await ask(second);
    await second.stop();
    return {
      server,
      promptTokens: cold.promptTokens,
      coldMs: cold.firstMs,
      againMs: restoreMs + again.firstMs,
      same: cold.text === again.text,
    };
  } finally {
    rmSync(kept, { recursive: true, force: true });
  }
}

const options = readOptions();
const { setup, rounds } = options;
const runs = [];
for (let round = 0; round < rounds; round++) {
  for (const server of round % 2 === 0 ? names : names.toReversed()) {
    process.stderr.write(`round ${round + 1} of ${rounds}, ${servers[server].label}\n`);
    runs.push(await runRound(server, options));
  }
}
process.stdout.write(
  `${basename(setup.path)}, ${setup.threads} threads; llama-server ${llamaServerVersion(setup.llamaServer)}; medians of ${rounds}\n\n`,
);
const rows = names.map((server) => {
  const own = runs.filter((run) => run.server === server);
  const [cold, again] = [median(own.map(({ coldMs }) => coldMs)), median(own.map(({ againMs }) => againMs))];
  return [
    servers[server].label,
    String(own[0]?.promptTokens ?? '-'),
    `${(cold / 1000).toFixed(2)} s`,
    `${(again / 1000).toFixed(2)} s`,
    `${((100 * again) / cold).toFixed(1)} %`,
    own.every(({ same }) => same) ? 'yes' : 'no',
  ];
});
const head = ['', 'prompt tokens', 'never computed', 'after a restart', 'of that', 'the same answer'];
process.stdout.write(`${alignedTable([head, ...rows])}\n`);
process.stdout.write(
  `${JSON.stringify({ comparison: 'restore', model: basename(setup.path), threads: setup.threads, runs })}\n`,
);
