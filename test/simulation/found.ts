// Faults that the simulation has found in the product, as the schedules that showed them: each must stay mended.

import type { Fault } from './faults.ts';

export interface FoundFault {
  readonly promise: string;
  readonly seed: number;
  readonly faults: readonly Fault[];
}

export const foundFaults: readonly FoundFault[] = [
  {
    promise: 'a gateway that the message system does not reach is not ready',
    seed: 107,
    faults: [
      { kind: 'kill worker', atMs: 474_020, durationMs: 34_940, target: 9, amount: 0.844 },
      { kind: 'message system down', atMs: 474_967, durationMs: 29_944, target: 4, amount: 0.742 },
      { kind: 'kill worker', atMs: 476_944, durationMs: 27_930, target: 2, amount: 0.896 },
    ],
  },
  {
    promise: 'a batch whose end was written keeps its answers, though the answer to that write was lost',
    seed: 500_068,
    faults: [
      { kind: 'stall worker', atMs: 15_000, durationMs: 9436, target: 1, amount: 0.971, after: 'stream' },
      {
        kind: 'slow worker link',
        atMs: 133_959,
        durationMs: 7997,
        target: 8,
        amount: 0.058,
        after: 'stream',
      },
      {
        kind: 'database loses answers',
        atMs: 167_951,
        durationMs: 12_024,
        target: 6,
        amount: 0.981,
        after: 'stream',
      },
      { kind: 'database away', atMs: 170_403, durationMs: 4571, target: 6, amount: 0.935 },
    ],
  },
  {
    promise: 'an engine that hangs is noticed as soon as the time before',
    seed: 19,
    faults: [
      { kind: 'engine hangs', atMs: 303_210, durationMs: 19_736, target: 5, amount: 0.886 },
      {
        kind: 'engine hangs',
        atMs: 338_804,
        durationMs: 18_671,
        target: 5,
        amount: 0.63,
        after: 'stream',
      },
      { kind: 'engine hangs', atMs: 379_648, durationMs: 15_276, target: 2, amount: 0.303 },
    ],
  },
];
