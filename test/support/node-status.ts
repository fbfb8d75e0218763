// What a worker of a fleet publishes, as tests write it.

import { type NodeStatus, PROTOCOL } from '../../src/fleet/messages.ts';

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
