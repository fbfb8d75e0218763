// Answers of each family that has MTP heads are the same with the head and without: alone and together, greedy and sampled. The
// models follow a formula: what their heads draft is seldom right.

import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { buildSpec } from '../../src/model/build-spec.ts';
import { drafting, headAlone, type OpenWithHead, said } from '../support/drafting-run.ts';
import type { TestRequest } from '../support/engine-requests.ts';
import { asFolder, type FormulaModel } from '../support/formula-model.ts';
import { randomTokens } from '../support/tiny-model.ts';

const VOCABULARY = 40;

const models: Readonly<Record<string, FormulaModel>> = JSON.parse(
  readFileSync(new URL('../golden/mtp.json', import.meta.url), 'utf8'),
);

/** The others are known as GGUF files alone. */
const inFolders = Object.entries(models).filter(([name]) => !name.includes('attention alone'));

const requests = Array.from(
  { length: 6 },
  (_, n): TestRequest => ({
    prompt: randomTokens(1 + 11 * n, VOCABULARY, n),
    sampling: { temperature: n % 2, seed: n, maxTokens: 50, logprobs: 0 },
  }),
);

it.each(inFolders)('answers are those without the head: %s', async (_, model) => {
  const open: OpenWithHead = (mtp) => {
    const opened = asFolder(model);
    return { spec: buildSpec(opened, { mtp }), weights: opened.weights };
  };
  const one = requests.map((request) => [request]);
  const plain = await drafting(open, one, { speculation: false });
  for (const asked of [one, [requests]]) {
    const { answers } = await drafting(open, asked, headAlone);
    expect(answers.map(said)).toEqual(plain.answers.map(said));
    const drafted = answers.map(({ finish: { draftTokens } }) => draftTokens?.rejected ?? 0);
    expect(Math.max(...drafted)).toBeGreaterThan(0);
  }
});
