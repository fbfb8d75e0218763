// Models quantized as users of vLLM have them, against what each format's own Python package makes of the same tensors.

import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { createReferenceBackend } from '../../src/compute/reference/backend.ts';
import { readFloatRows, readFloats } from '../../src/weights/weight-source.ts';
import { quantizedGoldens } from '../contract/golden-contract.ts';
import { createOnCpu, hasAddon } from '../support/native.ts';
import {
  openQuantized,
  type QuantizedModel,
  quantizedLikeness,
  quantizedModels,
} from '../support/quantized-folder.ts';

const root = mkdtempSync(join(tmpdir(), 'chairlift-quantized-'));
afterAll(() => rmSync(root, { recursive: true }));

const open = (model: QuantizedModel) => openQuantized(model, root);

function digest(values: Float32Array): string {
  // Zeros have no sign here.
  const bytes = values.map((value) => value + 0);
  return createHash('sha256').update(new Uint8Array(bytes.buffer)).digest('hex');
}

const models = Object.entries(quantizedModels);

describe('a quantized model', () => {
  it.each(models)('has exactly the weights that its package dequantizes: %s', (_, model) => {
    const { weights } = open(model);
    for (const [name, expected] of Object.entries(model.weights)) {
      expect([name, digest(readFloats(weights, name))]).toEqual([name, expected]);
    }
    weights.close();
  });

  it.each(models)('has the same rows however many are read at once: %s', (_, model) => {
    const { weights } = open(model);
    for (const name of Object.keys(model.weights)) {
      const [rows = 0, columns = 0] = weights.tensors.get(name)?.shape ?? [];
      const whole = readFloats(weights, name);
      for (const [first, count] of [
        [3, 1],
        [5, 30],
        [rows - 9, 9],
      ] as const) {
        const part = readFloatRows(weights, name, first, count);
        expect(part).toEqual(whole.subarray(first * columns, (first + count) * columns));
      }
    }
    weights.close();
  });

  it.each(models)('has the logits of transformers in float32: %s', async (_, model) => {
    expect(await quantizedLikeness(createReferenceBackend, model, root)).toBeGreaterThan(0.999999);
  });
});

describe.skipIf(!hasAddon)(
  'a quantized model on the cpu backend (skipped where the addon is not built)',
  () => quantizedGoldens(createOnCpu),
);
