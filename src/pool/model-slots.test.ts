import { describe, expect, it } from 'vitest';
import { ModelSlots, type PoolModel } from './model-slots.ts';

const model = (name: string, path = `/models/${name}`, aliases: string[] = []): PoolModel => ({
  name,
  path,
  aliases,
  pinned: false,
  createdSeconds: 0,
});

/** Slots whose folder holds what `models` holds, and a clock to turn. */
function slotsOf(...models: PoolModel[]) {
  const folder = { models, looks: 0 };
  const clock = { ms: 0 };
  const find = () => {
    folder.looks++;
    return folder.models;
  };
  return { folder, clock, slots: new ModelSlots(models, find, () => clock.ms) };
}

const names = (slots: ModelSlots) => slots.all().map((slot) => slot.model.name);

describe('the models a pool knows', () => {
  it('are found by name and alias, the first one without a name', () => {
    const { slots } = slotsOf(model('a', '/a', ['first']), model('b'));
    expect(slots.get('a')?.slot).toBe(slots.get(undefined)?.slot);
    expect(slots.get('first')?.slot).toBe(slots.get('a')?.slot);
    expect(slots.get('c')).toBeUndefined();
    expect(() => slotsOf(model('a'), model('b', '/b', ['a']))).toThrow(/two models are named a/);
  });

  it('are looked for again, but not at every turn', () => {
    const { folder, clock, slots } = slotsOf(model('a'));
    folder.models = [model('a'), model('b')];
    for (let asked = 0; asked < 100; asked++) expect(slots.get('b')).toBeUndefined();
    expect(folder.looks).toBe(0);
    clock.ms += 1000;
    expect(slots.get('b')?.slot.model.name).toBe('b');
    for (let asked = 0; asked < 100; asked++) expect(names(slots)).toEqual(['a', 'b']);
    expect(folder.looks).toBe(1);
  });

  it('keep their names and their order: a newcomer takes neither the name nor the default', () => {
    const { folder, clock, slots } = slotsOf(model('phi', '/one/phi', ['x']), model('demo'));
    folder.models = [model('x', '/x'), model('other/phi', '/one/phi', ['x']), model('phi', '/two/phi')];
    clock.ms += 1000;
    expect(names(slots)).toEqual(['phi', 'x', 'phi-2']);
    expect(slots.get(undefined)?.slot.model.path).toBe('/one/phi');
    expect(slots.get('phi')?.slot.model.path).toBe('/one/phi');
    // An own name goes over an alias.
    expect(slots.get('x')?.slot.model.path).toBe('/x');
  });

  it('keep their aliases and their pin when a newcomer changes what they would be called', () => {
    const pinned = { ...model('llama', '/a/llama', ['gpt']), pinned: true };
    const { folder, clock, slots } = slotsOf(pinned, model('demo'));
    folder.models = [model('a/llama', '/a/llama'), model('b/llama', '/b/llama'), model('demo')];
    clock.ms += 1000;
    expect(slots.get('gpt')?.slot.model).toMatchObject({ name: 'llama', path: '/a/llama', pinned: true });
    expect(slots.get('b/llama')?.slot.model.path).toBe('/b/llama');
  });

  it('stay while they are in use, though their files are gone', () => {
    const { folder, clock, slots } = slotsOf(model('a'), model('b'));
    const used = slots.get('a')?.slot;
    if (used !== undefined) used.leases.awaited = 1;
    folder.models = [];
    clock.ms += 1000;
    expect(names(slots)).toEqual(['a']);
    if (used !== undefined) used.leases.awaited = 0;
    clock.ms += 1000;
    expect(names(slots)).toEqual([]);
  });
});
