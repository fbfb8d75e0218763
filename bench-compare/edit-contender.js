// One contender of `edit.js` in a process of its own: loads the model once, then answers one prompt after the other,
// whenever it is asked. Says when each token came and how its draft tokens fared.

import { BLOCK_TOKENS } from '../dist/compute/backend.js';
import { loadEngine } from '../dist/engine/load-engine.js';
import { LocalEngine } from '../dist/engine/local-engine.js';
import { validateSampling } from '../dist/sampling/parameters.js';
import { seedFrom } from '../dist/sampling/random.js';
import { STEP_TOKENS } from './engine.js';
import { ownSeconds } from './harness.js';
import { openLlamaContext } from './llama.js';

/**
 * @typedef {object} ContenderSetup
 * @property {'chairlift' | 'llama.cpp'} engine
 * @property {number} draftLength at most, where the engine is told; 0 for none
 * @property {string} modelPath
 * @property {number} threads
 * @property {number} contextTokens
 * @property {readonly number[]} endIds
 */

/**
 * @typedef {object} Answer
 * @property {number[]} tokens
 * @property {number} promptMs until the first token
 * @property {number} answerMs from the first token to the last
 * @property {number} cpuSeconds
 * @property {{ accepted: number, rejected: number }} [draftTokens]
 */

/** @typedef {(prompt: readonly number[], maxTokens: number) => Promise<Answer>} Answering */

process.once('message', async (/** @type {ContenderSetup} */ setup) => {
  try {
    const answer = await (setup.engine === 'chairlift' ? openChairlift(setup) : openLlama(setup));
    process.on(
      'message',
      async (/** @type {{ prompt: number[], maxTokens: number }} */ { prompt, maxTokens }) => {
        process.send?.(await answer(prompt, maxTokens).catch(fault));
      },
    );
    process.send?.({ ready: true });
  } catch (error) {
    process.send?.(fault(error));
  }
});

function fault(error) {
  return { fault: error instanceof Error ? error.message : String(error) };
}

/**
 * @param {ContenderSetup} setup
 * @returns {Promise<Answering>}
 */
async function openChairlift({ modelPath, threads, contextTokens, endIds, draftLength }) {
  const { backend, options } = await loadEngine(
    {
      modelPath,
      backend: 'cpu',
      threads,
      stateSlots: 4,
      engine: {
        blockCount: Math.ceil(1.25 * (contextTokens / BLOCK_TOKENS + 1)),
        endIds,
        budget: { kind: 'fixed', maxStepTokens: STEP_TOKENS },
        speculation: draftLength > 0,
      },
    },
    () => {},
  );
  const engine = new LocalEngine(backend, options);
  let asked = 0;
  return async (prompt, maxTokens) => {
    const wanted = { temperature: 0, maxTokens };
    const sampling = validateSampling(wanted, { vocabSize: options.vocabSize, freshSeed: seedFrom(0n) });
    if (!sampling.ok) throw new Error(`${sampling.parameter} ${sampling.problem}`);
    asked += 1;
    // A salt for each: what an earlier answer left in the caches would help.
    const id = String(asked);
    const request = { id, salt: id, account: '', priority: /** @type {const} */ (1), enqueuedMs: Date.now() };
    const watch = startWatch();
    let counts;
    const submitted = { ...request, prompt: Int32Array.from(prompt), parameters: sampling.parameters };
    for await (const event of engine.submit(submitted)) {
      if (event.kind === 'token') {
        if (!endIds.includes(event.token)) watch.add(event.token);
      } else if (event.error !== undefined) throw new Error(event.error.message);
      else counts = event.draftTokens;
    }
    return { ...watch.answer(), ...(counts === undefined ? {} : { draftTokens: counts }) };
  };
}

/**
 * @param {ContenderSetup} setup
 * @returns {Promise<Answering>}
 */
async function openLlama({ modelPath, threads, contextTokens, draftLength }) {
  const { InputLookupTokenPredictor } = await import('node-llama-cpp');
  const { context } = await openLlamaContext({ modelPath, threads, contextTokens });
  const tokenPredictor =
    draftLength > 0 ? new InputLookupTokenPredictor({ predictionLength: { max: draftLength } }) : undefined;
  const sequence = context.getSequence({ tokenPredictor });
  return async (prompt, maxTokens) => {
    await sequence.clearHistory();
    tokenPredictor?.updateInputTokens([...prompt]);
    const before = sequence.tokenPredictions;
    const watch = startWatch();
    for await (const token of sequence.evaluate([...prompt], { temperature: 0, yieldEogToken: false })) {
      watch.add(token);
      if (watch.count() === maxTokens) break;
    }
    const answer = watch.answer();
    if (tokenPredictor === undefined) return answer;
    const { validated, refuted } = sequence.tokenPredictions;
    const counts = { accepted: validated - before.validated, rejected: refuted - before.refuted };
    return { ...answer, draftTokens: counts };
  };
}

function startWatch() {
  const before = ownSeconds();
  const startMs = performance.now();
  const tokens = [];
  let firstMs = startMs;
  let lastMs = startMs;
  return {
    add(token) {
      lastMs = performance.now();
      if (tokens.length === 0) firstMs = lastMs;
      tokens.push(token);
    },
    count: () => tokens.length,
    answer: () => ({
      tokens,
      promptMs: firstMs - startMs,
      answerMs: lastMs - firstMs,
      cpuSeconds: ownSeconds() - before,
    }),
  };
}
