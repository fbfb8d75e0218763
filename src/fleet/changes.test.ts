import fc from 'fast-check';
import { expect, it } from 'vitest';
import { applied, changeOf } from './changes.ts';
import { fromWire, toWire } from './wire.ts';

/** Fields keep their kinds, come and go; arrays of objects grow and shrink. */
const load = fc.record(
  {
    running: fc.nat(9),
    waiting: fc.tuple(fc.nat(3), fc.nat(3), fc.nat(3)),
    speeds: fc.record({ ms: fc.double({ min: 0, noNaN: true }) }),
  },
  { requiredKeys: ['running', 'waiting'] },
);
const model = fc.record(
  { name: fc.constantFrom('a', 'b'), aliases: fc.array(fc.constantFrom('x', 'y'), { maxLength: 2 }), load },
  { requiredKeys: ['name', 'aliases'] },
);
const value = fc.record({
  draining: fc.boolean(),
  models: fc.array(model, { maxLength: 3 }),
  heard: fc.dictionary(fc.constantFrom('g1', 'g2', 'g3'), fc.nat(9)),
});

it('a value and its change give the later value, over the wire', () => {
  fc.assert(
    fc.property(value, value, (before, after) => {
      const [sent] = fromWire(toWire([changeOf(before, after)])) as [unknown];
      const change = sent ?? undefined;
      expect(applied(before, change)).toEqual(after);
      expect(change === undefined).toBe(changeOf(after, before) === undefined);
    }),
    { numRuns: 2000 },
  );
});

it('what is not changed is shared, and not sent', () => {
  const before = { models: [{ name: 'a', load: { running: 1 } }, { name: 'b' }], heard: { g: 1 } };
  const change = changeOf(before, {
    ...before,
    models: [{ name: 'a', load: { running: 2 } }, { name: 'b' }],
  });
  expect(change).toEqual({ models: { 0: { load: { running: 2 } } } });
  const after = applied(before, change) as typeof before;
  expect(after.heard).toBe(before.heard);
  expect(after.models[1]).toBe(before.models[1]);
});
