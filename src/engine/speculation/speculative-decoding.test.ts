import { expect, it } from 'vitest';
import { BLOCK_TOKENS, KEPT_STATES } from '../../compute/backend.ts';
import { mostBeforeHead } from './speculative-decoding.ts';

it('a draft is so short that the state of its last accepted token is kept for an MTP head, wherever it ends', () => {
  for (let start = 0; start < 2 * BLOCK_TOKENS; start++) {
    const end = start + mostBeforeHead(start);
    // As blocks keep them: those of the step's last tokens, and those in the last places of each block.
    const isKept = (position: number) =>
      end - position < KEPT_STATES || (position % BLOCK_TOKENS) + KEPT_STATES >= BLOCK_TOKENS;
    for (let position = start; position <= end; position++)
      expect([start, position, isKept(position)]).toEqual([start, position, true]);
    expect(end - start).toBeGreaterThanOrEqual(KEPT_STATES - 1);
  }
});
