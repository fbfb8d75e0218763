// Adapters from files to logits, against results of PEFT; and beside each other in one step.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import type { CreateBackend } from '../../src/compute/backend.ts';
import { createCpuBackend } from '../../src/compute/cpu/backend.ts';
import { createReferenceBackend } from '../../src/compute/reference/backend.ts';
import {
  adapterTensors,
  type FormulaAdapter,
  formulaAdapters,
  haveOwnBits,
  largestDifference,
  stepLogits,
  writeGgufAdapter,
  writePeftFolder,
} from '../support/formula-adapter.ts';
import { asGguf } from '../support/formula-gguf.ts';
import { asFolder, formulaModel } from '../support/formula-model.ts';
import { addon, hasAddon } from '../support/native.ts';

const TOLERANCE = 2e-5;
/** Where keys and values are kept in 16 bits. */
const F16_TOLERANCE = 2e-3;

const folder = mkdtempSync(join(tmpdir(), 'chairlift-adapters-'));
afterAll(() => rmSync(folder, { recursive: true }));

const onCpu: CreateBackend = (spec, weights, options) => createCpuBackend(addon(), spec, weights, options);
const backends = [
  ['reference', createReferenceBackend, true, TOLERANCE],
  ['cpu', onCpu, hasAddon, F16_TOLERANCE],
] as const;

describe.each(backends)('an adapter on the %s backend', (name, create, possible, tolerance) => {
  it.skipIf(!possible).each(formulaAdapters)('gives the logits of PEFT: $model', async (adapter) => {
    const model = formulaModel(adapter.model);
    const path = writePeftFolder(join(folder, name, adapter.model), adapter.config, adapterTensors(adapter));
    const [logits] = await stepLogits(create, asFolder(model), [path], [{ tokens: model.ids, adapter: 0 }]);
    expect(largestDifference(adapter, logits as Float32Array)).toBeLessThan(tolerance);
  });
});

const [ofLlama] = formulaAdapters as [FormulaAdapter];
const llama = formulaModel(ofLlama.model);

describe('adapters of a GGUF model', () => {
  it('add the same as their folders', async () => {
    const plain = { ...ofLlama.config, use_rslora: false, alpha_pattern: {}, lora_alpha: 6 };
    const tensors = adapterTensors(ofLlama);
    const peft = writePeftFolder(join(folder, 'plain'), plain, tensors);
    const gguf = writeGgufAdapter(join(folder, 'adapter.gguf'), tensors, { q: 4, k: 2 }, 6);
    const form = { architecture: 'llama', pairs: true, keys: { 'rope.freq_base': 5000 } };
    const asked = [{ tokens: llama.ids, adapter: 0 }, { tokens: llama.ids }];
    const known = await stepLogits(createReferenceBackend, asFolder(llama), [peft], asked);
    const computed = await stepLogits(createReferenceBackend, asGguf(llama, form), [gguf], asked);
    for (const [index, logits] of known.entries()) {
      const differences = logits.map((value, at) => Math.abs(value - (computed[index]?.[at] ?? Number.NaN)));
      expect(Math.max(...differences)).toBeLessThan(TOLERANCE);
    }
    expect(known[0]).not.toEqual(known[1]);
  });
});

describe.each(backends)('different adapters in one step of the %s backend', (name, create, possible) => {
  it.skipIf(!possible)('give each row the bits that it has alone', () =>
    haveOwnBits(create, join(folder, name)),
  );
});
