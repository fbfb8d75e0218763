// Adapters from files to logits, against results of PEFT; and beside each other in one step.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import type { CreateBackend } from '../../src/compute/backend.ts';
import { type BatchSequence, buildBatch } from '../../src/compute/batch.ts';
import { createCpuBackend } from '../../src/compute/cpu/backend.ts';
import { createReferenceBackend } from '../../src/compute/reference/backend.ts';
import { withAdapters } from '../../src/model/adapters.ts';
import { buildSpec } from '../../src/model/build-spec.ts';
import { openAdapter } from '../../src/weights/adapter-files.ts';
import type { OpenedModel } from '../../src/weights/open-model.ts';
import {
  adapterTensors,
  type FormulaAdapter,
  formulaAdapters,
  writeGgufAdapter,
  writePeftFolder,
} from '../support/formula-adapter.ts';
import { asGguf } from '../support/formula-gguf.ts';
import { asFolder, type FormulaTensor, formulaModel } from '../support/formula-model.ts';
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

/** Logits of several sequences of one step, each with an adapter or none. */
async function stepLogits(
  create: CreateBackend,
  opened: OpenedModel,
  paths: readonly string[],
  sequences: readonly { readonly tokens: readonly number[]; readonly adapter?: number }[],
): Promise<Float32Array[]> {
  const adapters = paths.map((path, index) => ({ name: `${index}`, files: openAdapter(path) }));
  const { spec, weights } = withAdapters(buildSpec(opened), opened, adapters);
  const backend = await create(spec, weights, { blockCount: 3 * sequences.length });
  weights.close();
  const batch = sequences.map(
    ({ tokens, adapter }, index): BatchSequence => ({
      tokens,
      start: 0,
      blocks: [2, 0, 1].map((block) => 3 * index + block),
      wantLogits: 'all',
      adapter,
    }),
  );
  const { logits } = await backend.step(buildBatch(batch));
  backend.close();
  let row = 0;
  return sequences.map(({ tokens }) => {
    const first = row;
    row += tokens.length;
    return logits.slice(first * spec.vocabSize, row * spec.vocabSize);
  });
}

function largestDifference(adapter: FormulaAdapter, computed: Float32Array): number {
  const { rows } = formulaModel(adapter.model);
  const [first = []] = adapter.logits;
  const known = adapter.logits.flat();
  const own = rows.flatMap((row) => [...computed.subarray(row * first.length, (row + 1) * first.length)]);
  const difference = Math.max(...known.map((value, at) => Math.abs(value - (own[at] ?? Number.NaN))));
  return difference / Math.max(1, ...known.map(Math.abs));
}

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
const negated = (tensors: readonly FormulaTensor[]): FormulaTensor[] =>
  tensors.map((tensor) =>
    tensor.name.includes('lora_B') ? { ...tensor, values: tensor.values.map((value) => -value) } : tensor,
  );

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

describe.each(backends)(
  'rows of different adapters in one step of the %s backend',
  (name, create, possible) => {
    it.skipIf(!possible)('have the bits that each has alone', async () => {
      const tensors = adapterTensors(ofLlama);
      const one = writePeftFolder(join(folder, name, 'one'), ofLlama.config, tensors);
      const other = writePeftFolder(join(folder, name, 'other'), ofLlama.config, negated(tensors));
      const sequences = [
        { tokens: llama.ids.slice(0, 40), adapter: 1 },
        { tokens: llama.ids.slice(5, 8) },
        { tokens: llama.ids.slice(3, 50), adapter: 0 },
        { tokens: llama.ids.slice(5, 8), adapter: 1 },
        { tokens: llama.ids.slice(9, 10), adapter: 0 },
      ];
      const together = await stepLogits(create, asFolder(llama), [one, other], sequences);
      for (const [index, sequence] of sequences.entries()) {
        const [alone] = await stepLogits(create, asFolder(llama), [one, other], [sequence]);
        expect(together[index]).toEqual(alone);
      }
      const [without] = await stepLogits(create, asFolder(llama), [], [{ tokens: llama.ids.slice(5, 8) }]);
      expect(together[1]).toEqual(without);
      expect(together[3]).not.toEqual(without);
    });
  },
);
