import { describe, expect, it } from 'vitest';
import { mergeStreams } from './engine-streams.ts';

async function* values<Value>(...list: Value[]): AsyncGenerator<Value, void, void> {
  for (const value of list) {
    await Promise.resolve();
    yield value;
  }
}

async function* silence(): AsyncGenerator<string, void, void> {
  await new Promise(() => {});
}

const never = new AbortController().signal;

describe('merged streams', () => {
  it('give every value of every stream, each stream in order', async () => {
    const seen: Record<number, unknown[]> = { 0: [], 1: [], 2: [] };
    const merged = mergeStreams([values(1, 2, 3), values<number>(), values(4, 5)], never);
    for await (const [stream, value] of merged) seen[stream]?.push(value);
    expect(seen).toEqual({ 0: [1, 2, 3], 1: [], 2: [4, 5] });
  });

  it('fail with the first failure', async () => {
    async function* broken(): AsyncGenerator<number, void, void> {
      yield 1;
      throw new Error('broken');
    }
    const read = async () => {
      for await (const _ of mergeStreams([broken(), silence() as never], never));
    };
    await expect(read()).rejects.toThrow('broken');
  });

  it('end with the reason of an abort although no stream moves', async () => {
    const controller = new AbortController();
    setTimeout(() => controller.abort(new Error('enough')), 5);
    const read = async () => {
      for await (const _ of mergeStreams([silence()], controller.signal));
    };
    await expect(read()).rejects.toThrow('enough');
  });

  it('end at once where the abort came before', async () => {
    const read = async () => {
      for await (const _ of mergeStreams([silence()], AbortSignal.abort(new Error('before'))));
    };
    await expect(read()).rejects.toThrow('before');
  });
});
