// Larger models of Gemma 4 let the tokens of an image see each other in layers with a window: held to transformers.

import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { createReferenceBackend } from '../../src/compute/reference/backend.ts';
import { openLocalModel } from '../../src/pool/local-model.ts';
import { createOnCpu, hasAddon } from '../support/native.ts';
import { hasTestdata, testdata } from '../support/testdata.ts';
import {
  answer,
  distance,
  every,
  type GoldenCase,
  goldenCases,
  largest,
  readCase,
  seen,
} from './golden-case.ts';

interface Recorded {
  readonly argmax: readonly number[];
  readonly last: { readonly every7th: readonly number[] };
}

const recorded = JSON.parse(
  readFileSync(new URL('../fixtures/gemma4-both-ways.json', import.meta.url), 'utf8'),
) as Recorded;

const backends = [
  { name: 'reference', create: createReferenceBackend, tolerance: 2e-4 },
  // Keys and values are halves.
  ...(hasAddon ? [{ name: 'cpu', create: createOnCpu, tolerance: 2e-2 }] : []),
];

it.skipIf(!hasTestdata).each(backends)(
  'lets tokens of an image see each other where the model says so, on $name',
  async ({ create, tolerance }) => {
    const home = mkdtempSync(join(tmpdir(), 'chairlift-gemma4-'));
    const folder = join(home, 'gemma4');
    mkdirSync(folder);
    try {
      for (const name of readdirSync(testdata('vision', 'gemma4'))) {
        const path = testdata('vision', 'gemma4', name);
        if (name !== 'config.json') symlinkSync(path, join(folder, name));
      }
      const config = JSON.parse(readFileSync(testdata('vision', 'gemma4', 'config.json'), 'utf8'));
      config.text_config.use_bidirectional_attention = 'vision';
      writeFileSync(join(folder, 'config.json'), JSON.stringify(config));
      const model = openLocalModel(folder, { images: true });
      const backend = await create(model.spec, model.weights, { blockCount: 32 });
      model.close();
      const seeing = { model: { ...model, name: 'gemma4' }, backend };
      const golden = goldenCases('gemma4').find(({ name }) => name === 'one image') as GoldenCase;
      const prompt = await readCase(seeing, golden);
      const { rows } = await answer(seeing, prompt, await seen(seeing, prompt), 0);
      expect(rows.map(largest)).toEqual(recorded.argmax);
      expect(distance(every(7, rows.at(-1) ?? []), recorded.last.every7th)).toBeLessThan(tolerance);
      backend.close();
    } finally {
      rmSync(home, { recursive: true, force: true });
    }
  },
);
