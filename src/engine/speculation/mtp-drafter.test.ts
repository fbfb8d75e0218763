import { describe, expect, it } from 'vitest';
import { KEPT_STATES } from '../../compute/backend.ts';
import type { BlockTables } from '../cache/block-tables.ts';
import { Sequence } from '../scheduler/sequence.ts';
import { MtpDrafter, type PredictingBackend } from './mtp-drafter.ts';

describe('an MTP head', () => {
  it('leaves out a sequence while the state of its last token is not kept', () => {
    const [backend, tables] = [{} as PredictingBackend, {} as BlockTables];
    const drafter = new MtpDrafter({ backend, tables, vocabSize: 40 });
    const tokens = Int32Array.of(1, 2, 3);
    const sequence = new Sequence({ id: 's', tokens, maxTokens: 99, priority: 1, enqueuedMs: 0 });
    sequence.computed = 2;
    sequence.state = 'running';
    const fitsAfter = (rejected: number) => {
      drafter.verified(sequence, rejected);
      return drafter.fits(sequence);
    };
    expect([0, KEPT_STATES - 1, KEPT_STATES, 30, 0].map(fitsAfter)).toEqual([true, true, false, false, true]);
    drafter.verified(sequence, KEPT_STATES);
    drafter.release(sequence);
    expect(drafter.fits(sequence)).toBe(true);
  });
});
