import { describe, expect, it, vi } from 'vitest';
import { BetweenSteps } from './between-steps.ts';

describe('work between steps', () => {
  it('is done when there is time for it, in order, a copy at least', async () => {
    const wake = vi.fn();
    const steps = new BetweenSteps(wake);
    const done: string[] = [];
    const first = steps.copy(3, (index) => done.push(`first ${index}`));
    const second = steps.copy(1, (index) => done.push(`second ${index}`));
    expect([wake.mock.calls.length, steps.hasCopies, done]).toEqual([2, true, []]);
    steps.runCopies(() => false);
    expect(done).toEqual(['first 0']);
    steps.runCopies(() => done.length < 3);
    expect(done).toEqual(['first 0', 'first 1', 'first 2']);
    await first;
    steps.runCopies(() => true);
    await second;
    expect([done.length, steps.hasWork]).toEqual([4, false]);
    await steps.copy(0, () => expect.fail());
  });

  it('changes the cache before anything is planned, and tells what came of it', async () => {
    const steps = new BetweenSteps(() => {});
    const changed = steps.change(() => 7);
    const failed = steps.change(() => {
      throw new Error('no room');
    });
    expect([steps.hasWork, steps.hasCopies]).toEqual([true, false]);
    steps.runChanges();
    expect(await changed).toBe(7);
    await expect(failed).rejects.toThrow('no room');
  });

  it('fails where one copy does, and others go on', async () => {
    const steps = new BetweenSteps(() => {});
    const broken = steps.copy(2, () => {
      throw new Error('a bad block');
    });
    const whole = steps.copy(2, () => {});
    steps.runCopies(() => true);
    await expect(broken).rejects.toThrow('a bad block');
    await whole;
    expect(steps.hasWork).toBe(false);
  });

  it('is done at once where there are no steps any more', async () => {
    const steps = new BetweenSteps(() => {});
    const copied: number[] = [];
    const before = steps.copy(2, (index) => copied.push(index));
    steps.end();
    await before;
    await steps.copy(1, () => copied.push(9));
    expect(await steps.change(() => copied)).toEqual([0, 1, 9]);
  });
});
