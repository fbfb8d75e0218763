// Where the same model is at hand in two formats, each matrix of the one is found in the other by what is said of it there.

import { existsSync, readdirSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { hasTestdata, testdata } from '../../test/support/testdata.ts';
import { type OpenedModel, openModelFiles } from '../weights/open-model.ts';
import { dequantize } from '../weights/quants/dequantize.ts';
import { rowBytes } from '../weights/tensor-type.ts';
import { linearsByPlace } from './adaptable-linears.ts';
import { buildSpec } from './build-spec.ts';
import { publishedLayouts } from './published-layouts.ts';
import type { LinearSpec } from './spec.ts';
import { isHeadTied } from './spec-walk.ts';
import type { Publisher } from './tensor-names.ts';
import { readLinearRows, rowType } from './weight-reader.ts';

const GGUF = 'model-bf16.gguf';
const folders = hasTestdata
  ? ['arch', 'families'].flatMap((kind) =>
      readdirSync(testdata(kind))
        .filter((name) => existsSync(testdata(kind, name, GGUF)))
        .map((name) => [kind, name] as const),
    )
  : [];

/** Their converter sorts value heads anew, which no adapter of the other format follows. */
const sortedAnew = /delta-net, (neighbours|strided)/;
const resorted = ['qwen3_5', 'qwen3_5_moe'];

describe.skipIf(!hasTestdata)('a model of two formats (skipped where the shared ones are absent)', () => {
  it.each(folders)('has the same matrices by the names of the other: %s/%s', (kind, name) => {
    const [folder, gguf] = [openModelFiles(testdata(kind, name)), openModelFiles(testdata(kind, name, GGUF))];
    expectSame(folder, gguf, 'gguf', resorted.includes(name));
    expectSame(gguf, folder, 'hugging-face', resorted.includes(name));
    folder.weights.close();
    gguf.weights.close();
  });
});

function expectSame(model: OpenedModel, other: OpenedModel, publisher: Publisher, isResorted: boolean): void {
  const layouts = publishedLayouts(model, publisher);
  const spec = buildSpec(model);
  for (const [place, linear] of linearsByPlace(spec)) {
    // A tied head is no matrix of its own.
    if (place === 'head' && isHeadTied(spec)) continue;
    const found = layouts
      .map(({ linears }) => linears.get(place))
      .find((one) => one !== undefined && other.weights.tensors.has(one.weight.tensor));
    if (isResorted && sortedAnew.test(place)) expect(found).toBeUndefined();
    else expect(found && values(other, found).equals(values(model, linear)), place).toBe(true);
  }
}

function values({ weights }: OpenedModel, { weight, columns }: LinearSpec): Buffer {
  const type = rowType(weights, weight);
  const bytes = new Uint8Array(weight.rows * rowBytes(type, columns));
  readLinearRows(weights, weight, 0, weight.rows, bytes);
  const floats = new Float32Array(weight.rows * columns);
  dequantize(type, bytes, floats);
  return Buffer.from(floats.buffer);
}
