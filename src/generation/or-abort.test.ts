import { describe, expect, it } from 'vitest';
import { orAbort } from './or-abort.ts';

describe('a wait that an abort may end', () => {
  it('gives what its promise gives, or fails as it fails', async () => {
    const { signal } = new AbortController();
    expect(await orAbort(Promise.resolve(5), signal)).toBe(5);
    await expect(orAbort(Promise.reject(new Error('no')), signal)).rejects.toThrow('no');
  });

  it('ends at once with the reason, and hands on what comes late', async () => {
    const controller = new AbortController();
    let give: (value: string) => void = () => {};
    const promise = new Promise<string>((resolve) => {
      give = resolve;
    });
    const late: string[] = [];
    const waiting = orAbort(promise, controller.signal, (value) => late.push(value));
    controller.abort(new Error('enough'));
    await expect(waiting).rejects.toThrow('enough');
    give('a lease');
    await promise;
    expect(late).toEqual(['a lease']);
  });

  it('hands on what comes though the abort was there first', async () => {
    const controller = new AbortController();
    controller.abort(new Error('gone'));
    const late: string[] = [];
    const promise = Promise.resolve('a lease');
    await expect(orAbort(promise, controller.signal, (value) => late.push(value))).rejects.toThrow('gone');
    expect(late).toEqual(['a lease']);
  });
});
