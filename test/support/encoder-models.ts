// Encoders whose weights follow a formula, with final states computed by HF transformers in float32:
// tools/formula-models/encoders.py made them.

import { readFileSync } from 'node:fs';
import { BLOCK_TOKENS, type CreateBackend } from '../../src/compute/backend.ts';
import { buildBatch } from '../../src/compute/batch.ts';
import { buildSpec } from '../../src/model/build-spec.ts';
import type { OpenedModel } from '../../src/weights/open-model.ts';
import type { FormulaModel } from './formula-model.ts';

export interface EncoderModel extends Pick<FormulaModel, 'config' | 'tensors' | 'ids' | 'rows'> {
  /** The configuration as transformers saves it. */
  readonly saved: FormulaModel['config'];
  /** Of the rows. */
  readonly states: readonly (readonly number[])[];
  /** Of all states. */
  readonly mean: readonly number[];
}

const stored: { readonly models: Readonly<Record<string, EncoderModel>> } = JSON.parse(
  readFileSync(new URL('../golden/encoders.json', import.meta.url), 'utf8'),
);

export const encoderModels = stored.models;

export function encoderModel(name: string): EncoderModel {
  const model = encoderModels[name];
  if (model === undefined) throw new Error(`there is no encoder ${name}`);
  return model;
}

/** Final states of all rows of texts, computed together in one step over scattered blocks. */
async function encoderStates(
  create: CreateBackend,
  opened: OpenedModel,
  texts: readonly (readonly number[])[],
): Promise<Float32Array[]> {
  const spec = buildSpec(opened);
  const blocks = Array.from({ length: 32 }, (_, block) => (block * 7) % 32);
  const backend = await create(spec, opened.weights, { blockCount: blocks.length });
  const sequences = texts.map((tokens) => ({
    tokens,
    start: 0,
    blocks: blocks.splice(0, Math.ceil(tokens.length / BLOCK_TOKENS)),
    wantLogits: 'none' as const,
    wantStates: 'all' as const,
  }));
  const { states } = await backend.step(buildBatch(sequences));
  backend.close();
  let at = 0;
  return texts.map(({ length }) => {
    const from = at;
    at += length * spec.hiddenSize;
    return states.slice(from, at);
  });
}

/** The largest difference between known and computed states, relative to the largest of them. */
export async function stateDifference(
  create: CreateBackend,
  { ids, rows, states, mean }: EncoderModel,
  opened: OpenedModel,
): Promise<number> {
  const [computed] = (await encoderStates(create, opened, [ids])) as [Float32Array];
  const size = mean.length;
  const means = mean.map(
    (_, at) => ids.reduce((sum, __, row) => sum + (computed[row * size + at] as number), 0) / ids.length,
  );
  const known = [...states, mean].flat();
  const found = [...rows.flatMap((row) => [...computed.subarray(row * size, (row + 1) * size)]), ...means];
  const differences = known.map((value, at) => Math.abs(value - (found[at] ?? Number.NaN)));
  return Math.max(...differences) / Math.max(...known.map(Math.abs));
}

/** The least cosine between known and computed states, and of the mean of all. */
export async function leastCosine(
  create: CreateBackend,
  { ids, rows, states, mean }: EncoderModel,
  opened: OpenedModel,
): Promise<number> {
  const [computed] = (await encoderStates(create, opened, [ids])) as [Float32Array];
  const size = mean.length;
  const means = mean.map(
    (_, at) => ids.reduce((sum, __, row) => sum + (computed[row * size + at] as number), 0) / ids.length,
  );
  const found = rows.map((row) => [...computed.subarray(row * size, (row + 1) * size)]);
  return Math.min(...[...states, mean].map((known, at) => cosineOf(known, found[at] ?? means)));
}

function cosineOf(a: readonly number[], b: readonly number[]): number {
  const dot = (x: readonly number[], y: readonly number[]) =>
    x.reduce((sum, value, at) => sum + value * (y[at] as number), 0);
  return dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b));
}
