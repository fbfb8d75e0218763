// Encoders whose weights follow a formula, with final states computed by HF transformers in float32:
// tools/formula-models/encoders.py made them.

import { readFileSync } from 'node:fs';
import type { CreateBackend } from '../../src/compute/backend.ts';
import { buildBatch } from '../../src/compute/batch.ts';
import { buildSpec } from '../../src/model/build-spec.ts';
import type { OpenedModel } from '../../src/weights/open-model.ts';
import { blocksFor, cosine } from './backend-properties.ts';
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

/** Final states of the known rows and the mean of all, as a backend computes them over scattered blocks. */
async function computedStates(
  create: CreateBackend,
  { ids, rows, mean: { length: size } }: EncoderModel,
  opened: OpenedModel,
): Promise<number[][]> {
  const blocks = Array.from({ length: blocksFor(ids.length) }, (_, block) => (block * 7) % 32);
  const backend = await create(buildSpec(opened), opened.weights, { blockCount: 32 });
  const text = { tokens: ids, start: 0, blocks, wantLogits: 'none', wantStates: 'all' } as const;
  const states = (await backend.step(buildBatch([text]))).states.slice();
  backend.close();
  const row = (at: number) => [...states.subarray(at * size, (at + 1) * size)];
  const mean = row(0).map(
    (_, at) => ids.reduce((sum, __, from) => sum + (states[from * size + at] as number), 0) / ids.length,
  );
  return [...rows.map(row), mean];
}

/** The largest difference between known and computed states, relative to the largest of them. */
export async function stateDifference(
  create: CreateBackend,
  model: EncoderModel,
  opened: OpenedModel,
): Promise<number> {
  const known = [...model.states, model.mean].flat();
  const found = (await computedStates(create, model, opened)).flat();
  const differences = known.map((value, at) => Math.abs(value - (found[at] ?? Number.NaN)));
  return Math.max(...differences) / Math.max(...known.map(Math.abs));
}

/** The least cosine between known and computed states, and of the mean of all. */
export async function leastCosine(
  create: CreateBackend,
  model: EncoderModel,
  opened: OpenedModel,
): Promise<number> {
  const found = await computedStates(create, model, opened);
  const known = [...model.states, model.mean];
  return Math.min(
    ...known.map((values, at) => cosine(Float32Array.from(values), Float32Array.from(found[at] ?? []))),
  );
}
