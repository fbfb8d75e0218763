// `npm run compare -- edit MODEL.gguf`: answers that mostly repeat what was given, one stream, greedy. Chairlift and llama.cpp,
// each with drafts from the prompt and without, take turns at every prompt. Prints a table of medians and ends in one JSON
// line. Options: bench-compare/README.md.

import { fork } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { chatPrompt } from '../dist/generation/chat-prompt.js';
import { openText } from '../dist/text/open-text.js';
import { openModelFiles } from '../dist/weights/open-model.js';
import { editPrompts } from './edit-prompts.js';
import { nodeLlamaCpp } from './engines/node-llama-cpp.js';
import { figuresOf, overall, partedAt } from './figures.js';
import {
  alignedTable,
  beforeEnd,
  count,
  DISTURBED,
  give,
  machineSeconds,
  othersShareSince,
} from './harness.js';
import { contextOf } from './own-logits.js';

const program = fileURLToPath(new URL('edit-contender.js', import.meta.url));

/** @typedef {{ name: string, engine: 'chairlift' | 'llama.cpp', draftLength: number }} Contender */

/**
 * @param {number} lookup draft length of llama.cpp
 * @returns {readonly Contender[]}
 */
const contendersWith = (lookup) => [
  { name: 'Chairlift', engine: 'chairlift', draftLength: 1 },
  { name: 'Chairlift, no drafts', engine: 'chairlift', draftLength: 0 },
  { name: 'llama.cpp', engine: 'llama.cpp', draftLength: 0 },
  { name: `llama.cpp, lookup of ${lookup}`, engine: 'llama.cpp', draftLength: lookup },
];

function readOptions() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      tokens: { type: 'string', default: '256' },
      rounds: { type: 'string', default: '3' },
      lookup: { type: 'string', default: '3' },
      threads: { type: 'string', default: String(availableParallelism()) },
    },
  });
  const [path, ...others] = positionals;
  if (path === undefined || others.length > 0) give('give one GGUF file');
  return {
    path,
    contenders: contendersWith(count('lookup', values.lookup)),
    maxTokens: count('tokens', values.tokens, 2),
    rounds: count('rounds', values.rounds),
    threads: count('threads', values.threads),
  };
}

function encoded(path) {
  const files = openModelFiles(path);
  files.weights.close();
  const { tokenizer, template } = openText(files);
  const prompts = editPrompts.map(({ kind, name, message }) => {
    const messages = [{ role: /** @type {const} */ ('user'), content: message }];
    const text = chatPrompt({ name: basename(path), template }, { messages });
    return { kind, name, ids: [...tokenizer.encode(text, { special: true })] };
  });
  return { prompts, tokenizer };
}

/**
 * A process that answers when it is asked.
 *
 * @param {import('./edit-contender.js').ContenderSetup} setup
 */
async function start(setup) {
  const child = fork(program, { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
  const forget = beforeEnd(() => child.kill('SIGKILL'));
  const ask = (message) =>
    new Promise((resolve, reject) => {
      const ended = (code, signal) => reject(new Error(`${setup.engine} ended with ${signal ?? code}`));
      child.once('exit', ended);
      child.once('message', (/** @type {{ fault?: string }} */ reply) => {
        child.off('exit', ended);
        if (reply.fault === undefined) resolve(reply);
        else reject(new Error(`${setup.engine}: ${reply.fault}`));
      });
      child.send(message);
    });
  await ask(setup);
  return {
    /** @returns {Promise<import('./edit-contender.js').Answer>} */
    answer: (prompt, maxTokens) => ask({ prompt, maxTokens }),
    end() {
      forget();
      child.kill('SIGKILL');
    },
  };
}

async function measured(one, ids, maxTokens) {
  const before = machineSeconds();
  const answer = await one.answer(ids, maxTokens);
  const othersShare = othersShareSince(before, answer.cpuSeconds);
  return { ...answer, othersShare, disturbed: othersShare > DISTURBED };
}

/** By prompt, contender and round. The order changes from round to round. */
async function answerAll(running, prompts, { contenders, rounds, maxTokens }) {
  const answers = prompts.map(() => running.map(() => /** @type {import('./figures.js').Round[]} */ ([])));
  for (let round = 0; round < rounds; round++) {
    for (const [at, { name, ids }] of prompts.entries()) {
      process.stderr.write(`round ${round + 1} of ${rounds}, ${name}:`);
      for (let turn = 0; turn < running.length; turn++) {
        const which = (turn + round) % running.length;
        const answer = await measured(running[which], ids, maxTokens);
        answers[at][which].push(answer);
        process.stderr.write(
          ` ${contenders[which].name} ${Math.round(answer.answerMs)} ms${answer.disturbed ? ', disturbed' : ''};`,
        );
      }
      process.stderr.write('\n');
    }
  }
  return answers;
}

function table(contenders, prompts, figures) {
  const accepted = ({ draftTokens }) =>
    draftTokens === undefined
      ? ''
      : ` (${draftTokens.accepted}/${draftTokens.accepted + draftTokens.rejected})`;
  const own = contenders.map((_, which) => figures.map((byContender) => byContender[which]));
  return alignedTable([
    ['tokens/s (draft tokens accepted/computed)', ...contenders.map(({ name }) => name)],
    ...prompts.map(({ kind, name }, at) => [
      `${kind}: ${name}, ${figures[at][0].tokens} tokens`,
      ...figures[at].map((one) => `${one.tokensPerSecond.toFixed(1)}${accepted(one)}`),
    ]),
    ['all', ...own.map((answers) => overall(answers).toFixed(1))],
  ]);
}

async function main() {
  const { path, threads, ...options } = readOptions();
  const missing = nodeLlamaCpp.missing('');
  if (missing !== undefined) give(`node-llama-cpp: ${missing}`);
  const { prompts, tokenizer } = encoded(path);
  const longest = Math.max(...prompts.map(({ ids }) => ids.length));
  const contextTokens = contextOf(longest + options.maxTokens);
  const setup = { modelPath: path, threads, contextTokens, endIds: [...tokenizer.eosIds] };
  const running = [];
  try {
    for (const contender of options.contenders) {
      const one = await start({ ...setup, engine: contender.engine, draftLength: contender.draftLength });
      running.push(one);
      await one.answer(prompts[0].ids, options.maxTokens);
    }
    const answers = await answerAll(running, prompts, options);
    report(path, { threads, ...options }, prompts, answers);
  } finally {
    for (const one of running) one.end();
  }
}

function report(path, { contenders, ...options }, prompts, answers) {
  const figures = answers.map((byContender) => byContender.map(figuresOf));
  for (const [at, { name }] of prompts.entries()) {
    const [drafted, plain] = answers[at].map((rounds) => rounds[0].tokens);
    const parted = partedAt(plain, drafted);
    if (parted !== undefined) throw new Error(`${name}: drafts changed the answer from token ${parted} on`);
  }
  const speeds = contenders.map((_, which) => overall(figures.map((byContender) => byContender[which])));
  const best = Math.max(...speeds.filter((_, which) => contenders[which].engine === 'llama.cpp'));
  process.stdout.write(
    `${basename(path)}, ${options.threads} threads, one stream, medians of ${options.rounds}\n\n`,
  );
  process.stdout.write(`${table(contenders, prompts, figures)}\n\n`);
  const lists = answers.flat();
  const disturbed = lists.flat().filter((answer) => answer.disturbed).length;
  const noisy = lists.filter((rounds) => rounds.every((answer) => answer.disturbed)).length;
  if (disturbed > 0) {
    process.stdout.write(
      `Others used the machine during ${disturbed} of ${lists.flat().length} answers; ${noisy} of ${lists.length} figures have no quiet round.\n`,
    );
  }
  process.stdout.write(`Chairlift over the best of llama.cpp: ${(speeds[0] / best).toFixed(2)}\n`);
  const byPrompt = prompts.map(({ kind, name, ids }, at) => ({
    kind,
    name,
    promptTokens: ids.length,
    contenders: Object.fromEntries(
      contenders.map((contender, which) => [contender.name, figures[at][which]]),
    ),
  }));
  const all = Object.fromEntries(contenders.map(({ name }, which) => [name, speeds[which]]));
  process.stdout.write(
    `${JSON.stringify({ benchmark: 'edit', model: basename(path), ...options, tokensPerSecond: all, prompts: byPrompt })}\n`,
  );
}

await main().catch((error) => give(error.message));
