// Recurrent state: the same bits however the tokens come and wherever a checkpoint was kept.

import { expect, it } from 'vitest';
import type { Backend } from '../../src/compute/backend.ts';
import { type BatchSequence, buildBatch } from '../../src/compute/batch.ts';
import { ownSlot } from '../../src/compute/batch-states.ts';
import { recurrentState } from '../../src/model/layers/convolution.ts';
import { rateSpec, vectorSpec } from '../../src/model/leaves.ts';
import type { ModelSpec, RecurrentSpec } from '../../src/model/spec.ts';
import { cosine } from '../support/backend-properties.ts';
import { linear as linearOf, rms } from '../support/leaves.ts';
import { randomTokens, type TinyModel, tinyModel } from '../support/tiny-model.ts';
import { withTensors } from '../support/with-tensors.ts';
import type { OpenBackend } from './backend-contract.ts';
import { logitsOf, onReference, withBackend } from './running.ts';

const HIDDEN = 32;
const MIDDLE = 5;

const linear = (name: string, rows: number, columns = HIDDEN) => linearOf(name, rows, columns);
const rate = (tensor: string) => rateSpec(tensor, 4, true);

/** A matrix of each head has `size` rows. */
const bodiesOf = (size: number): readonly RecurrentSpec[] => [
  {
    kind: 'gated-delta-net',
    state: 0,
    keyHeads: 2,
    keySize: size,
    valueHeads: 4,
    valueSize: 12,
    sharing: 'neighbours',
    query: linear('delta.query', 2 * size),
    key: linear('delta.key', 2 * size),
    value: linear('delta.value', 48),
    convolution: { weight: vectorSpec('delta.convolution', 4 * (4 * size + 48)), length: 4 },
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
    stateSize: size,
    groups: 2,
    value: linear('space.value', 48),
    write: linear('space.write', 2 * size),
    read: linear('space.read', 2 * size),
    convolution: {
      weight: vectorSpec('space.convolution', 4 * (4 * size + 48)),
      bias: vectorSpec('space.convolution-bias', 4 * size + 48),
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

/** Values of each state but for the channels that are convolved next. */
const learntValues = (size: number) => [4 * size * 12, 0, 4 * 12 * size];

/** A layer of attention after one of each body, of sizes that fill no workgroup unless others are given. */
export function recurrentModel(size = 20): TinyModel {
  const bodies = bodiesOf(size);
  const sizes = { hiddenSize: HIDDEN, ffnSize: 32 };
  const { spec: tiny, weights } = tinyModel({ ...sizes, layerCount: 4, vocabSize: 64 });
  const spec: ModelSpec = {
    ...tiny,
    recurrentStates: bodies.map(({ convolution }, index) =>
      recurrentState(convolution, learntValues(size)[index] as number),
    ),
    layers: tiny.layers.map((layer, index) => {
      const body = bodies[index];
      const [first, ...others] = layer.branches;
      if (body === undefined || first === undefined) return layer;
      return { branches: [{ ...first, parts: first.parts.map((part) => ({ ...part, body })) }, ...others] };
    }),
  };
  return withTensors(spec, weights);
}

/** With 70 tokens or more, a backend that gives logits in several passes cuts the batch. */
export function recurrentContract(open: OpenBackend, count: number): void {
  const model = recurrentModel();
  const { vocabSize } = model.spec;
  const tokens = randomTokens(count, vocabSize, 7);
  const blocks = Array.from({ length: Math.ceil(count / 32) }, (_, block) => block);

  type Kept = NonNullable<BatchSequence['state']>;
  const part = (backend: Backend, start: number, state: Kept) =>
    logitsOf(backend, { tokens: tokens.slice(start), start, blocks, state, wantLogits: 'all' });
  const kept = [
    { after: MIDDLE, slot: 3 },
    { after: count, slot: 0 },
  ];

  it('gives the logits of the reference backend', async () => {
    const by = (one: OpenBackend) =>
      withBackend(one, model, {}, (backend) => part(backend, 0, { from: undefined, kept }));
    expect(cosine(await by(open), await by(onReference))).toBeGreaterThan(0.999999);
  });

  it('is the same bits in chunks, among others, and from a checkpoint', () =>
    withBackend(open, model, {}, async (backend) => {
      const whole = await part(backend, 0, { from: undefined, kept });
      const rest = { from: 3, kept: [{ after: count - MIDDLE, slot: 4 }] };
      expect(await part(backend, MIDDLE, rest)).toEqual(whole.slice(MIDDLE * vocabSize));

      const chunked: number[] = [];
      for (let start = 0, length = 1; start < count; start += length++) {
        const own = { tokens: tokens.slice(start, start + length), start, blocks } as const;
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
    }));
}
