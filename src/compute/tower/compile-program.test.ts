import { describe, expect, it } from 'vitest';
import { seeingModel } from '../../../test/support/seeing-model.ts';
import type { VisionSpec } from '../../model/vision/vision-spec.ts';
import { compileProgram } from './compile-program.ts';
import { programWork, type TowerOperation } from './program.ts';

const { tower, preprocessing } = seeingModel().spec.vision as VisionSpec;
const compile = (width: number, height: number) =>
  compileProgram(tower.steps, preprocessing, { width, height });

describe('a program of a tower', () => {
  it('reads what the operation before has left, and never overwrites what is read later', () => {
    const { operations, outputs } = compile(52, 36);
    // Who has last written each buffer.
    const writers = new Map<number, TowerOperation>();
    for (const operation of operations) {
      if (operation.kind !== 'patches') {
        expect(writers.get(operation.from.buffer)?.to).toEqual(operation.from);
      }
      writers.set(operation.to.buffer, operation);
    }
    for (const { columns: _, ...rows } of outputs) expect(writers.get(rows.buffer)?.to).toEqual(rows);
    expect(new Set(outputs.map(({ buffer }) => buffer)).size).toBe(outputs.length);
  });

  it('has the tables of a rope once for all layers of the same grid', () => {
    const { rotations, groups } = compile(48, 48);
    // With the class token and without; all, and windows of two sizes.
    expect([rotations.length, groups.length]).toEqual([2, 3]);
  });

  it('is more work for a larger view, and more than in proportion where all cells see each other', () => {
    expect(programWork(compile(96, 96))).toBeGreaterThan(4.5 * programWork(compile(48, 48)));
  });
});
