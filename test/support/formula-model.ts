// Models whose weights follow a formula, with logits computed by HF transformers in float32: tools/formula-models made them.

import { readFileSync } from 'node:fs';
import { BLOCK_TOKENS, type CreateBackend } from '../../src/compute/backend.ts';
import { type BatchSequence, buildBatch } from '../../src/compute/batch.ts';
import { ownSlot } from '../../src/compute/batch-states.ts';
import { createReferenceBackend } from '../../src/compute/reference/backend.ts';
import { buildSpec } from '../../src/model/build-spec.ts';
import type { OpenedModel } from '../../src/weights/open-model.ts';
import { floatTensor, type MemoryTensor, memoryWeights } from './memory-weights.ts';

export interface FormulaModel {
  readonly config: Readonly<Record<string, unknown>>;
  readonly tensors: Readonly<Record<string, readonly number[]>>;
  readonly ids: readonly number[];
  /** The rows whose logits are known. */
  readonly rows: readonly number[];
  readonly logits: readonly (readonly number[])[];
}

const stored: { readonly models: Readonly<Record<string, FormulaModel>> } = JSON.parse(
  readFileSync(new URL('../golden/formula-models.json', import.meta.url), 'utf8'),
);

export const formulaModels = stored.models;

export function formulaModel(name: string): FormulaModel {
  const model = formulaModels[name];
  if (model === undefined) throw new Error(`there is no formula model ${name}`);
  return model;
}

/** The formula that the models given to HF transformers were filled with. */
export function formulaValues(name: string, shape: readonly number[]): Float32Array {
  const weighted = [...name].reduce((sum, letter, index) => sum + (index + 1) * letter.charCodeAt(0), 0);
  const shift = name.toLowerCase().includes('norm') ? 1 : 0;
  return Float32Array.from({ length: shape.reduce((product, size) => product * size, 1) }, (_, index) => {
    let bits = Math.imul(index, 2654435761) + Math.imul(weighted, 40503);
    bits ^= bits >>> 15;
    bits = Math.imul(bits, 2246822519);
    bits ^= bits >>> 13;
    return ((bits >>> 0) / 2 ** 32) * 0.5 - 0.25 + shift;
  });
}

export interface FormulaTensor {
  readonly name: string;
  readonly shape: readonly number[];
  readonly values: Float32Array;
}

export function formulaTensors(model: Pick<FormulaModel, 'tensors'>): FormulaTensor[] {
  return Object.entries(model.tensors).map(([name, shape]) => ({
    name,
    shape,
    values: formulaValues(name, shape),
  }));
}

/** The model as if opened from a folder with config.json and safetensors. */
export function asFolder(
  model: Pick<FormulaModel, 'config' | 'tensors'>,
  config = model.config,
): OpenedModel {
  const weights = memoryWeights(
    formulaTensors(model).map(({ name, shape, values }): MemoryTensor => floatTensor(name, shape, values)),
  );
  return { format: 'safetensors', path: 'made/model.safetensors', directory: 'made', config, weights };
}

/** Logits of all rows, ids computed N at a time. */
export async function formulaLogits(
  create: CreateBackend,
  model: FormulaModel,
  opened: OpenedModel,
  chunkTokens = model.ids.length,
): Promise<Float32Array> {
  const spec = buildSpec(opened);
  const backend = await create(spec, opened.weights, { blockCount: 3, stateSlots: 1 });
  const remembers = spec.recurrentStates.length > 0;
  const logits = new Float32Array(model.ids.length * spec.vocabSize);
  for (let start = 0; start < model.ids.length; start += chunkTokens) {
    const tokens = model.ids.slice(start, start + chunkTokens);
    const blocks = [2, 0, 1].slice(0, Math.ceil((start + tokens.length) / BLOCK_TOKENS));
    const sequence: BatchSequence = { tokens, start, blocks, wantLogits: 'all' };
    const memory = remembers ? { state: ownSlot(sequence, 0) } : {};
    const step = await backend.step(buildBatch([{ ...sequence, ...memory }]));
    logits.set(step.logits, start * spec.vocabSize);
  }
  backend.close();
  return logits;
}

/** Pairs of known and computed logits. */
export function knownLogits(
  { rows, logits: known }: FormulaModel,
  computed: Float32Array,
): { readonly known: Float32Array; readonly computed: Float32Array } {
  const vocabSize = known[0]?.length ?? 0;
  return {
    known: Float32Array.from(known.flat()),
    computed: Float32Array.from(
      rows.flatMap((row) => [...computed.subarray(row * vocabSize, (row + 1) * vocabSize)]),
    ),
  };
}

/** The largest difference between known and computed logits of a form of the model, relative to the largest of them or 1. */
export async function logitDifference(model: FormulaModel, opened: OpenedModel): Promise<number> {
  const logits = await formulaLogits(createReferenceBackend, model, opened);
  const { known, computed } = knownLogits(model, logits);
  const difference = Math.max(
    ...known.map((value, index) => Math.abs(value - (computed[index] ?? Number.NaN))),
  );
  return difference / Math.max(1, ...known.map(Math.abs));
}
