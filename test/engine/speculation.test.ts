// Drafted tokens change when an answer comes, never what it is: tokens, log-probabilities, ends and errors are those of an
// engine that drafts nothing, for every way of sampling, under preemption, in a hybrid model, and when engines are killed.

import { describe, expect, it } from 'vitest';
import { KnownAnswers } from '../../src/bench/offline/simulated-drafter.ts';
import type { EngineOptions } from '../../src/engine/engine.ts';
import type { LocalEngine } from '../../src/engine/local-engine.ts';
import { rulesOf } from '../../src/grammar/assemble.ts';
import { compileRules } from '../../src/grammar/compile.ts';
import { SupervisedEngine } from '../../src/pool/supervised-engine.ts';
import {
  chatIds,
  embeddedEndIds,
  embeddedTokenizer,
  embeddedVocabulary,
  withEngine,
} from '../support/embedded-engine.ts';
import { embeddedModelPath } from '../support/embedded-model.ts';
import { type Answer, collect, engineRequest, type TestRequest } from '../support/engine-requests.ts';
import { cases } from '../support/thorough.ts';

const grammar = compileRules(
  rulesOf(
    {
      kind: 'schema',
      schema: {
        type: 'object',
        properties: {
          name: { type: 'string', maxLength: 20 },
          age: { type: 'integer' },
          kind: { enum: ['red', 'green', 'blue'] },
        },
        required: ['name', 'age', 'kind'],
        additionalProperties: false,
      },
    },
    () => undefined,
  ).rules,
);
const text = 'Milo likes the green lamp. In March 2014 it was cold. Red foxes jump over the old chair.';
const questions = [
  `Copy this text exactly: ${text}`,
  'Tell me a story about a fox named Milo in the forest.',
  'Extract name and age as JSON: Meet Nora. Nora is 34 years old.',
  'List ten animals.',
  'What is 347 + 586?',
];
const stop = embeddedTokenizer.encode('.', { special: false, bos: false })[0] as number;
/** All tokens but one that answers begin with. */
const allButOne = Array.from({ length: 4096 }, (_, id) => id).filter((id) => id !== stop + 1);
const samplings = [
  { temperature: 0 },
  { temperature: 0.8, topP: 0.9 },
  { temperature: 0, repetitionPenalty: 1.2 },
  { temperature: 1.1, presencePenalty: 0.5, frequencyPenalty: 0.3, topK: 40 },
  { temperature: 0.9, minP: 0.05, logprobs: 3 },
  { temperature: 0, stopIds: [stop] },
  { temperature: 0.7, minTokens: 20 },
  { temperature: 0, ignoreEos: true, logitBias: [{ token: stop, bias: 3 }] },
  { temperature: 0, dryMultiplier: 0.8 },
  { temperature: 0.9, xtcProbability: 0.5, xtcThreshold: 0.1, repetitionPenalty: 1.1, repeatLastN: 12 },
  { temperature: 0.8, dynatempRange: 0.5, topNSigma: 2, dryMultiplier: 1, frequencyPenalty: 0.1 },
  { temperature: 0.7, mirostat: 2, mirostatTau: 3 },
  { temperature: 0, badWords: [String(stop), '300 301'], allowedTokenIds: allButOne },
] as const;

/** As if answers began within reasoning, which tokens of its own end. */
const thinking = { tokens: 9, opened: true, opens: [], closes: [[stop]], ending: [stop, 300] };

const REQUESTS = cases(300, 0.2);

/** All different, with and without grammars, expected texts and several choices. */
function request(n: number): TestRequest {
  const isConstrained = n % 7 === 3;
  return {
    prompt: chatIds(questions[n % questions.length] as string),
    sampling: { ...samplings[(n >> 1) % samplings.length], seed: n, maxTokens: 24 + (n % 50) },
    choice: n % 3,
    priority: (n % 3) as 0 | 1 | 2,
    ...(isConstrained ? { grammar } : {}),
    ...(n % 11 === 5 ? { thinking } : {}),
    ...(n % 5 === 0 ? { expected: embeddedTokenizer.encode(text, { special: false, bos: false }) } : {}),
  };
}

/** In groups, so that there is one stream at times and many at others. */
async function answers(
  count: number,
  options: Partial<EngineOptions>,
  nowMs?: () => number,
): Promise<Answer[]> {
  const ask = async (engine: LocalEngine) => {
    engine.setVocabulary(embeddedVocabulary);
    const all: Answer[] = [];
    for (let from = 0, size = 1; from < count; from += size, size = (size % 4) + 1) {
      const group = Array.from({ length: Math.min(size, count - from) }, (_, i) => request(from + i));
      all.push(...(await Promise.all(group.map((one) => collect(engine.submit(engineRequest(one)))))));
    }
    return all;
  };
  return withEngine(options, ask, undefined, nowMs);
}

/** All but what tells of the draft tokens themselves, and of blocks. */
function said({ tokens, logprobs, finish }: Answer): unknown {
  const { reason, error, promptTokens, generatedTokens } = finish;
  return { tokens, logprobs, reason, error, promptTokens, generatedTokens };
}

describe('answers with draft tokens', () => {
  it('are those without, whatever is asked', { timeout: 300_000 }, async () => {
    const plain = await answers(REQUESTS, { speculation: false });
    const speculative = await answers(REQUESTS, {}, evenClock());
    expect(speculative.map(said)).toEqual(plain.map(said));
    const accepted = speculative.reduce((sum, { finish }) => sum + (finish.draftTokens?.accepted ?? 0), 0);
    const rejected = speculative.reduce((sum, { finish }) => sum + (finish.draftTokens?.rejected ?? 0), 0);
    expect(accepted).toBeGreaterThan(REQUESTS);
    expect(rejected).toBeGreaterThan(20);
    expect(plain.every(({ finish }) => finish.draftTokens === undefined)).toBe(true);
  });

  it('are those without where blocks run short', { timeout: 300_000 }, async () => {
    const crowd = async (options: Partial<EngineOptions>) =>
      withEngine({ ...options, blockCount: 12 }, async (engine) => {
        engine.setVocabulary(embeddedVocabulary);
        const some = Array.from({ length: 12 }, (_, n) => ({
          ...request(n),
          sampling: { temperature: n % 2, seed: n, ignoreEos: true, maxTokens: 120 },
        }));
        const all = await Promise.all(some.map((one) => collect(engine.submit(engineRequest(one)))));
        return { all, preemptions: (await engine.stats()).counters.preemptions };
      });
    const plain = await crowd({ speculation: false });
    const speculative = await crowd({});
    expect(speculative.all.map(said)).toEqual(plain.all.map(said));
    expect(speculative.preemptions).toBeGreaterThan(0);
  });

  it('are those without though the engine process is killed', { timeout: 300_000 }, async () => {
    const engine = new SupervisedEngine({
      modelPath: embeddedModelPath,
      engine: { blockCount: 256, budget: { kind: 'fixed', maxStepTokens: 256 }, endIds: embeddedEndIds },
    });
    try {
      expect(await engine.start()).toMatchObject({ ok: true });
      engine.setVocabulary(embeddedVocabulary);
      // So long that the engine is killed before the first answer ends, however fast it is.
      const long = { ...request(0), sampling: { temperature: 0, ignoreEos: true, maxTokens: 400 } };
      const wanted = [long, ...[1, 3, 5].map(request)];
      const plain = await withEngine({ speculation: false }, async (local) => {
        local.setVocabulary(embeddedVocabulary);
        return Promise.all(wanted.map((one) => collect(local.submit(engineRequest(one)))));
      });
      const tokens = await Promise.all(
        wanted.map(async (one, index) => {
          const sampled: number[] = [];
          for await (const event of engine.submit(engineRequest(one))) {
            if (event.kind !== 'token') continue;
            sampled.push(event.token);
            if (index === 0 && sampled.length === 12) process.kill(engine.pid as number, 'SIGKILL');
          }
          return sampled;
        }),
      );
      expect(tokens).toEqual(plain.map((answer) => answer.tokens));
      expect(engine.restarts).toBe(1);
    } finally {
      await engine.close();
    }
  });

  it('come in fewer steps where draft tokens are right, and in no more where they are wrong', async () => {
    const one = { prompt: chatIds(questions[1] as string), sampling: { temperature: 0, maxTokens: 80 } };
    const run = async (options: Partial<EngineOptions>) =>
      withEngine(
        options,
        async (engine) => {
          const { tokens } = await collect(engine.submit(engineRequest(one)));
          return { tokens, steps: (await engine.stats()).steps };
        },
        undefined,
        evenClock(),
      );
    const plain = await run({ speculation: false });
    const knowing = (answer: readonly number[]) => {
      const known = new KnownAnswers(1);
      known.learn(one.prompt, answer);
      const newDrafter: EngineOptions['newDrafter'] = ({ prompt }, tokens) =>
        known.drafter(prompt, tokens.length - prompt.length);
      return { newDrafter };
    };
    const right = await run(knowing(plain.tokens));
    const wrong = await run(knowing(plain.tokens.map((token) => (token + 1) % 4096)));
    expect([right.tokens, wrong.tokens]).toEqual([plain.tokens, plain.tokens]);
    expect(right.steps).toBeLessThan(plain.steps / 2);
    expect(wrong.steps).toBe(plain.steps);
  });
});

/** All steps take as long, whatever else the machine does. */
function evenClock(): () => number {
  let ms = 0;
  return () => ms++;
}
