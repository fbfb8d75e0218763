// `npm run compare -- images MODEL.gguf PROJECTOR.gguf PICTURE…`: how soon Chairlift and llama-server begin to answer about a
// picture, and about the same picture again. Servers take turns; each round starts one with an empty cache and asks about every picture.
// Prints a table and ends in one JSON line. Options: bench-compare/README.md.

import { readFileSync } from 'node:fs';
import { basename, extname, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { undisturbedMedian } from './figures.js';
import { firstToken } from './first-token.js';
import { alignedTable, count, give, machineSeconds, othersShareSince, ownSeconds } from './harness.js';
import { llamaServerVersion } from './llama-server.js';
import { servers, startServer } from './servers.js';
import { setupOf, setupOptions } from './setup-options.js';

/**
 * @typedef {object} Asked
 * @property {string} server
 * @property {string} picture
 * @property {number} firstMs to the first token
 * @property {number} againMs to that of another question about the picture
 * @property {number | undefined} promptTokens as the server counts them
 * @property {number | undefined} othersShare of the machine
 */

const names = Object.keys(servers);
const QUESTIONS = ['What is in this picture?', 'Which colours does it have?'];
const types = {
  '.png': 'image/png',
  '.jpg': 'image/jpeg',
  '.jpeg': 'image/jpeg',
  '.webp': 'image/webp',
  '.gif': 'image/gif',
};

function readOptions() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      ...setupOptions({ context: '4096', rounds: '3' }),
    },
  });
  const [path, projector, ...pictures] = positionals;
  if (path === undefined || projector === undefined || pictures.length === 0) {
    give('give a GGUF file, that of its projector, and pictures');
  }
  return {
    setup: { ...setupOf(path, values), projector: resolve(projector) },
    rounds: count('rounds', values.rounds),
    pictures: pictures.map((picture) => ({ name: basename(picture), url: dataUrl(picture) })),
  };
}

function dataUrl(picture) {
  const type = types[extname(picture).toLowerCase()] ?? give(`${picture}: give PNG, JPEG, WebP or GIF files`);
  return `data:${type};base64,${readFileSync(picture).toString('base64')}`;
}

function ask(url, picture, question) {
  const content = [
    { type: 'image_url', image_url: { url: picture } },
    { type: 'text', text: question },
  ];
  return firstToken(`${url}/v1/chat/completions`, {
    messages: [{ role: 'user', content }],
    max_tokens: 4,
    temperature: 0,
  });
}

/** @returns {Promise<Asked[]>} */
async function runRound(server, { setup, pictures }) {
  const started = await startServer(server, setup);
  try {
    const asked = [];
    for (const { name, url } of pictures) {
      const before = machineSeconds();
      const used = () => (started.cpuSeconds() ?? Number.NaN) + ownSeconds();
      const usedBefore = used();
      const [first, again] = [
        await ask(started.url, url, QUESTIONS[0]),
        await ask(started.url, url, QUESTIONS[1]),
      ];
      const othersShare = othersShareSince(before, used() - usedBefore);
      asked.push({
        server,
        picture: name,
        firstMs: first.firstMs,
        againMs: again.firstMs,
        promptTokens: first.promptTokens,
        othersShare: Number.isNaN(othersShare) ? undefined : othersShare,
      });
    }
    return asked;
  } catch (error) {
    throw new Error(
      `${servers[server].label}: ${error instanceof Error ? error.message : error} ${started.lastLines()}`,
    );
  } finally {
    await started.stop();
  }
}

const options = readOptions();
const { setup, rounds, pictures } = options;
/** @type {Asked[]} */
const asked = [];
for (let round = 0; round < rounds; round++) {
  for (const server of round % 2 === 0 ? names : names.toReversed()) {
    process.stderr.write(`round ${round + 1} of ${rounds}, ${servers[server].label}\n`);
    asked.push(...(await runRound(server, options)));
  }
}
process.stdout.write(
  `${basename(setup.path)}, ${setup.threads} threads; llama-server ${llamaServerVersion(setup.llamaServer)}; medians of ${rounds}\n\n`,
);
const seconds = (ms) => (ms === undefined ? '-' : `${(ms / 1000).toFixed(2)} s`);
const rows = pictures.flatMap(({ name }) =>
  names.map((server) => {
    const own = asked.filter((one) => one.server === server && one.picture === name);
    return [
      name,
      servers[server].label,
      String(own[0]?.promptTokens ?? '-'),
      seconds(undisturbedMedian(own, ({ firstMs }) => firstMs)),
      seconds(undisturbedMedian(own, ({ againMs }) => againMs)),
    ];
  }),
);
process.stdout.write(
  `${alignedTable([['picture', '', 'prompt tokens', 'first token', 'another question'], ...rows])}\n`,
);
process.stdout.write(
  `${JSON.stringify({ comparison: 'images', model: basename(setup.path), threads: setup.threads, asked })}\n`,
);
