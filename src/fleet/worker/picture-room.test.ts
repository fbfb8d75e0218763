import { expect, it } from 'vitest';
import { PictureRoom } from './picture-room.ts';

const { signal } = new AbortController();
const all = (entries: Record<string, number>) => new Map(Object.entries(entries));

/** Whether it has been let in by now. */
async function isIn(taking: Promise<unknown>): Promise<boolean> {
  const waits = Symbol('waits');
  await new Promise((resolve) => setImmediate(resolve));
  return (await Promise.race([taking, Promise.resolve(waits)])) !== waits;
}

it('counts once what several show, and lets nobody overtake the first that waits', async () => {
  const room = new PictureRoom(10);
  const [one, same] = await Promise.all([room.take(all({ a: 6 }), signal), room.take(all({ a: 6 }), signal)]);
  expect(room.usedBytes).toBe(6);
  const large = room.take(all({ b: 7 }), signal);
  const small = room.take(all({ c: 1 }), signal);
  expect([await isIn(large), await isIn(small)]).toEqual([false, false]);
  one();
  expect(await isIn(large)).toBe(false);
  same();
  expect([await isIn(large), await isIn(small), room.usedBytes]).toEqual([true, true, 8]);
});

it('lets in one that is larger than all there is, alone', async () => {
  const room = new PictureRoom(10);
  const leave = await room.take(all({ a: 1 }), signal);
  const huge = room.take(all({ b: 30 }), signal);
  expect(await isIn(huge)).toBe(false);
  leave();
  const next = room.take(all({ c: 1 }), signal);
  expect([await isIn(huge), await isIn(next)]).toEqual([true, false]);
  (await huge)();
  expect([await isIn(next), room.usedBytes]).toEqual([true, 1]);
});

it('lets the others in where the first that waits leaves, which takes nothing', async () => {
  const room = new PictureRoom(10);
  await room.take(all({ a: 8 }), signal);
  const leaving = new AbortController();
  const first = room.take(all({ b: 9 }), leaving.signal);
  const second = room.take(all({ c: 2 }), signal);
  leaving.abort(new Error('gone'));
  await expect(first).rejects.toThrow('gone');
  expect([await isIn(second), room.usedBytes]).toEqual([true, 10]);
  await expect(room.take(all({ d: 1 }), leaving.signal)).rejects.toThrow('gone');
});
