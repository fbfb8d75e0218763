import { randomBytes } from 'node:crypto';
import { afterEach, expect, it, vi } from 'vitest';
import { MemoryWire } from '../../test/support/memory-wire.ts';
import { workerStatus } from '../../test/support/node-status.ts';
import { nodeClock } from '../runtime/clock.ts';
import { Subjects } from './bus.ts';
import { FleetNode } from './fleet-node.ts';
import type { ChangedStatus, NodeStatus, StatusMessage } from './messages.ts';

const subjects = new Subjects('test');
const nodes: FleetNode[] = [];
afterEach(() => {
  for (const node of nodes.splice(0)) node.close();
});

function startNode(wire: MemoryWire, node: string, roles: NodeStatus['roles'], problems: string[] = []) {
  const bus = wire.bus(node);
  const started = new FleetNode({
    node,
    roles,
    version: '1',
    memoryBytes: 7,
    bus,
    subjects,
    nowMs: nodeClock.monotonicMs,
    clock: nodeClock,
    randomBytes,
    onProblem: (problem) => problems.push(problem),
  });
  nodes.push(started);
  if (roles.includes('worker')) {
    const { models, heard } = workerStatus(node, { heard: { g: 3 } });
    started.startWorker(
      () => ({ draining: false, models, heard }),
      async () => ({ kind: 'done' }),
    );
  }
  started.publishStatus();
  return started;
}

const namesOf = (all: readonly NodeStatus[]) => all.map(({ node }) => node).sort();

it('statuses of workers go to gateways, and summaries of gateways to all', async () => {
  const wire = new MemoryWire();
  const worker = startNode(wire, 'w', ['worker']);
  startNode(wire, 'v', ['worker']);
  const both = startNode(wire, 'b', ['worker', 'gateway']);
  const gateway = startNode(wire, 'g', ['gateway']);
  for (const { membership } of [both, gateway])
    await vi.waitUntil(() => membership.workers().length === 3 && membership.gateways().length === 2);
  await vi.waitUntil(() => worker.membership.gateways().length === 2);
  expect(namesOf(worker.membership.all())).toEqual(['b', 'g']);
  // What it says as a worker is not replaced by what it says as a gateway.
  expect(gateway.membership.get('b')?.heard).toEqual({ g: 3 });
  gateway.close();
  await vi.waitUntil(() => namesOf(worker.membership.all()).join() === 'b');
});

it('a gateway that missed a whole status asks for it, once, and nobody else hears the answer', async () => {
  const wire = new MemoryWire();
  startNode(wire, 'w', ['worker']);
  await new Promise((resolve) => setTimeout(resolve, 100));
  const heard: StatusMessage[] = [];
  wire.bus('observer').subscribe(subjects.everyStatus, (message) => heard.push(message as StatusMessage));
  let questions = 0;
  wire.bus('observer').subscribe(subjects.ask('w'), () => {
    questions += 1;
  });
  const gateway = startNode(wire, 'g', ['gateway']);
  await vi.waitUntil(() => gateway.membership.workers().length === 1, { timeout: 5000 });
  expect(gateway.membership.get('w')).toMatchObject({ memoryBytes: 7, heard: { g: 3 }, number: 2 });
  await vi.waitUntil(() => heard.length >= 2, { timeout: 5000 });
  expect(heard.every((message) => 'since' in message)).toBe(true);
  expect(questions).toBe(1);
});

it.each([
  ['of an earlier version, whole', { ...workerStatus('old'), protocol: 3 }],
  [
    'of a later version, a change',
    { protocol: 5, node: 'old', start: '1', version: '1', number: 2, sentMs: 0, since: 1 } as ChangedStatus,
  ],
])('a node that speaks otherwise is left out, and said so once: %s', async (_, message) => {
  const wire = new MemoryWire();
  const problems: string[] = [];
  const gateway = startNode(wire, 'g', ['gateway'], problems);
  let questions = 0;
  const old = wire.bus('old');
  old.subscribe(subjects.ask('old'), () => {
    questions += 1;
  });
  for (let i = 0; i < 3; i++) old.publish(subjects.status('old'), message);
  for (let i = 0; i < 3; i++) old.publish(subjects.summary('old'), message);
  await vi.waitUntil(() => problems.length > 0);
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(problems).toEqual([
    `old is left out: its version 1 speaks protocol ${message.protocol} of a fleet, this node 4`,
  ]);
  expect(gateway.membership.get('old')).toBeUndefined();
  expect(questions).toBe(0);
});

it('a node hears of another by its name', async () => {
  for (const role of ['worker', 'gateway'] as const) {
    const wire = new MemoryWire();
    const problems: string[] = [];
    startNode(wire, 'n', [role], problems);
    startNode(wire, 'n', [role]);
    await vi.waitUntil(() => problems.length > 0);
    expect(problems).toEqual(['another node is called n, too: give each a name of its own']);
  }
});
