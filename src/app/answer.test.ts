// An answer runs whether it is read or not, can be read more than once, and ends at once when it is aborted.

import { getEventListeners } from 'node:events';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { RunningAnswer } from './answer.ts';

async function* abc(): AsyncGenerator<string, string, void> {
  yield 'a';
  await nextTurn();
  yield 'b';
  yield 'c';
  return 'abc';
}

function silent(ended: { reason?: unknown } = {}) {
  return async function* (signal: AbortSignal): AsyncGenerator<string, string, void> {
    yield 'a';
    await new Promise<void>((resolve) => {
      signal.addEventListener('abort', () => resolve(), { once: true });
    });
    ended.reason = signal.reason;
    throw signal.reason;
  };
}

async function read(pieces: AsyncIterable<string>, into: string[] = []): Promise<string[]> {
  for await (const piece of pieces) into.push(piece);
  return into;
}

describe('an answer', () => {
  it('gives its pieces to every reader from the first one on, and the whole', async () => {
    const answer = new RunningAnswer(abc, []);
    const early = read(answer);
    expect(await answer.result()).toBe('abc');
    expect(await early).toEqual(['a', 'b', 'c']);
    expect(await read(answer)).toEqual(['a', 'b', 'c']);
    for await (const _ of answer) break;
    expect(await read(answer)).toEqual(['a', 'b', 'c']);
  });

  it('is ended by a signal while nobody reads, and tells whoever reads later', async () => {
    const controller = new AbortController();
    const ended: { reason?: unknown } = {};
    const answer = new RunningAnswer(silent(ended), [new AbortController().signal, controller.signal]);
    await nextTurn();
    controller.abort();
    await nextTurn();
    expect(ended.reason).toMatchObject({ name: 'AbortError' });
    await expect(read(answer)).rejects.toMatchObject({ name: 'AbortError' });
    await expect(answer.result()).rejects.toMatchObject({ name: 'AbortError' });
  });

  it('fails with the reason of the signal, in a loop that waits', async () => {
    const controller = new AbortController();
    const answer = new RunningAnswer(silent(), [controller.signal]);
    const pieces: string[] = [];
    const reading = read(answer, pieces);
    await nextTurn();
    controller.abort(new RangeError('enough'));
    await expect(reading).rejects.toThrow(new RangeError('enough'));
    expect(pieces).toEqual(['a']);
  });

  it('never starts where the signal came before', async () => {
    const started: string[] = [];
    const source = async function* (): AsyncGenerator<string, string, void> {
      started.push('started');
      yield 'a';
      return 'a';
    };
    const answer = new RunningAnswer(source, [AbortSignal.abort()]);
    await expect(answer.result()).rejects.toMatchObject({ name: 'AbortError' });
    expect(started).toEqual([]);
  });

  it('shares a signal with any number of others, and lets go of it', async () => {
    const warnings: string[] = [];
    const onWarning = ({ message }: Error) => warnings.push(message);
    process.on('warning', onWarning);
    const controller = new AbortController();
    const answers = Array.from({ length: 30 }, () => new RunningAnswer(abc, [controller.signal]));
    expect(getEventListeners(controller.signal, 'abort')).toHaveLength(30);
    expect(await Promise.all(answers.map((answer) => answer.result()))).toEqual(Array(30).fill('abc'));
    expect(getEventListeners(controller.signal, 'abort')).toEqual([]);
    await nextTurn();
    process.off('warning', onWarning);
    expect(warnings).toEqual([]);
  });

  it('fails where the signal is none', async () => {
    const answer = new RunningAnswer(abc, [{} as AbortSignal]);
    await expect(read(answer)).rejects.toThrow(TypeError);
  });

  it('is ended by leaving the loop', async () => {
    const ended: { reason?: unknown } = {};
    const answer = new RunningAnswer(silent(ended), []);
    for await (const _ of answer) break;
    await expect(answer.result()).rejects.toMatchObject({ name: 'AbortError' });
    expect(ended.reason).toMatchObject({ name: 'AbortError' });
  });

  it('gives what came before a failure first', async () => {
    const failing = async function* (): AsyncGenerator<string, string, void> {
      yield 'a';
      throw new RangeError('broken');
    };
    const answer = new RunningAnswer(failing, []);
    await expect(answer.result()).rejects.toThrow('broken');
    const pieces: string[] = [];
    await expect(read(answer, pieces)).rejects.toThrow('broken');
    expect(pieces).toEqual(['a']);
  });
});
