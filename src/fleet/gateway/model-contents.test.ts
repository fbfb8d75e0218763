import { describe, expect, it } from 'vitest';
import { workerStatus } from '../../../test/support/node-status.ts';
import { Membership } from '../membership.ts';
import type { ModelStatus, NodeStatus } from '../messages.ts';
import { ModelContents, type PinnedContents } from './model-contents.ts';
import { ModelTable } from './model-table.ts';

const [right, wrong] = ['aaaaaaaaaaaa1111', 'bbbbbbbbbbbb2222'];

function statusOf(node: string, key: string): NodeStatus {
  const model = {
    name: 'm',
    aliases: [],
    key,
    state: 'loaded',
    isDefault: true,
    pinned: false,
  } as unknown as ModelStatus;
  return workerStatus(node, { models: [model] });
}

function watched(pins: PinnedContents = new Map()) {
  const membership = new Membership();
  const problems: string[] = [];
  const contents = new ModelContents(membership, pins, (message) => problems.push(message));
  const table = ModelTable.of(membership, pins);
  const answering = () => table.models.map(({ key }) => key);
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
