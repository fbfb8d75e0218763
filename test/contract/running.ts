// Ways to run a sequence or a text on an open backend, and to compare what comes of it.

import type { Backend } from '../../src/compute/backend.ts';
import { type BatchSequence, buildBatch } from '../../src/compute/batch.ts';
import { createReferenceBackend } from '../../src/compute/reference/backend.ts';
import { BLOCKS, blocksFor, floatTypes } from '../support/backend-properties.ts';
import type { TinyModel } from '../support/tiny-model.ts';
import type { OpenBackend, OpenOptions } from './backend-contract.ts';

/** A backend of a model, closed in the end. */
export async function withBackend<Result>(
  open: OpenBackend,
  model: TinyModel,
  options: OpenOptions,
  use: (backend: Backend) => Promise<Result>,
): Promise<Result> {
  const backend = await open(model, options);
  try {
    return await use(backend);
  } finally {
    backend.close();
  }
}

export const onReference: OpenBackend = ({ spec, weights }, options) =>
  createReferenceBackend(spec, weights, { blockCount: BLOCKS, ...options });

export async function logitsOf(
  backend: Backend,
  ...sequences: readonly BatchSequence[]
): Promise<Float32Array> {
  return (await backend.step(buildBatch(sequences))).logits.slice();
}

/** A sequence from its first token on. */
export const whole = (
  tokens: readonly number[],
  blocks: readonly number[],
  wantLogits: BatchSequence['wantLogits'] = 'last',
): BatchSequence => ({ tokens, start: 0, blocks, wantLogits });

/** Logits of every position of one sequence, computed alone and in one piece. */
export function alone(backend: Backend, tokens: readonly number[]): Promise<Float32Array> {
  const blocks = Array.from({ length: blocksFor(tokens.length) }, (_, block) => block);
  return logitsOf(backend, whole(tokens, blocks, 'all'));
}

export function byReference(model: TinyModel, tokens: readonly number[]): Promise<Float32Array> {
  return withBackend(onReference, model, {}, (backend) => alone(backend, tokens));
}

/** Whether all matrices are floats: then activations are, too. */
export function isFloat({ weights }: TinyModel): boolean {
  return [...weights.tensors.values()].every(({ type }) => floatTypes.includes(type));
}

export function largestDifference(left: Float32Array, right: Float32Array): number {
  return left.reduce((most, value, index) => Math.max(most, Math.abs(value - (right[index] as number))), 0);
}
