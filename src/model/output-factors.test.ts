import { describe, expect, it } from 'vitest';
import { formulaValues } from '../../test/support/formula-model.ts';
import { floatTensor, memoryWeights } from '../../test/support/memory-weights.ts';
import { applyLinear, loadLinear } from '../compute/reference/linear.ts';
import { outputFactors } from './output-factors.ts';
import type { AdditionSpec, LinearSpec } from './spec.ts';

const [ROWS, COLUMNS, RANK, SCALE] = [6, 8, 2, 3];

const shapes = {
  weight: [ROWS, COLUMNS],
  bias: [ROWS],
  down: [RANK, COLUMNS],
  up: [ROWS, RANK],
  magnitude: [ROWS],
} as const;
const values = Object.fromEntries(
  Object.entries(shapes).map(([name, shape]) => [name, formulaValues(name, shape)]),
) as Readonly<Record<keyof typeof shapes, Float32Array>>;
const weights = memoryWeights(
  Object.entries(shapes).map(([name, shape]) =>
    floatTensor(name, shape, values[name as keyof typeof shapes]),
  ),
);

const all = { firstRow: 0, rows: ROWS };
const addition: AdditionSpec = {
  adapter: 0,
  rank: RANK,
  scale: SCALE,
  down: { tensor: 'down', firstRow: 0, rows: RANK },
  up: { tensor: 'up', ...all },
  magnitude: { tensor: 'magnitude', ...all },
};
const linear: LinearSpec = {
  leaf: 'linear',
  weight: { tensor: 'weight', ...all },
  columns: COLUMNS,
  bias: { tensor: 'bias', ...all },
  additions: [addition],
};

/** A row of the weights with what the adapter adds, by the definition. */
function summedRow(row: number): number[] {
  return Array.from({ length: COLUMNS }, (_, column) => {
    const added = Array.from(
      { length: RANK },
      (_, k) => (values.up[row * RANK + k] as number) * (values.down[k * COLUMNS + column] as number),
    );
    return (
      (values.weight[row * COLUMNS + column] as number) + SCALE * added.reduce((sum, one) => sum + one, 0)
    );
  });
}

describe('factors of DoRA', () => {
  it('scale each row of the sum of both matrices to its magnitude, and leave the bias as it is', () => {
    const input = formulaValues('input', [COLUMNS]);
    const loaded = loadLinear(weights, linear, { current: Int32Array.of(0) });
    const computed = applyLinear(loaded, input);
    for (let row = 0; row < ROWS; row++) {
      const sum = summedRow(row);
      const product = sum.reduce((total, value, column) => total + value * (input[column] as number), 0);
      const factor = (values.magnitude[row] as number) / Math.hypot(...sum);
      expect(computed[row]).toBeCloseTo(factor * product + (values.bias[row] as number), 5);
    }
  });

  it('are those of the rows that a map takes of a matrix', () => {
    const whole = outputFactors(weights, linear, addition);
    const slice = { firstRow: 1, rows: 4, runs: { rows: 2, every: 3 } };
    const part = outputFactors(
      weights,
      { weight: { tensor: 'weight', ...slice }, columns: COLUMNS },
      { ...addition, up: { tensor: 'up', ...slice }, magnitude: { tensor: 'magnitude', ...slice } },
    );
    expect([...(part?.factors ?? [])]).toEqual([1, 2, 4, 5].map((row) => whole?.factors[row]));
    expect([...(part?.shifts ?? [])]).toEqual([0, 0, 0, 0]);
  });

  it('are none of an adapter without magnitudes', () => {
    const { magnitude: _, ...plain } = addition;
    expect(outputFactors(weights, linear, plain)).toBeUndefined();
  });
});
