import { describe, expect, it } from 'vitest';
import { prompt, SteppedEngine } from '../../../test/property/stepped-engine.ts';
import type { PrefixLookup } from '../step-report.ts';

type Asked = Parameters<SteppedEngine['submit']>[0];

function start(options: Partial<ConstructorParameters<typeof SteppedEngine>[0]> = {}) {
  const engine = new SteppedEngine({
    blockCount: 40,
    budget: { kind: 'fixed', maxStepTokens: 512 },
    ...options,
  });
  /** Takes a request to its end, and gives what it found. */
  const lookup = async (request: Partial<Asked>): Promise<Partial<PrefixLookup>> => {
    const { id } = engine.submit({ prompt: [], newTokens: 1, ...request });
    let found: PrefixLookup | undefined;
    while (engine.scheduler.running.length + engine.scheduler.waitingCount > 0) {
      await engine.step();
      found ??= engine.lastReport?.lookups?.find((one) => one.id === id);
    }
    const { id: _, ...rest } = found as PrefixLookup;
    return rest;
  };
  return { engine, lookup };
}

describe('why a prompt was not found in the prefix cache', () => {
  it('nobody has asked anything like it', async () => {
    const { lookup } = start();
    await lookup({ prompt: prompt(70, 1) });
    expect(await lookup({ prompt: prompt(70, 2) })).toEqual({
      promptTokens: 70,
      cachedTokens: 0,
      why: 'new',
    });
  });

  it('it was found to its end', async () => {
    const { lookup } = start();
    expect(await lookup({ prompt: prompt(20) })).toMatchObject({ why: 'end', cachedTokens: 0 });
    await lookup({ prompt: prompt(70) });
    expect(await lookup({ prompt: prompt(70) })).toEqual({ promptTokens: 70, cachedTokens: 64, why: 'end' });
    // The last token is always computed.
    expect(await lookup({ prompt: prompt(64) })).toMatchObject({ why: 'end', cachedTokens: 32 });
  });

  it('it differs from what is there, and where it does', async () => {
    const { lookup } = start();
    await lookup({ prompt: prompt(100) });
    const other = prompt(100);
    other[40] = 7;
    expect(await lookup({ prompt: other })).toEqual({
      promptTokens: 100,
      cachedTokens: 32,
      why: 'differs',
      firstDifference: 40,
    });
    const nearer = prompt(100);
    nearer[50] = 7;
    expect(await lookup({ prompt: nearer })).toMatchObject({ why: 'differs', firstDifference: 50 });
  });

  it('it goes on where nobody has gone', async () => {
    const { lookup } = start();
    await lookup({ prompt: prompt(64) });
    expect(await lookup({ prompt: prompt(200) })).toMatchObject({ why: 'new', cachedTokens: 64 });
  });

  it('its blocks were taken for others', async () => {
    const { lookup } = start({ blockCount: 8 });
    await lookup({ prompt: prompt(100, 1) });
    await lookup({ prompt: prompt(250, 2) });
    expect(await lookup({ prompt: prompt(100, 1) })).toMatchObject({ why: 'evicted', cachedTokens: 0 });
  });

  it('another salt has it, which is told beside the reason that its own would give', async () => {
    const { lookup } = start();
    await lookup({ prompt: prompt(100), salt: 'a' });
    expect(await lookup({ prompt: prompt(100), salt: 'b' })).toEqual({
      promptTokens: 100,
      cachedTokens: 0,
      why: 'new',
      elsewhere: true,
    });
    const other = prompt(100);
    other[40] = 7;
    await lookup({ prompt: other, salt: 'c' });
    expect(await lookup({ prompt: prompt(100), salt: 'c' })).toMatchObject({
      why: 'differs',
      firstDifference: 40,
      elsewhere: true,
    });
  });

  it('another adapter is nobody else', async () => {
    const { engine } = start();
    const { prefixes } = engine.scheduler.tables;
    const tokens = Int32Array.from(prompt(32));
    prefixes.insert(0, prefixes.root('1:a'), tokens, 0);
    expect(prefixes.isElsewhere(':a', tokens, 1)).toBe(false);
    expect(prefixes.isElsewhere('1:b', tokens, 1)).toBe(true);
  });

  it('the model shares no blocks, or not there', async () => {
    const whole = start({ wholeTexts: true });
    expect(await whole.lookup({ prompt: prompt(70), pooling: 'mean' })).toMatchObject({ why: 'not-shared' });
    const remembering = start({ stateSlots: 3 });
    await remembering.lookup({ prompt: prompt(130) });
    expect(await remembering.lookup({ prompt: prompt(100) })).toMatchObject({ why: 'not-shared' });
  });

  it('is told once, at the first admission', async () => {
    const { engine } = start();
    const sequence = engine.submit({ prompt: prompt(70), newTokens: 9, ignoreEnd: true });
    await engine.step();
    expect(engine.lastReport?.lookups?.length).toBe(1);
    engine.scheduler.preempt(sequence);
    await engine.step();
    expect(engine.lastReport?.lookups).toEqual([]);
    await engine.step();
    expect(engine.lastReport?.lookups).toBeUndefined();
  });
});
