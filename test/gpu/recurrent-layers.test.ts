// Layers that remember on a GPU: against the reference backend, and the same bits however the tokens come and wherever a
// state was kept.

import { expect, it } from 'vitest';
import type { Backend } from '../../src/compute/backend.ts';
import { type BatchSequence, buildBatch } from '../../src/compute/batch.ts';
import { ownSlot } from '../../src/compute/batch-states.ts';
import { createReferenceBackend } from '../../src/compute/reference/backend.ts';
import { memoryOf, type RecurrentSpec } from '../../src/model/recurrent-state.ts';
import type { ModelSpec } from '../../src/model/spec.ts';
import { rateSpec, vectorSpec } from '../../src/model/spec-parts.ts';
import { cosine } from '../support/backend-properties.ts';
import { gpuBackends } from '../support/gpu-backend.ts';
import { linear as linearOf, rms } from '../support/leaves.ts';
import { describeOnFastestGpu, isSlowGpu } from '../support/on-gpu.ts';
import { randomTokens, type TinyModel, tinyModel } from '../support/tiny-model.ts';
import { withTensors } from '../support/with-tensors.ts';

const HIDDEN = 32;
/** More than a pass gives logits of, where that does not take too long: the batch is cut. */
const TOKENS = isSlowGpu ? 14 : 70;
const MIDDLE = 5;

const linear = (name: string, rows: number, columns = HIDDEN) => linearOf(name, rows, columns);
const rate = (tensor: string) => rateSpec(tensor, 4, true);

/** Of sizes that fill no workgroup. */
const bodies: readonly RecurrentSpec[] = [
  {
    kind: 'gated-delta-net',
    state: 0,
    keyHeads: 2,
    keySize: 20,
    valueHeads: 4,
    valueSize: 12,
    sharing: 'neighbours',
    query: linear('delta.query', 40),
    key: linear('delta.key', 40),
    value: linear('delta.value', 48),
    convolution: { weight: vectorSpec('delta.convolution', 4 * 128), length: 4 },
    share: linear('delta.share', 4),
    decay: linear('delta.decay', 4),
    decayBias: vectorSpec('delta.decay-bias', 4),
    decayRate: rate('delta.rate'),
    norm: rms(12, 'delta.norm'),
    gate: linear('delta.gate', 48),
    output: linear('delta.output', HIDDEN, 48),
  },
  {
    kind: 'short-conv',
    state: 1,
    size: 72,
    before: linear('short.before', 72),
    after: linear('short.after', 72),
    value: linear('short.value', 72),
    convolution: { weight: vectorSpec('short.convolution', 3 * 72), length: 3 },
    output: linear('short.output', HIDDEN, 72),
  },
  {
    kind: 'mamba2',
    state: 2,
    heads: 4,
    headSize: 12,
    stateSize: 20,
    groups: 2,
    value: linear('space.value', 48),
    write: linear('space.write', 40),
    read: linear('space.read', 40),
    convolution: {
      weight: vectorSpec('space.convolution', 4 * 128),
      bias: vectorSpec('space.convolution-bias', 128),
      length: 4,
    },
    step: linear('space.step', 4),
    stepBias: vectorSpec('space.step-bias', 4),
    rate: rate('space.rate'),
    skip: vectorSpec('space.skip', 4),
    gate: linear('space.gate', 48),
    norm: rms(48, 'space.norm'),
    output: linear('space.output', HIDDEN, 48),
  },
];

/** A layer of attention behind one of each body. */
function rememberingModel(): TinyModel {
  const sizes = { hiddenSize: HIDDEN, headCount: 2, kvHeadCount: 1, headSize: 16, ffnSize: 32 };
  const { spec: tiny, weights } = tinyModel({ ...sizes, layerCount: 4, vocabSize: 64 });
  const spec: ModelSpec = {
    ...tiny,
    recurrentStates: bodies.map(memoryOf),
    layers: tiny.layers.map((layer, index) => {
      const body = bodies[index];
      const [first, ...others] = layer.branches;
      if (body === undefined || first === undefined) return layer;
      return { branches: [{ ...first, parts: first.parts.map((part) => ({ ...part, body })) }, ...others] };
    }),
  };
  return withTensors(spec, weights);
}

type Keeping = NonNullable<BatchSequence['state']>;

describeOnFastestGpu('a model that remembers on a GPU', () => {
  const backends = gpuBackends();
  const model = rememberingModel();
  const { vocabSize } = model.spec;
  const tokens = randomTokens(TOKENS, vocabSize, 7);
  const blocks = [0, 1, 2];

  async function logitsOf(backend: Backend, start: number, end: number, state: Keeping) {
    const sequence = { tokens: tokens.slice(start, end), start, blocks, state, wantLogits: 'all' } as const;
    return (await backend.step(buildBatch([sequence]))).logits.slice();
  }

  it('computes what the reference does, and the same bits in chunks, among others, from what was kept', async () => {
    await backends.with(model, 'f16', async (backend) => {
      const kept = [
        { after: MIDDLE, slot: 3 },
        { after: TOKENS, slot: 0 },
      ];
      const whole = await logitsOf(backend, 0, TOKENS, { from: undefined, kept });
      const reference = await createReferenceBackend(model.spec, model.weights, { blockCount: 3 });
      const expected = await logitsOf(reference, 0, TOKENS, { from: undefined, kept });
      expect(cosine(whole, expected)).toBeGreaterThan(0.999999);

      const rest = { from: 3, kept: [{ after: TOKENS - MIDDLE, slot: 4 }] };
      const resumed = await logitsOf(backend, MIDDLE, TOKENS, rest);
      expect(resumed).toEqual(whole.slice(MIDDLE * vocabSize));

      const chunked: number[] = [];
      for (let start = 0, count = 1; start < TOKENS; start += count++) {
        const own = { tokens: tokens.slice(start, start + count), start, blocks } as const;
        const other = (length: number): BatchSequence => ({
          tokens: randomTokens(length, vocabSize, start),
          start: 0,
          blocks: [10 + length],
          wantLogits: 'none',
          state: { from: undefined, kept: [{ after: length, slot: 6 + length }] },
        });
        const mine = { ...own, wantLogits: 'all' as const, state: ownSlot(own, 5) };
        chunked.push(...(await backend.step(buildBatch([other(2), mine, other(1)]))).logits);
      }
      expect(Float32Array.from(chunked)).toEqual(whole);
    });
  });
});
