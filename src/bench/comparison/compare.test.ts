import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { tinyModel } from '../../../test/support/tiny-model.ts';
import type { Backend, Batch } from '../../compute/backend.ts';
import { createReferenceBackend } from '../../compute/reference/backend.ts';
import { compare } from './compare.ts';
import { comparisonBlocks, comparisonSettings } from './comparison-settings.ts';

const { spec, weights } = tinyModel({ contextLength: 128 });
const { vocabSize, contextLength } = spec;
const settings = comparisonSettings(
  { prompts: [8, 40], concurrencies: [1, 3], tokens: 6, requests: 5, repeats: 2, threads: 1 },
  contextLength,
);
const options = {
  blockCount: comparisonBlocks(settings),
  budget: { kind: 'fixed', maxStepTokens: 64 },
  vocabSize,
  contextLength,
} as const;

/** Notes the sequences of every step, and may change what comes out. */
class WatchedBackend implements Backend {
  readonly sequences: number[] = [];
  readonly #backend: Backend;
  readonly #spoil: (batch: Batch, logits: Float32Array) => void;

  constructor(backend: Backend, spoil: (batch: Batch, logits: Float32Array) => void = () => {}) {
    this.#backend = backend;
    this.#spoil = spoil;
  }

  get name() {
    return this.#backend.name;
  }

  get blockCount() {
    return this.#backend.blockCount;
  }

  async step(batch: Batch) {
    this.sequences.push(batch.starts.length);
    const result = await this.#backend.step(batch);
    this.#spoil(batch, result.logits);
    return result;
  }

  sampleRows: Backend['sampleRows'] = (...given) => this.#backend.sampleRows(...given);

  releaseBlocks(blocks: Int32Array): void {
    this.#backend.releaseBlocks(blocks);
  }

  close(): void {}
}

let backend: Backend;
beforeAll(async () => {
  backend = await createReferenceBackend(spec, weights, { blockCount: options.blockCount });
});
afterAll(() => backend.close());

describe('a comparison', () => {
  it('measures every length of prompts at every concurrency, one by one and batched', async () => {
    const phases: string[] = [];
    const onPhase = (text: string) => phases.push(text);
    const { results, mismatches } = await compare(backend, options, settings, { onPhase });
    expect(mismatches).toEqual([]);
    expect(results.map(({ promptTokens, concurrency }) => [promptTokens, concurrency])).toEqual([
      [8, 1],
      [8, 3],
      [40, 1],
      [40, 3],
    ]);
    for (const { requests, oneByOne, batched, speedUp } of results) {
      expect(requests).toBe(5);
      expect(speedUp).toBeGreaterThan(0);
      for (const { latencyMs, firstTokenMs, seconds, tokensPerSecond, peakMemoryBytes } of [
        oneByOne,
        batched,
      ]) {
        expect(latencyMs.count).toBe(5);
        expect(firstTokenMs.mean).toBeLessThan(latencyMs.mean);
        expect(latencyMs.p50).toBeLessThanOrEqual(latencyMs.p99);
        expect(latencyMs.max).toBeLessThanOrEqual(1000 * seconds);
        expect(tokensPerSecond).toBeGreaterThan(0);
        expect(peakMemoryBytes).toBeGreaterThan(1e6);
      }
    }
    expect(phases.slice(0, 3)).toEqual([
      'warming up',
      'round 1 of 2: 5 prompts of 8 tokens, 1 at once, one by one',
      'round 1 of 2: 5 prompts of 8 tokens, 1 at once, batched',
    ]);
    expect(phases).toContain('round 2 of 2: 5 prompts of 40 tokens, 3 at once, batched');
    expect(phases.findIndex((text) => text.startsWith('round 2') && text.endsWith('batched'))).toBe(9);
  });

  it('computes one sequence a step one by one, and as many as are at once in a batch', async () => {
    const watched = new WatchedBackend(backend);
    const steps: [string, number][] = [];
    let phase = '';
    let seen = 0;
    const settle = () => {
      const most = Math.max(0, ...watched.sequences.slice(seen));
      seen = watched.sequences.length;
      if (phase.startsWith('round 1')) steps.push([phase.split(', ').slice(1).join(', '), most]);
    };
    await compare(watched, options, settings, {
      onPhase: (text) => {
        settle();
        phase = text;
      },
    });
    expect(steps.slice(0, 4)).toEqual([
      ['1 at once, one by one', 1],
      ['1 at once, batched', 1],
      ['3 at once, one by one', 1],
      ['3 at once, batched', 3],
    ]);
  });

  it('tells every answer that a batch changes', async () => {
    const spoiled = new WatchedBackend(backend, ({ starts }, logits) => {
      if (starts.length > 1) logits.fill(0).fill(1, 7, 8);
    });
    const { mismatches } = await compare(spoiled, options, settings, { onPhase: () => {} });
    expect(mismatches.length).toBeGreaterThan(0);
    expect(new Set(mismatches.map(({ served, concurrency }) => `${served} ${concurrency}`))).toEqual(
      new Set(['batched 3']),
    );
    expect(Math.max(...mismatches.map(({ request }) => request))).toBeLessThan(5);
  });

  it('ends before its next trial when it is told to', async () => {
    const controller = new AbortController();
    const onPhase = (text: string) => {
      if (text.includes('batched')) controller.abort(new Error('enough'));
    };
    await expect(compare(backend, options, settings, { onPhase, signal: controller.signal })).rejects.toThrow(
      'enough',
    );
  });
});
