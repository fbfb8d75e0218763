// One trial of one engine in a process of its own: a warm-up, then the answers that count. Ends in one JSON line.
//
//   node bench-compare/trial.js --engine chairlift --model FILE.gguf --streams 8 --prompt 128 --tokens 64

import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { buildSpec } from '../dist/model/build-spec.js';
import { openModelFiles } from '../dist/weights/open-model.js';
import { engines } from './engines.js';
import { decodeSpeed, prefillSpeed } from './figures.js';
import { ownSeconds } from './harness.js';

const WARM_PROMPT = 32;
const WARM_ANSWER = 8;
/** Bytes lie at the beginning of a vocabulary, control tokens often at its end. */
const SPARED_IDS = 300;

const { values } = parseArgs({
  options: {
    engine: { type: 'string', default: 'chairlift' },
    model: { type: 'string' },
    streams: { type: 'string', default: '1' },
    prompt: { type: 'string', default: '128' },
    tokens: { type: 'string', default: '64' },
    threads: { type: 'string', default: String(availableParallelism()) },
    python: { type: 'string', default: 'python3' },
  },
});
const engine = engines[values.engine];
if (engine === undefined || values.model === undefined) {
  process.stderr.write(`give --model FILE.gguf and --engine, one of ${Object.keys(engines).join(', ')}\n`);
  process.exit(1);
}
const [streams, promptTokens, answerTokens, threads] = [
  values.streams,
  values.prompt,
  values.tokens,
  values.threads,
].map(Number);

function vocabSizeOf(path) {
  const files = openModelFiles(path);
  try {
    return buildSpec(files).vocabSize;
  } finally {
    files.weights.close();
  }
}

/** The same ids for every engine. No two prompts begin alike, so that no prefix cache helps. */
function promptsOf(salt, length, vocabSize) {
  const range = Math.max(1, vocabSize - 2 * SPARED_IDS);
  return Array.from({ length: streams }, (_, stream) =>
    Array.from({ length }, (_, position) => {
      const mixed =
        Math.imul(position + 1, 104729) ^ Math.imul(stream + 1, 7919) ^ Math.imul(salt + 1, 611953);
      return SPARED_IDS + ((mixed >>> 0) % range);
    }),
  );
}

const vocabSize = vocabSizeOf(values.model);
// A single first token measures the prompt; code specialised for its length should be compiled.
const warm =
  answerTokens === 1 ? { prompt: promptTokens, answer: 1 } : { prompt: WARM_PROMPT, answer: WARM_ANSWER };
const rounds = [
  { prompts: promptsOf(0, warm.prompt, vocabSize), answerTokens: warm.answer },
  { prompts: promptsOf(1, promptTokens, vocabSize), answerTokens },
];
const setup = {
  modelPath: values.model,
  threads,
  streams,
  contextTokens: promptTokens + answerTokens,
  python: values.python,
};
const { version, build, timings, childCpuSeconds = 0 } = await engine.run(setup, rounds);
const timing = timings[1];
for (const times of timing.tokenMs) {
  if (times.length !== answerTokens)
    throw new Error(`a stream gave ${times.length} tokens, not ${answerTokens}`);
}
const result = {
  engine: values.engine,
  version,
  build,
  streams,
  promptTokens,
  answerTokens,
  prefillTokensPerSecond: prefillSpeed(timing, streams * promptTokens),
  ...(answerTokens > 1 ? { decodeTokensPerSecond: decodeSpeed(timing) } : {}),
  tokens: timing.tokens,
  cpuSeconds: ownSeconds() + childCpuSeconds,
};
process.stdout.write(`${JSON.stringify(result)}\n`);
