import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { tinyModel } from '../../../test/support/tiny-model.ts';
import { type Backend, BLOCK_TOKENS } from '../../compute/backend.ts';
import { createReferenceBackend } from '../../compute/reference/backend.ts';
import { decodeSteps, measureBatched, measureDirect, measurePrefix } from './measure.ts';
import { type MeasuredAnswer, MeasuredEngine, randomPrompts } from './measured-engine.ts';

const BLOCKS = 16;
const { spec, weights } = tinyModel({ contextLength: 256 });
const { vocabSize, contextLength } = spec;
const options = {
  blockCount: BLOCKS,
  budget: { kind: 'fixed', maxStepTokens: 512 },
  vocabSize,
  contextLength,
} as const;
const settings = {
  streams: [3],
  promptTokens: 64,
  outputTokens: 12,
  threads: 1,
  kvType: 'f16',
  repeats: 2,
  prefixTokens: undefined,
} as const;

let backend: Backend;
let batched: MeasuredEngine;
let direct: MeasuredEngine;
const nextPrompt = randomPrompts(vocabSize);

beforeAll(async () => {
  backend = await createReferenceBackend(spec, weights, { blockCount: BLOCKS });
  batched = new MeasuredEngine(backend, options);
  direct = new MeasuredEngine(backend, { ...options, direct: true });
});

afterAll(async () => {
  await Promise.all([batched.close(), direct.close()]);
  backend.close();
});

describe('a measured run', () => {
  it('gives every answer its tokens and every step its time', async () => {
    const requests = Array.from({ length: 3 }, () => ({ prompt: nextPrompt(64), outputTokens: 12 }));
    const { answers, steps, ms } = await batched.run(requests);
    expect(answers.map(({ tokens, cachedTokens }) => [tokens.length, cachedTokens])).toEqual(
      new Array(3).fill([12, 0]),
    );
    const wallMs = steps.reduce((sum, step) => sum + step.wallMs, 0);
    expect(wallMs).toBeLessThanOrEqual(ms);
    for (const { firstTokenMs } of answers) expect(firstTokenMs).toBeLessThanOrEqual(ms);
    for (const { times, wallMs } of steps) {
      expect(times.scheduleMs + times.computeMs + times.sampleMs + times.emitMs).toBeLessThanOrEqual(wallMs);
    }
    expect(steps.reduce((sum, { tokens }) => sum + tokens, 0)).toBe(3 * (64 + 11));
  });

  it('goes on from a beginning with the prompt from the cache, all streams in every step', async () => {
    const prompts = Array.from({ length: 3 }, () => nextPrompt(64));
    const whole = await direct.run([{ prompt: prompts[0] as Int32Array, outputTokens: 12 }]);
    const first = await batched.run(prompts.map((prompt) => ({ prompt, outputTokens: 1 })));
    const rest = await batched.run(
      prompts.map((prompt, n) => ({ prompt, outputTokens: 12, begun: first.answers[n]?.tokens ?? [] })),
    );
    expect(rest.answers.map(({ cachedTokens }) => cachedTokens)).toEqual([64, 64, 64]);
    expect(rest.steps.map(({ tokens, sequences }) => [tokens, sequences])).toEqual(
      new Array(11).fill([3, 3]),
    );
    expect(decodeSteps(rest, 3)).toHaveLength(10);
    expect([...(first.answers[0]?.tokens ?? []), ...(rest.answers[0]?.tokens ?? [])]).toEqual(
      whole.answers[0]?.tokens,
    );
  });

  it('keeps so many requests at once, the next as soon as one ends, and counts the wait of each', async () => {
    const requests = Array.from({ length: 4 }, () => ({ prompt: nextPrompt(40), outputTokens: 5 }));
    const { answers } = await direct.run(requests, 2);
    const [first, second, third, fourth] = answers as [MeasuredAnswer, ...MeasuredAnswer[]];
    expect(second?.submittedMs).toBeLessThan(first.firstTokenMs);
    expect(second?.firstTokenMs).toBeGreaterThan(first.endMs);
    expect(third?.submittedMs).toBeGreaterThanOrEqual(first.endMs);
    expect(fourth?.submittedMs).toBeGreaterThanOrEqual(second?.endMs as number);
    for (const { submittedMs, firstTokenMs, endMs } of answers) {
      expect(submittedMs).toBeLessThan(firstTokenMs);
      expect(firstTokenMs).toBeLessThan(endMs);
    }
  });

  it('tells why a request cannot be served', async () => {
    await expect(batched.run([{ prompt: nextPrompt(300), outputTokens: 2 }])).rejects.toThrow('256');
  });
});

describe('measurements', () => {
  it('of several streams decode together, over all repeats', async () => {
    const { decode, prefill, seconds } = await measureBatched(batched, 3, settings, nextPrompt);
    expect(decode.steps).toBe(2 * 10);
    expect(decode.stepMs.best).toBeGreaterThan(0);
    expect(decode.stepMs.best).toBeLessThanOrEqual(decode.stepMs.median);
    expect(prefill.firstTokenMs.median).toBeLessThanOrEqual(prefill.firstTokenMs.last);
    expect(prefill.firstTokenMs.last).toBeLessThan(1000 * seconds);
  });

  it('in direct mode run one request after the other', async () => {
    const { decode, requests, firstTokenMs, secondsPerRequest } = await measureDirect(
      direct,
      2,
      settings,
      nextPrompt,
    );
    expect(requests).toBe(2);
    expect(decode.steps).toBe(2 * 2 * 11);
    expect(firstTokenMs).toBeLessThan(1000 * secondsPerRequest);
  });

  it('of a prompt asked for twice find all but its last block in the cache', async () => {
    const { cachedTokens, ratio, coldFirstTokenMs, cachedFirstTokenMs } = await measurePrefix(
      batched,
      128,
      1,
      nextPrompt,
    );
    expect(cachedTokens).toBe(96);
    expect(ratio).toBe(coldFirstTokenMs / cachedFirstTokenMs);
  });

  it('without a step in which all streams decode are refused', async () => {
    // The last block's tokens are computed again: with so few tokens, some end before others begin.
    const crowded = new MeasuredEngine(backend, { ...options, budget: { kind: 'fixed', maxStepTokens: 8 } });
    const uneven = { ...settings, promptTokens: 62, outputTokens: 4 };
    await expect(measureBatched(crowded, 3, uneven, nextPrompt)).rejects.toThrow(
      'in no step did all streams decode',
    );
    await crowded.close();
  });
});

it('prompts hold tokens of the vocabulary, and no two begin with the same block', () => {
  const nextPrompt = randomPrompts(300);
  const prompts = Array.from({ length: 500 }, () => nextPrompt(64));
  const tokens = prompts.flatMap((prompt) => [...prompt]);
  expect(Math.min(...tokens)).toBe(0);
  expect(Math.max(...tokens)).toBe(299);
  const beginnings = prompts.map((prompt) => prompt.slice(0, BLOCK_TOKENS).join());
  expect(new Set(beginnings).size).toBe(500);
});

it('prompts are the same every time', () => {
  expect(randomPrompts(1000)(50)).toEqual(randomPrompts(1000)(50));
});
