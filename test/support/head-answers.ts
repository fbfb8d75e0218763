// Heads that draft, asked through a backend, and what they are known to say.

import { expect } from 'vitest';
import { type Backend, BLOCK_TOKENS, type CreateBackend } from '../../src/compute/backend.ts';
import { type BatchSequence, buildBatch } from '../../src/compute/batch.ts';
import { ownSlot } from '../../src/compute/batch-states.ts';
import { createCpuBackend } from '../../src/compute/cpu/backend.ts';
import type { ModelSpec } from '../../src/model/spec.ts';
import type { WeightSource } from '../../src/weights/weight-source.ts';
import type { FormulaModel } from './formula-model.ts';
import { addon } from './native.ts';

export interface HeadModel extends Pick<FormulaModel, 'config' | 'tensors' | 'ids'> {
  /** Tokens that the model computes before the head goes on by itself. */
  readonly computed: number;
  /** After how many tokens the head was asked of the next one, */
  readonly known: readonly number[];
  /** with these answers. */
  readonly logits: readonly (readonly number[])[];
  /** Of tokens after those that are computed. */
  readonly chained: readonly (readonly number[])[];
}

export const cpu =
  (isa?: string): CreateBackend =>
  (spec, weights, options) =>
    createCpuBackend(addon(), spec, weights, { ...options, threads: 2, ...(isa && { isa }) });

/** Kept states are rounded: where digits differ before, they may be a step of a bfloat16 apart. In C++ keys and values are halves. */
export const TOLERANCE = { typescript: 1e-3, native: 5e-3 };
export const BLOCKS = [4, 1, 3];

export async function withHead<T>(
  { spec, weights }: { readonly spec: ModelSpec; readonly weights: WeightSource },
  create: CreateBackend,
  use: (backend: Backend) => Promise<T>,
): Promise<T> {
  const backend = await create(spec, weights, { blockCount: 8, stateSlots: 3 });
  try {
    return await use(backend);
  } finally {
    backend.close();
  }
}

export function placed(tokens: readonly number[], start: number, blocks = BLOCKS): BatchSequence {
  const table = blocks.slice(0, Math.ceil((start + tokens.length) / BLOCK_TOKENS));
  return { tokens, start, blocks: table, wantLogits: 'none' };
}

/** The model computes tokens from a position on. */
export async function compute(backend: Backend, tokens: readonly number[], start: number): Promise<void> {
  const sequence = placed(tokens, start);
  await backend.step(buildBatch([withSlot(backend, sequence, 0)]));
}

const withSlot = ({ stateSlots }: Backend, sequence: BatchSequence, slot: number): BatchSequence =>
  stateSlots === undefined ? sequence : { ...sequence, state: ownSlot(sequence, slot) };

export async function predict(
  backend: Backend,
  ...sequences: readonly BatchSequence[]
): Promise<Float32Array> {
  if (backend.predict === undefined) throw new Error('the head is not there');
  return (await backend.predict(buildBatch(sequences))).slice();
}

/** What the head says after each of the known numbers of tokens, and then by itself; a step computes `chunk` tokens. */
export async function answers(backend: Backend, { ids, computed, known, chained }: HeadModel, chunk: number) {
  const given: Float32Array[] = [];
  const ask = async (position: number) => {
    given.push(await predict(backend, placed([ids[position] as number], position)));
  };
  for (let start = 0; start < computed; start += chunk) {
    const end = Math.min(start + chunk, computed);
    await compute(backend, ids.slice(start, end), start);
    // What this leaves is overwritten by the next step.
    if (known.includes(end)) await ask(end);
  }
  for (const [depth] of chained.entries()) await ask(computed + depth);
  return given;
}

/** The largest difference, relative to the largest logit. */
export function difference(rows: readonly Float32Array[], { logits, chained }: HeadModel): number {
  const wanted = [...logits, ...chained];
  expect(rows).toHaveLength(wanted.length);
  const apart = wanted.flatMap((row, at) =>
    row.map((value, i) => Math.abs(value - (rows[at]?.[i] ?? Number.NaN))),
  );
  return Math.max(...apart) / Math.max(1, ...wanted.flat().map(Math.abs));
}
