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

describe('encoding', () => {
  const workers = new EncodeWorkers();
  afterAll(() => workers.close());

  it('gives the same ids for long texts in a thread as for short ones here', async () => {
    const long = sentence.repeat(400);
    for (const options of [{}, { special: true, bos: true }]) {
      expect(await workers.encode(model, long, options)).toEqual(tokenizer.encode(long, options));
    }
    expect(await workers.encode(model, sentence, {})).toEqual(tokenizer.encode(sentence));
  });

  it('of several texts at once gives each its own', async () => {
    const texts = Array.from({ length: 5 }, (_, n) => `${n} ${sentence}`.repeat(300 + n));
    const ids = await Promise.all(texts.map((text) => workers.encode(model, text, {})));
    expect(ids).toEqual(texts.map((text) => tokenizer.encode(text)));
  });

  it('holds the event loop up for less than the encoding takes', async () => {
    let ticks = 0;
    const timer = setInterval(() => ticks++, 1);
    await workers.encode(model, sentence.repeat(8000), {});
    clearInterval(timer);
    expect(ticks).toBeGreaterThan(0);
  });

  it('fails where the thread cannot open the model, and tries anew the next time', async () => {
    const lost = { path: '/nowhere/model.gguf', tokenizer };
    await expect(workers.encode(lost, 'x'.repeat(9000), {})).rejects.toThrow();
    await expect(workers.encode(lost, 'x'.repeat(9000), {})).rejects.toThrow();
  });
});
