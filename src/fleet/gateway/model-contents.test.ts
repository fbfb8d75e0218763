import { describe, expect, it } from 'vitest';
import { Membership } from '../membership.ts';
import { type ModelStatus, type NodeStatus, PROTOCOL } from '../messages.ts';
import { fleetModels } from './fleet-models.ts';
import { ModelContents, type PinnedContents } from './model-contents.ts';

const [right, wrong] = ['aaaaaaaaaaaa1111', 'bbbbbbbbbbbb2222'];

function statusOf(node: string, key: string): NodeStatus {
  const model = { name: 'm', aliases: [], key, state: 'loaded', isDefault: true } as unknown as ModelStatus;
  const common = { protocol: PROTOCOL, start: '1', version: '1', draining: false, memoryBytes: 1, number: 1 };
  return { ...common, node, roles: ['worker'], models: [model], heard: {}, sentMs: 0 };
}

function watched(pins: PinnedContents = new Map()) {
  const membership = new Membership();
  const problems: string[] = [];
  const contents = new ModelContents(membership, pins, (message) => problems.push(message));
  const answering = () => fleetModels(membership.workers(), pins).map(({ key }) => key);
  return { membership, problems, contents, answering };
}

describe('two files by one name', () => {
  it('are reported once, and counted while they are there', () => {
    const { membership, problems, contents } = watched();
    for (let i = 0; i < 3; i++) {
      membership.handle(statusOf('w1', right), i);
      membership.handle(statusOf('w2', wrong), i);
    }
    expect(problems).toHaveLength(1);
    expect(problems[0]).toMatch(/name m \(aaaaaaaaaaaa on w1; bbbbbbbbbbbb on w2\).*--model-content m=/);
    expect(contents.counts()).toEqual([{ model: 'm', contents: 2 }]);
    membership.handle({ ...statusOf('w2', wrong), leaving: true }, 4);
    expect(contents.counts()).toEqual([{ model: 'm', contents: 1 }]);
    membership.handle({ ...statusOf('w1', right), leaving: true }, 5);
    expect(contents.counts()).toEqual([]);
  });

  it('never change places where one is pinned, though its workers are fewer, or gone', () => {
    const { membership, answering } = watched(new Map([['m', right.slice(0, 12)]]));
    membership.handle(statusOf('w1', right), 0);
    for (const node of ['w2', 'w3']) membership.handle(statusOf(node, wrong), 0);
    expect(answering()).toEqual([right]);
    membership.handle({ ...statusOf('w1', right), leaving: true }, 1);
    expect(answering()).toEqual([]);
  });

  it('are decided by the number of workers where none is pinned', () => {
    const { membership, answering } = watched();
    membership.handle(statusOf('w1', right), 0);
    for (const node of ['w2', 'w3']) membership.handle(statusOf(node, wrong), 0);
    expect(answering()).toEqual([wrong]);
  });
});
