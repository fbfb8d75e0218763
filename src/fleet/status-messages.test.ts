import { expect, it } from 'vitest';
import { workerStatus } from '../../test/support/node-status.ts';
import type { NodeStatus, StatusMessage } from './messages.ts';
import { StatusReader, StatusWriter } from './status-messages.ts';
import { fromWire, toWire } from './wire.ts';

const many = Object.fromEntries(Array.from({ length: 50 }, (_, i) => [`gateway-${i}`, i]));
const statusOf = (number: number, over: Partial<NodeStatus> = {}) =>
  workerStatus('w', { number, sentMs: number, heard: many, ...over });
const sent = (message: StatusMessage) => fromWire(toWire(message)) as StatusMessage;

it('a status that says nothing new is a small message, whichever before it was lost', () => {
  const [writer, reader] = [new StatusWriter(), new StatusReader()];
  expect(reader.read(sent(writer.next(statusOf(1))))).toEqual(statusOf(1));
  writer.next(statusOf(2, { draining: true }));
  writer.next(statusOf(3, { heard: { ...many, 'gateway-7': 99 } }));
  const last = statusOf(4, { heard: { ...many, 'gateway-7': 100 } });
  const message = writer.next(last);
  expect(toWire(message).length).toBeLessThan(toWire(last).length / 4);
  expect(reader.read(sent(message))).toEqual(last);
});

it('is whole after a minute at most, when much of it is new, and for those who may have missed it', () => {
  const writer = new StatusWriter();
  const isWhole = (status: NodeStatus) => !('since' in writer.next(status));
  const begun = Array.from({ length: 121 }, (_, i) => isWhole(statusOf(i + 1)));
  expect(begun.flatMap((whole, i) => (whole ? [i] : []))).toEqual([0, 61]);
  const heard = Object.fromEntries(Object.keys(many).map((name) => [name, 1000]));
  expect(isWhole(statusOf(200, { heard }))).toBe(true);
  expect(isWhole(statusOf(201, { heard }))).toBe(false);
  writer.forget();
  expect(isWhole(statusOf(202, { heard }))).toBe(true);
  expect(isWhole(statusOf(203, { heard, leaving: true }))).toBe(true);
});

it('a reader that missed the whole status knows nothing until it has it, and then what came meanwhile', () => {
  const [writer, reader] = [new StatusWriter(), new StatusReader()];
  writer.next(statusOf(1));
  const later = statusOf(2, { draining: true });
  const message = sent(writer.next(later));
  expect(reader.read(message)).toBeUndefined();
  expect(reader.readWhole(sent(writer.whole as NodeStatus) as NodeStatus)).toEqual(later);
  expect(reader.read(sent(writer.next(statusOf(3))))).toEqual(statusOf(3));
});

it('a change is of the process that it came from, and no other of its name', () => {
  const [earlier, later, reader] = [new StatusWriter(), new StatusWriter(), new StatusReader()];
  reader.read(sent(earlier.next(statusOf(1))));
  later.next(statusOf(1, { start: '2', memoryBytes: 5 }));
  expect(reader.read(sent(later.next(statusOf(2, { start: '2', memoryBytes: 5 }))))).toBeUndefined();
});
