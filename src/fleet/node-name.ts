// A node's name is its own: before it joins, it asks whether another process goes by that name, and answers the same question
// for as long as it lives. Two that start together agree on one.

import { hostname } from 'node:os';
import type { RandomBytes } from '../runtime/clock.ts';
import type { Bus, Subjects } from './bus.ts';

/** A process that lives answers within this time; nobody waits for one that does not. */
const ANSWER_MS = 1000;

/** Says who is meant, in questions and answers. */
export interface NameHolder {
  readonly id: string;
  readonly host: string;
  readonly pid: number;
}

/** Undefined where the name is free, and this process's from now on; otherwise who has it. */
export async function claimName(
  bus: Bus,
  subjects: Subjects,
  node: string,
  randomBytes: RandomBytes,
): Promise<NameHolder | undefined> {
  const subject = subjects.name(node);
  const id = Buffer.from(randomBytes(8)).toString('hex');
  const self: NameHolder = { id, host: hostname(), pid: process.pid };
  let isClaimed = false;
  let rival: NameHolder | undefined;
  const end = bus.subscribe(subject, (message, reply) => {
    const asker = message as NameHolder;
    if (asker.id === self.id) return;
    // Of those that ask at the same time, the lowest id has the name.
    if (isClaimed || self.id < asker.id) reply?.(self);
    else rival = asker;
  });
  const holder = await bus.request(subject, self, ANSWER_MS).catch(() => rival);
  isClaimed = holder === undefined;
  if (!isClaimed) end();
  return holder as NameHolder | undefined;
}
