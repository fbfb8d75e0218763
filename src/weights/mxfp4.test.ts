import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import {
  float32Bytes,
  type SafetensorsWriterTensor,
  writeSafetensors,
} from '../../test/support/safetensors-writer.ts';
import { ModelFileError } from './model-file-error.ts';
import { openModelFiles } from './open-model.ts';
import { readFloatRows, readFloats } from './weight-source.ts';

// Random blocks and scales of two experts with three rows of 64 values, and what numpy makes of them by the
// definition: the low nibble of a byte first, a table of floats, times 2^(scale - 127). In base64.
const vector: { readonly blocks: string; readonly scales: string; readonly values: string } = JSON.parse(
  readFileSync(new URL('./quants/dequantize.vectors.json', import.meta.url), 'utf8'),
).mxfp4;

const folder = mkdtempSync(join(tmpdir(), 'chairlift-mxfp4-'));
afterAll(() => rmSync(folder, { recursive: true }));

function open(tensors: readonly SafetensorsWriterTensor[]) {
  writeFileSync(join(folder, 'model.safetensors'), writeSafetensors(tensors));
  const config = { quantization_config: { quant_method: 'mxfp4', modules_to_not_convert: ['norm'] } };
  writeFileSync(join(folder, 'config.json'), JSON.stringify(config));
  return openModelFiles(folder).weights;
}

const tensor = (name: string, shape: readonly number[], base64: string, dtype = 'U8') => ({
  name,
  dtype,
  shape,
  bytes: Buffer.from(base64, 'base64'),
});
const blocks = tensor('x.down_proj_blocks', [2, 3, 2, 16], vector.blocks);
const scales = tensor('x.down_proj_scales', [2, 3, 2], vector.scales);
const norm = { name: 'norm', dtype: 'F32', shape: [1], bytes: float32Bytes([3]) };

describe('a model in MXFP4', () => {
  it('has one tensor in place of blocks and scales, with the values of the definition', () => {
    const weights = open([norm, blocks, scales]);
    expect([...weights.tensors.keys()].sort()).toEqual(['norm', 'x.down_proj']);
    expect(weights.tensors.get('x.down_proj')).toMatchObject({ type: 'MXFP4', shape: [2, 3, 64] });
    const expected = new Float32Array(new Uint8Array(Buffer.from(vector.values, 'base64')).buffer);
    const all = readFloats(weights, 'x.down_proj').map((value) => value + 0);
    expect(all).toEqual(expected);
    // Rows of all experts count on.
    for (let row = 0; row < 6; row++) {
      const one = readFloatRows(weights, 'x.down_proj', row, 1).map((value) => value + 0);
      expect(one).toEqual(expected.slice(row * 64, (row + 1) * 64));
    }
    expect(readFloats(weights, 'norm')).toEqual(Float32Array.of(3));
    weights.close();
  });

  it.each<[string, readonly SafetensorsWriterTensor[], RegExp]>([
    ['no scales', [blocks], /x\.down_proj_scales: is missing beside x\.down_proj_blocks/],
    [
      'scales of another shape',
      [blocks, { ...scales, shape: [2, 2, 3] }],
      /x\.down_proj_scales: has the shape \[2, 2, 3\] where x\.down_proj_blocks needs \[2, 3, 2\]/,
    ],
    [
      'scales that are floats',
      [blocks, { ...scales, dtype: 'F32', shape: [3] }],
      /x\.down_proj_scales: has the dtype F32 where U8 is expected/,
    ],
    ['blocks of 8 bytes', [{ ...blocks, shape: [2, 3, 4, 8] }, scales], /not one of blocks of 32 values/],
    ['blocks without rows', [{ ...blocks, shape: [12, 16] }, scales], /not one of blocks of 32 values/],
  ])('is refused with %s', (_, tensors, message) => {
    expect(() => open(tensors)).toThrow(ModelFileError);
    expect(() => open(tensors)).toThrow(message);
  });
});
