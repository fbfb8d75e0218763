// Chairlift: its engine loop in this process, as `chairlift batch` runs it.

import { readFileSync } from 'node:fs';
import { BLOCK_TOKENS } from '../../dist/compute/backend.js';
import { loadAddon } from '../../dist/compute/cpu/binding.js';
import { loadEngine } from '../../dist/engine/load-engine.js';
import { LocalEngine } from '../../dist/engine/local-engine.js';
import { validateSampling } from '../../dist/sampling/parameters.js';
import { seedFrom } from '../../dist/sampling/random.js';
import { STEP_TOKENS } from '../engine.js';

const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));

/** @type {import('../engine.js').Engine} */
export const chairlift = {
  label: 'Chairlift',

  missing() {
    const load = loadAddon();
    return load.available ? undefined : load.reason;
  },

  async run({ modelPath, threads, streams, contextTokens }, rounds) {
    // One block more for each stream, so that no watermark makes a stream wait.
    const blockCount = Math.ceil(streams * (contextTokens / BLOCK_TOKENS + 1) * 1.25);
    /** @type {import('../../dist/engine/protocol.js').EngineSettings} */
    const settings = {
      modelPath,
      backend: 'cpu',
      threads,
      // One for each stream, and room for checkpoints of prompts.
      stateSlots: 3 * streams,
      engine: {
        blockCount,
        endIds: [],
        budget: { kind: 'fixed', maxStepTokens: STEP_TOKENS },
        // Answers of random weights repeat themselves: drafts of them would be mistaken for speed.
        speculation: false,
      },
    };
    const { backend, options } = await loadEngine(settings, () => {});
    const engine = new LocalEngine(backend, options);
    try {
      const timings = [];
      for (const round of rounds) timings.push(await answers(engine, round, options.vocabSize));
      return { version, build: kernels(), timings };
    } finally {
      await engine.close();
    }
  },
};

function kernels() {
  const load = loadAddon();
  return load.available ? `kernels ${load.addon.kernels().join(', ')}` : load.reason;
}

/**
 * @param {LocalEngine} engine
 * @param {import('../engine.js').Round} round
 * @param {number} vocabSize
 * @returns {Promise<import('../engine.js').Timing>}
 */
async function answers(engine, { prompts, answerTokens }, vocabSize) {
  const wanted = { temperature: 0, maxTokens: answerTokens, ignoreEos: true };
  const sampling = validateSampling(wanted, { vocabSize, freshSeed: seedFrom(0n) });
  if (!sampling.ok) throw new Error(`${sampling.parameter} ${sampling.problem}`);
  const startedMs = performance.now();
  const streams = await Promise.all(
    prompts.map((prompt, index) =>
      answer(engine, {
        id: `${startedMs}-${index}`,
        prompt: Int32Array.from(prompt),
        parameters: sampling.parameters,
        priority: 1,
        salt: '',
        account: '',
        enqueuedMs: Date.now(),
      }),
    ),
  );
  return { startedMs, tokenMs: streams.map(({ times }) => times), tokens: streams[0].tokens };
}

/**
 * @param {LocalEngine} engine
 * @param {import('../../dist/engine/request.js').EngineRequest} request
 */
async function answer(engine, request) {
  const times = [];
  const tokens = [];
  for await (const event of engine.submit(request)) {
    if (event.kind === 'finish') {
      if (event.error !== undefined) throw new Error(event.error.message);
      continue;
    }
    times.push(performance.now());
    tokens.push(event.token);
  }
  return { times, tokens };
}
