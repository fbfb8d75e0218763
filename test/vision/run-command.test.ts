// `chairlift run --image`, by the real program.

import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { embeddedModelPath } from '../support/embedded-model.ts';
import { newHome, runProgram } from '../support/program.ts';
import { hasTestdata, testdata } from '../support/testdata.ts';

const place = { home: newHome(), environment: {} };
const picture = (name: string) => testdata('vision', 'images', name);
const exact = ['--temperature', '0', '--max-tokens', '6'];

/** The model, then images and question as they are given. */
const run = (...words: string[]) => runProgram(place, ['run', testdata('vision', 'qwen3_vl'), ...words]);

it.skipIf(!hasTestdata)('answers a question about images, before or after which they are named', async () => {
  const [tiny, tall] = [picture('tiny-31x17.png'), picture('tall-64x500.webp')];
  const first = await run('--image', tiny, '--image', tall, 'What are these?', ...exact);
  expect(first).toMatchObject({ code: 0, output: expect.stringMatching(/\S/) });
  const last = await run('What', 'are', 'these?', ...exact, '--image', tiny, '--image', tall);
  expect(last.output).toBe(first.output);
  const turned = await run('--image', tall, '--image', tiny, 'What are these?', ...exact);
  expect(turned.output).not.toBe(first.output);
});

it.skipIf(!hasTestdata)(
  'says in one line what is wrong with an image, or with the model for it',
  async () => {
    const cut = join(place.home, 'cut.png');
    writeFileSync(cut, readFileSync(picture('gray-333x187.png')).subarray(0, 3000));
    const refused = async (...words: string[]) => {
      const { output, notes, code } = await run(...words, 'What is this?');
      expect({ output, code }).toEqual({ output: '', code: 1 });
      expect(notes.trim().split('\n')).toHaveLength(1);
      return notes;
    };
    expect(await refused('--image', join(place.home, 'none.png'))).toContain('none.png: ENOENT');
    expect(await refused('--image', 'https://images.example/a.png')).toContain('is not fetched');
    expect(await refused('--image', testdata('vision', 'README.md'))).toContain('no PNG, JPEG, WebP or GIF');
    expect(await refused('--image', picture('tiny-31x17.png'), '--image', cut)).toContain(
      'cannot be decoded',
    );
    const words = ['run', embeddedModelPath, '--image', picture('tiny-31x17.png'), 'What is this?'];
    expect(await runProgram(place, words)).toMatchObject({
      code: 1,
      notes: expect.stringContaining('does not read images'),
    });
  },
);
