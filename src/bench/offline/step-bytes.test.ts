import { describe, expect, it } from 'vitest';
import { hasAddon } from '../../../test/support/native.ts';
import { fileMatrixBytes, sizesOf } from '../../compute/memory.ts';
import { buildSpec } from '../../model/build-spec.ts';
import type { PartSpec } from '../../model/spec.ts';
import { dummyModel } from '../dummy-model.ts';
import { decodeStepBytes } from './step-bytes.ts';

const small = dummyModel('smollm2-135m', 'Q8_0');
const large = dummyModel('llama-3.1-8b', 'F16');
const sizes = { ...sizesOf(), matrixBytes: fileMatrixBytes };
const one = { streams: 1, contextTokens: 1, kvType: 'f16' } as const;

describe('weights of a step', () => {
  it('are all matrices where the head is the embedding', () => {
    const layer = 576 * 576 * 2 + 192 * 576 * 2 + 3 * 576 * 1536;
    const values = 49152 * 576 + 30 * layer;
    const { weights } = decodeStepBytes(buildSpec(small), small.weights, sizes, one);
    expect(weights).toBe((values / 32) * 34);
  });

  it('hold but a row a stream of an embedding beside its own head', () => {
    const layer = 4096 * 4096 * 2 + 1024 * 4096 * 2 + 3 * 4096 * 14336;
    const values = 128256 * 4096 + 32 * layer;
    const step = { ...one, streams: 8 };
    const { weights } = decodeStepBytes(buildSpec(large), large.weights, sizes, step);
    expect(weights).toBe(2 * (values + 8 * 4096));
  });

  it('are counted as the backend keeps them', () => {
    const doubled = decodeStepBytes(
      buildSpec(small),
      small.weights,
      { ...sizes, matrixBytes: (...matrix) => 2 * fileMatrixBytes(...matrix) },
      one,
    );
    const { weights } = decodeStepBytes(buildSpec(small), small.weights, sizes, one);
    expect(doubled.weights).toBe(2 * weights);
  });
});

describe('KV of a step', () => {
  const spec = buildSpec(large);
  const kvOf = (step: Parameters<typeof decodeStepBytes>[3], of = spec) =>
    decodeStepBytes(of, large.weights, sizes, step).kv;

  it('are K and V of every token of every stream in every layer', () => {
    const bytesPerToken = 32 * 8 * 128 * 2 * 2;
    expect(kvOf({ streams: 3, contextTokens: 100, kvType: 'f16' })).toBe(3 * 100 * bytesPerToken);
  });

  it('take a byte a value and two scales a head in q8', () => {
    expect(kvOf({ streams: 1, contextTokens: 10, kvType: 'q8' })).toBe(10 * 32 * 8 * (2 * 128 + 2 * 4));
  });

  it.skipIf(!hasAddon)(
    'take half a byte a value in q4, and a half of two bytes for 32 (skipped where the addon is not built)',
    () => {
      expect(kvOf({ streams: 1, contextTokens: 10, kvType: 'q4' })).toBe(10 * 32 * 8 * 2 * (64 + 4 * 2));
    },
  );

  it('end at the window of a layer', () => {
    const withWindow = (part: PartSpec): PartSpec =>
      part.body.kind === 'attention' ? { ...part, body: { ...part.body, window: 16 } } : part;
    const layers = spec.layers.map(({ branches }, n) => ({
      branches: branches.map((branch) =>
        n % 2 === 0 ? { ...branch, parts: branch.parts.map(withWindow) } : branch,
      ),
    }));
    const step = { streams: 1, contextTokens: 100, kvType: 'f16' } as const;
    expect(kvOf(step, { ...spec, layers })).toBe((16 * 16 + 16 * 100) * 8 * 128 * 2 * 2);
  });
});
