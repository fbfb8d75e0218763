import { describe, expect, it } from 'vitest';
import { rowBytes } from '../weights/tensor-type.ts';
import { readFloatRows, readFloats } from '../weights/weight-source.ts';
import { dummyTypes, dummyWeights } from './dummy-weights.ts';

const COLUMNS = 1024;
const ROWS = 64;

describe.each(dummyTypes)('random weights in %s', (type) => {
  const weights = dummyWeights([
    { name: 'a', type, shape: [ROWS, COLUMNS] },
    { name: 'b', type, shape: [ROWS, COLUMNS] },
  ]);

  it('have a mean of zero and a spread that keeps the size of what they multiply', () => {
    const values = readFloats(weights, 'a');
    const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
    const square = values.reduce((sum, value) => sum + value * value, 0) / values.length;
    expect(Math.sqrt(square * COLUMNS)).toBeGreaterThan(0.93);
    expect(Math.sqrt(square * COLUMNS)).toBeLessThan(1.07);
    expect(Math.abs(mean) * Math.sqrt(COLUMNS)).toBeLessThan(0.05);
  });

  it('are the same rows however they are read', () => {
    const bytes = rowBytes(type, COLUMNS);
    const whole = new Uint8Array(ROWS * bytes);
    weights.readRows('a', 0, ROWS, whole);
    const part = new Uint8Array(3 * bytes + 1).subarray(1);
    weights.readRows('a', 7, 3, part);
    expect(Buffer.compare(part, whole.subarray(7 * bytes, 10 * bytes))).toBe(0);
  });

  it('differ from row to row and from tensor to tensor', () => {
    const rows = ['a', 'b'].flatMap((name) =>
      Array.from({ length: ROWS }, (_, row) => readFloatRows(weights, name, row, 1).join()),
    );
    expect(new Set(rows).size).toBe(2 * ROWS);
  });
});

it('norms and scales are ones, biases are not', () => {
  const ones = ['blk.0.attn_norm.weight', 'blk.0.post_ffw_norm_2.weight', 'blk.0.ffn_down_exps.scale'];
  const weights = dummyWeights(
    [...ones, 'blk.0.attn_q.bias'].map((name) => ({ name, type: 'F32', shape: [8] })),
  );
  for (const name of ones) expect([...readFloats(weights, name)]).toEqual(new Array(8).fill(1));
  expect(new Set(readFloats(weights, 'blk.0.attn_q.bias')).size).toBe(8);
});

it('recurrent states decay', () => {
  const weights = dummyWeights([{ name: 'blk.0.ssm_a', type: 'F32', shape: [8] }]);
  for (const exponent of readFloats(weights, 'blk.0.ssm_a')) expect(exponent).toBeLessThan(0);
});
