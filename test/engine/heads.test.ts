// Answers are the same with a head that drafts and without, of each family that has MTP heads and of each form of EAGLE-3 heads:
// alone and together, greedy and sampled. The models follow a formula: what their heads draft is seldom right.

import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { buildSpec } from '../../src/model/build-spec.ts';
import { openSpec } from '../../src/model/open-spec.ts';
import { drafting, headAlone, type OpenWithHead, said } from '../support/drafting-run.ts';
import { eagle3Models, writeEagle3 } from '../support/eagle3-folders.ts';
import type { TestRequest } from '../support/engine-requests.ts';
import { asFolder, type FormulaModel } from '../support/formula-model.ts';
import { randomTokens } from '../support/tiny-model.ts';

const VOCABULARY = 40;

const mtpModels: Readonly<Record<string, FormulaModel>> = JSON.parse(
  readFileSync(new URL('../golden/mtp.json', import.meta.url), 'utf8'),
);

/** The others are known as GGUF files alone. */
const inFolders = Object.entries(mtpModels).filter(([name]) => !name.includes('attention alone'));

const requests = Array.from(
  { length: 6 },
  (_, n): TestRequest => ({
    prompt: randomTokens(1 + 11 * n, VOCABULARY, n),
    sampling: { temperature: n % 2, seed: n, maxTokens: 50, logprobs: 0 },
  }),
);

/** So that drafts are computed which are unlikely. */
const freeRows = [1, 64].map((rows) => ({ rows, ms: 1 }));

async function expectSame(open: OpenWithHead): Promise<void> {
  const each = requests.map((request) => [request]);
  const plain = await drafting(open, each, { speculation: false });
  for (const asked of [each, [requests]]) {
    const { answers } = await drafting(open, asked, { ...headAlone, rowTimes: freeRows });
    expect(answers.map(said)).toEqual(plain.answers.map(said));
    const rejected = answers.map(({ finish: { draftTokens } }) => draftTokens?.rejected ?? 0);
    expect(Math.max(...rejected)).toBeGreaterThan(0);
  }
}

it.each(inFolders)('answers are those without the MTP head of %s', (_, model) =>
  expectSame((mtp) => {
    const opened = asFolder(model);
    return { spec: buildSpec(opened, { mtp }), weights: opened.weights };
  }),
);

it.each(Object.entries(eagle3Models))('answers are those without an EAGLE-3 head %s', async (_, model) => {
  const folder = mkdtempSync(join(tmpdir(), 'chairlift-'));
  const paths = writeEagle3(folder, model);
  await expectSame((head) => openSpec(paths.model, head ? { eagle3Path: paths.head } : {}));
  rmSync(folder, { recursive: true, force: true });
});
