import { afterAll, describe, expect, it } from 'vitest';
import { embeddedModelPath } from '../../test/support/embedded-model.ts';
import { openModelFiles } from '../weights/open-model.ts';
import { EncodeWorkers } from './encode-workers.ts';
import { openText } from './open-text.ts';

const files = openModelFiles(embeddedModelPath);
const { tokenizer } = openText(files);
files.weights.close();
const model = { path: embeddedModelPath, tokenizer };
const sentence = 'Once upon a time there was a fox named Milo. 😀 <|im_end|>';
const long = sentence.repeat(500);
// Takes minutes and gigabytes: a test that waits for it fails.
const endless = 'x'.repeat(200_000_000);

describe('encoding', () => {
  const workers = new EncodeWorkers();
  afterAll(() => workers.close());

  it('gives the same ids for long texts in a thread as for short ones here', async () => {
    for (const options of [{}, { special: true, bos: true }]) {
      expect(await workers.encode(model, long, options)).toEqual(tokenizer.encode(long, options));
    }
    expect(await workers.encode(model, sentence)).toEqual(tokenizer.encode(sentence));
  });

  it('gives the same text for many ids in a thread as for few here', async () => {
    const ids = tokenizer.encode(long, { special: true });
    expect(ids.length).toBeGreaterThan(8192);
    for (const options of [{}, { special: true }]) {
      expect(await workers.decode(model, ids, options)).toBe(tokenizer.decode(ids, options));
      expect(await workers.decode(model, [...ids], options)).toBe(tokenizer.decode(ids, options));
    }
    expect(await workers.decode(model, ids.subarray(0, 50))).toBe(tokenizer.decode(ids.subarray(0, 50)));
    expect(ids, 'the ids stay with whoever gave them').toEqual(tokenizer.encode(long, { special: true }));
  });

  it('gives no text for ids that no token has, however many there are', async () => {
    const strangers = [2 ** 32 + 65, 65.5, -1, 4_000_000, Number.NaN];
    const many = Array.from({ length: 10_000 }, (_, n) => strangers[n % strangers.length] as number);
    expect(tokenizer.decode(many)).toBe('');
    expect(await workers.decode(model, many)).toBe('');
  });

  it('of several texts at once gives each its own', async () => {
    const texts = Array.from({ length: 5 }, (_, n) => `${n} ${sentence}`.repeat(300 + n));
    const ids = await Promise.all(texts.map((text) => workers.encode(model, text)));
    expect(ids).toEqual(texts.map((text) => tokenizer.encode(text)));
  });

  it('holds the event loop up for less than the work takes, there and back', async () => {
    let ticks = 0;
    const timer = setInterval(() => ticks++, 1);
    const ids = await workers.encode(model, sentence.repeat(8000));
    const encoding = ticks;
    await workers.decode(model, ids);
    clearInterval(timer);
    expect(encoding).toBeGreaterThan(0);
    expect(ticks).toBeGreaterThan(encoding);
  });

  it('fails where the thread cannot open the model, and tries anew the next time', async () => {
    const lost = { path: '/nowhere/model.gguf', tokenizer };
    const attempts = [1, 2].map(() => workers.encode(lost, long));
    for (const attempt of attempts) await expect(attempt).rejects.toThrow('/nowhere/model.gguf');
    await expect(workers.encode(lost, long)).rejects.toThrow('/nowhere/model.gguf');
  });
});

describe('encoding for several', () => {
  it('lets accounts take turns, however much one of them sends', async () => {
    const workers = new EncodeWorkers();
    const order: string[] = [];
    const jobs = ['a1', 'a2', 'a3', 'a4', 'b1', 'b2', 'c1'].map(async (name) => {
      await workers.encode(model, `${name} ${long}`, {}, { account: name.slice(0, 1) });
      order.push(name);
    });
    await Promise.all(jobs);
    // A slow machine ends some texts in several parts, so that their ends may change places; not their accounts' turns.
    expect(order.filter((name) => name.startsWith('a'))).toEqual(['a1', 'a2', 'a3', 'a4']);
    expect(order.at(-1)).toBe('a4');
    await workers.close();
  });

  it('lets the short texts of others in between the parts of a long one', async () => {
    const workers = new EncodeWorkers();
    const expected = await workers.encode(model, long);
    const order: string[] = [];
    const ended = (name: string) => (ids: Int32Array) => {
      order.push(name);
      return ids;
    };
    const huge = sentence.repeat(20_000);
    const first = workers.encode(model, huge, {}, { account: 'a' }).then(ended('a'));
    const others = ['b', 'c'].map((account) =>
      workers.encode(model, long, {}, { account }).then(ended(account)),
    );
    expect(await Promise.all(others)).toEqual([expected, expected]);
    expect(await first).toEqual(tokenizer.encode(huge));
    // Of two short ones, either may end first.
    expect([...order.slice(0, 2).sort(), order[2]]).toEqual(['b', 'c', 'a']);
    await workers.close();
  });

  it('never starts a job whose caller has left', async () => {
    const workers = new EncodeWorkers();
    const departed = new Error('the client left');
    const first = workers.encode(model, long);
    const leaving = new AbortController();
    const waiting = workers.encode(model, endless, {}, { signal: leaving.signal });
    leaving.abort(departed);
    await expect(waiting).rejects.toBe(departed);
    const gone = { signal: AbortSignal.abort(departed) };
    await expect(workers.encode(model, endless, {}, gone)).rejects.toBe(departed);
    await expect(workers.encode(model, 'short', {}, gone)).rejects.toBe(departed);
    await expect(workers.decode(model, [1, 2], {}, gone)).rejects.toBe(departed);
    expect(await workers.encode(model, long)).toEqual(await first);
    await workers.close();
  });

  it('gives up a job that goes on after its caller has left, and serves those behind it', async () => {
    const workers = new EncodeWorkers();
    // Its answer says that the thread is open, so that the next job starts at once.
    const expected = await workers.encode(model, long);
    const leaving = new AbortController();
    const running = workers.encode(model, endless, {}, { signal: leaving.signal, account: 'a' });
    const behind = [
      workers.encode(model, long, {}, { account: 'a' }),
      workers.encode(model, long, {}, { account: 'b' }),
    ];
    await new Promise((resolve) => setTimeout(resolve, 200));
    leaving.abort(new Error('the client left'));
    await expect(running).rejects.toThrow('the client left');
    expect(await Promise.all(behind)).toEqual([expected, expected]);
    await workers.close();
  });

  it('never gives the answer of a job that nobody waits for to the next one', async () => {
    const workers = new EncodeWorkers();
    const expected = await workers.encode(model, long);
    const leaving = new AbortController();
    const running = workers.encode(model, long.repeat(2), {}, { signal: leaving.signal });
    leaving.abort(new Error('the client left'));
    await expect(running).rejects.toThrow('the client left');
    expect(await workers.encode(model, long)).toEqual(expected);
    await workers.close();
  });

  it('rejects what is under way and what waits when it closes, and what comes later', async () => {
    const workers = new EncodeWorkers();
    await workers.encode(model, long);
    const jobs = [
      workers.encode(model, endless),
      workers.encode(model, long),
      workers.decode(model, new Int32Array(9000)),
    ];
    const outcomes = Promise.allSettled(jobs);
    await workers.close();
    expect((await outcomes).map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected']);
    await expect(workers.encode(model, long)).rejects.toThrow('closed');
  });
});
