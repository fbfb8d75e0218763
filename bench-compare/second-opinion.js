// `npm run compare -- second-opinion FILE.gguf …`: what llama.cpp makes of the same file and tokens. For each file the greedy
// answers of both and how far apart their log-probabilities are; ends in one JSON line, and with 1 where a file's
// difference is above the tolerance. Options: bench-compare/README.md.

import { fork } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { backendNames } from '../dist/compute/backend.js';
import { nodeLlamaCpp } from './engines/node-llama-cpp.js';
import { commonStart } from './figures.js';
import { count, give } from './harness.js';
import { writeFloatCopy } from './model.js';

const program = fileURLToPath(new URL('opinion.js', import.meta.url));
const LAST_LINES = 3;

function readOptions() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      ids: { type: 'string' },
      prompt: { type: 'string', default: '48' },
      tokens: { type: 'string', default: '16' },
      backend: { type: 'string', default: 'reference' },
      'as-stored': { type: 'boolean', default: false },
      tolerance: { type: 'string' },
      threads: { type: 'string', default: String(availableParallelism()) },
      timeout: { type: 'string', default: '300' },
    },
  });
  const number = (name, text, isFit) =>
    isFit(Number(text)) ? Number(text) : give(`--${name}: give a number`);
  if (positionals.length === 0) give('give GGUF files, or folders that hold some');
  const backend = backendNames.find((name) => name === values.backend);
  const asStored = values['as-stored'];
  return {
    files: positionals.flatMap(ggufFiles),
    asStored,
    // llama.cpp looks GELU up in a table of halves, and multiplies stored weights with activations of few bits.
    tolerance: number('tolerance', values.tolerance ?? (asStored ? 0.5 : 0.05), (value) => value >= 0),
    timeoutSeconds: count('timeout', values.timeout),
    question: {
      ...(values.ids === undefined
        ? {}
        : { ids: values.ids.split(',').map((id) => number('ids', id, isId)) }),
      promptTokens: count('prompt', values.prompt),
      answerTokens: count('tokens', values.tokens),
      backend: backend ?? give(`--backend: give one of ${backendNames.join(', ')}`),
      threads: count('threads', values.threads),
    },
  };
}

function isId(value) {
  return Number.isInteger(value) && value >= 0;
}

function ggufFiles(path) {
  const found = statSync(path, { throwIfNoEntry: false }) ?? give(`${path}: there is no such file`);
  if (!found.isDirectory()) return [path];
  return readdirSync(path, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.gguf'))
    .sort()
    .map((name) => join(path, name));
}

/**
 * @param {import('./opinion.js').Question} question
 * @param {number} timeoutSeconds
 * @returns {Promise<{ verdict: import('./opinion.js').Verdict } | { fault: string }>}
 */
function ask(question, timeoutSeconds) {
  return new Promise((resolve) => {
    const child = fork(program, {
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
      timeout: timeoutSeconds * 1000,
    });
    let written = '';
    child.stderr?.on('data', (text) => {
      written += text;
    });
    child.once('message', resolve);
    child.once('close', (code, signal) => {
      const last = written.trim().split('\n').slice(-LAST_LINES).join('; ');
      resolve({ fault: `ended with ${signal ?? code}: ${last}` });
    });
    child.send(question);
  });
}

async function secondOpinion(file, { asStored, question, timeoutSeconds }) {
  if (asStored) return ask({ ...question, path: file, peerPath: file }, timeoutSeconds);
  const folder = mkdtempSync(join(tmpdir(), 'second-opinion-'));
  try {
    const peerPath = join(folder, 'float32.gguf');
    await writeFloatCopy(file, peerPath);
    return await ask({ ...question, path: file, peerPath }, timeoutSeconds);
  } catch (error) {
    return { fault: error instanceof Error ? error.message : String(error) };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function describe(verdict) {
  const { ownAnswer, peerAnswer, difference } = verdict;
  const same = commonStart(peerAnswer, ownAnswer);
  return [
    `  llama.cpp  ${peerAnswer.join(' ')}`,
    `  Chairlift  ${ownAnswer.join(' ')}`,
    `  ${same === peerAnswer.length ? 'the same tokens' : `the same ${same} tokens, then others`}; ` +
      `log-probabilities at most ${difference.toPrecision(2)} apart`,
  ].join('\n');
}

const options = readOptions();
const missing = nodeLlamaCpp.missing('');
if (missing !== undefined) give(`node-llama-cpp: ${missing}`);
const results = [];
for (const file of options.files) {
  const answer = await secondOpinion(file, options);
  process.stdout.write(`${file}\n${'fault' in answer ? `  ${answer.fault}` : describe(answer.verdict)}\n`);
  results.push({ file, ...('fault' in answer ? answer : answer.verdict) });
}
const compared = results.filter((result) => 'difference' in result);
const apart = compared.filter((result) => !(result.difference <= options.tolerance));
process.stdout.write(
  `${compared.length} of ${results.length} files compared; ${apart.length} further apart than ${options.tolerance}` +
    `${apart.map(({ file }) => `\n  ${file}`).join('')}\n`,
);
process.stdout.write(
  `${JSON.stringify({ benchmark: 'second-opinion', tolerance: options.tolerance, results })}\n`,
);
process.exitCode = apart.length > 0 ? 1 : 0;
