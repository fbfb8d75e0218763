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
];
