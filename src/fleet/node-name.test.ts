import { randomBytes } from 'node:crypto';
import { expect, it } from 'vitest';
import { MemoryWire } from '../../test/support/memory-wire.ts';
import { Subjects } from './bus.ts';
import { claimName } from './node-name.ts';

const subjects = new Subjects('test');

it('gives a name to one process, and says who has it', async () => {
  const wire = new MemoryWire();
  expect(await claimName(wire.bus('first'), subjects, 'w', randomBytes)).toBeUndefined();
  expect(await claimName(wire.bus('second'), subjects, 'w', randomBytes)).toMatchObject({ pid: process.pid });
  expect(await claimName(wire.bus('second'), subjects, 'other', randomBytes)).toBeUndefined();
});

it('gives a name to one of several that ask at the same time', async () => {
  const wire = new MemoryWire();
  const asked = ['a', 'b', 'c', 'd'].map((process) =>
    claimName(wire.bus(process), subjects, 'w', randomBytes),
  );
  const free = (await Promise.all(asked)).filter((holder) => holder === undefined);
  expect(free).toHaveLength(1);
});

it('gives a name again whose process is cut off', async () => {
  const wire = new MemoryWire();
  await claimName(wire.bus('first'), subjects, 'w', randomBytes);
  wire.cut('first');
  expect(await claimName(wire.bus('second'), subjects, 'w', randomBytes)).toBeUndefined();
});
