// What a worker says of a model that has nothing to do, as tests of routing take it: its speeds are those of a small machine.

import type { ModelLoad } from '../../src/fleet/messages.ts';

export const idleLoad = {
  queuedTokens: [0, 0, 0],
  waiting: [0, 0, 0],
  oldestMs: [0, 0, 0],
  running: 0,
  maxRunning: 16,
  freeBlocks: 1000,
  totalBlocks: 1000,
  speeds: { promptTokenMs: 3, stepBaseMs: 40, stepRowMs: 1.5, stepTokens: 256 },
  answerTokens: 100,
} as const satisfies Omit<ModelLoad, 'steps'>;
