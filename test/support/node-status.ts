// What a worker of a fleet publishes, as tests write it.

import { type ModelStatus, type NodeStatus, PROTOCOL } from '../../src/fleet/messages.ts';

export function workerStatus(node: string, over: Partial<NodeStatus> = {}): NodeStatus {
  return {
    protocol: PROTOCOL,
    node,
    start: '1',
    roles: ['worker'],
    version: '1',
    draining: false,
    memoryBytes: 1,
    number: 1,
    sentMs: 0,
    models: [],
    heard: {},
    ...over,
  };
}

/** A model that is loaded and has nothing to do. */
export function idleModel(model: Pick<ModelStatus, 'name' | 'key'> & Partial<ModelStatus>): ModelStatus {
  return {
    aliases: [],
    determinism: 'cpu',
    state: 'loaded',
    isDefault: true,
    pinned: false,
    createdSeconds: 0,
    weightBytes: 1,
    load: {
      totalBlocks: 1000,
      freeBlocks: 1000,
      running: 0,
      maxRunning: 64,
      waiting: [0, 0, 0],
      queuedTokens: [0, 0, 0],
      oldestMs: [0, 0, 0],
      speeds: { promptTokenMs: 0.1, stepBaseMs: 1, stepRowMs: 0.1, stepTokens: 256 },
      answerTokens: 50,
      steps: 0,
    },
    ...model,
  };
}
