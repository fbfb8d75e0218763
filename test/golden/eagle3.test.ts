// EAGLE-3 heads, from folders to logits, against their formula in PyTorch: with a vocabulary of their own or the model's, with the
// layers that a file names or the usual ones, as their authors and as speculators write them.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Backend, type CreateBackend, KEPT_STATES } from '../../src/compute/backend.ts';
import { buildBatch } from '../../src/compute/batch.ts';
import { sizesOf, weightBytes } from '../../src/compute/memory.ts';
import { createReferenceBackend } from '../../src/compute/reference/backend.ts';
import { openSpec } from '../../src/model/open-spec.ts';
import { isEagle3Folder } from '../../src/weights/eagle3-files.ts';
import { type Eagle3Model, type Eagle3Paths, eagle3Models, writeEagle3 } from '../support/eagle3-folders.ts';
import {
  answers,
  compute,
  cpu,
  difference,
  placed,
  predict,
  TOLERANCE,
  withHead,
} from '../support/head-answers.ts';
import { addon } from '../support/native.ts';

describe.each(Object.entries(eagle3Models))('an EAGLE-3 head %s', (_, model) => {
  let folder: string;
  let paths: Eagle3Paths;

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'chairlift-'));
    paths = writeEagle3(folder, model);
  });

  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  async function withBackend<T>(create: CreateBackend, use: (backend: Backend) => Promise<T>): Promise<T> {
    const opened = openSpec(paths.model, { eagle3Path: paths.head });
    try {
      return await withHead(opened, create, use);
    } finally {
      opened.weights.close();
    }
  }

  it.each([
    ['in TypeScript', createReferenceBackend, TOLERANCE.typescript],
    ['in C++', cpu(), TOLERANCE.native],
  ] as const)(
    'gives the logits of its formula, and goes on from its own states, %s',
    async (_, create, tolerance) => {
      const given = await withBackend(create, (backend) => answers(backend, model, 1));
      expect(difference(ofHead(given, model), model)).toBeLessThan(tolerance);
    },
  );

  it.each(addon().kernels())(
    'has the same bits however a text is cut, with the kernels of %s',
    async (isa) => {
      const ask = (piece: number, kernels?: string) =>
        withBackend(cpu(kernels), (backend) => answers(backend, model, piece));
      const alone = await ask(1);
      expect(await ask(1, isa)).toEqual(alone);
      const chained = alone.slice(-model.chained.length);
      for (const piece of [7, 33, 66])
        expect((await ask(piece, isa)).slice(-chained.length)).toEqual(chained);
    },
  );

  it('has the same bits among others, and after drafts that were rejected', async () => {
    const { ids, computed } = model;
    const next = ids[computed] as number;
    await withBackend(cpu(), async (backend) => {
      await compute(backend, ids.slice(0, computed), 0);
      const alone = await predict(backend, placed([next], computed));
      const other = { tokens: [3, 1, 4, 1, 5, 9], start: 0, blocks: [0], wantLogits: 'none' } as const;
      await backend.step(buildBatch([other]));
      const both = await predict(backend, { ...other, tokens: [2], start: 6 }, placed([next], computed));
      expect(both.slice(both.length / 2)).toEqual(alone);
      const drafts = Array.from({ length: KEPT_STATES - 1 }, (_, i) => (5 * i + 1) % 40);
      await compute(backend, [ids[computed - 1] as number, ...drafts], computed - 1);
      expect(await predict(backend, placed([next], computed))).toEqual(alone);
    });
  });

  it('is known by its folder, counts in memory, and tells its blocks from those of others', async () => {
    expect(isEagle3Folder(paths.head)).toBe(true);
    expect(isEagle3Folder(paths.model)).toBe(false);
    expect(() => openSpec(paths.head)).toThrow(/EAGLE-3 head.*Give its model, and the head as `draft`/);
    const [plain, whole] = [openSpec(paths.model), openSpec(paths.model, { eagle3Path: paths.head })];
    const { matrixBytes, kvBlockBytes } = sizesOf('cpu');
    const bytes = (opened: typeof plain) => weightBytes(opened.spec, opened.weights, matrixBytes);
    expect(bytes(whole)).toBeGreaterThan(bytes(plain) + 4 * 32 * 96);
    expect(kvBlockBytes(whole.spec, 'f16')).toBeGreaterThanOrEqual(kvBlockBytes(plain.spec, 'f16'));
    expect(await withBackend(cpu(), async ({ content }) => content?.format)).toMatch(
      /, eagle3 [0-9a-f]{16}$/,
    );
    for (const { weights } of [plain, whole]) weights.close();
  });
});

/** Logits of the head's own tokens; all others can never be drafted. */
function ofHead(rows: readonly Float32Array[], { offsets }: Eagle3Model): readonly Float32Array[] {
  if (offsets === null) return rows;
  const tokens = offsets.map((offset, row) => row + offset);
  return rows.map((row) => {
    const others = [...row.keys()].filter((token) => !tokens.includes(token));
    expect(others.every((token) => row[token] === Number.NEGATIVE_INFINITY)).toBe(true);
    return Float32Array.from(tokens, (token) => row[token] as number);
  });
}

describe('an EAGLE-3 head that was made for another model', () => {
  const [model] = Object.values(eagle3Models) as [Eagle3Model];
  const refusals: readonly (readonly [string, Partial<Eagle3Model['head']>, RegExp])[] = [
    ['of other states', { hidden_size: 64 }, /hidden_size: is 64, not 32\..*another model/],
    [
      'of other states, as speculators say it',
      { target_hidden_size: 64 },
      /target_hidden_size: is 64, not 32/,
    ],
    ['of another vocabulary', { vocab_size: 41 }, /vocab_size: is 41, not 40/],
    ['of several layers', { num_hidden_layers: 2 }, /num_hidden_layers: is 2, not 1/],
    [
      'of more layers than there are',
      { eagle_config: { eagle_aux_hidden_state_layer_ids: [1, 2, 7] } },
      /eagle_aux_hidden_state_layer_ids: is \[1,2,7\], of a model of 7 layers/,
    ],
  ];

  it.each(refusals)('is refused with what differs: %s', (_, fields, message) => {
    const folder = mkdtempSync(join(tmpdir(), 'chairlift-'));
    const paths = writeEagle3(folder, { ...model, head: { ...model.head, ...fields } });
    expect(() => openSpec(paths.model, { eagle3Path: paths.head })).toThrow(message);
    rmSync(folder, { recursive: true, force: true });
  });

  it('or whose tokens are not those of the model, that is incomplete or holds more, is refused', () => {
    const folder = mkdtempSync(join(tmpdir(), 'chairlift-'));
    const { 'norm.weight': _, ...headTensors } = model.headTensors;
    const broken: readonly (readonly [Eagle3Model, RegExp])[] = [
      [{ ...model, offsets: model.offsets?.map((one) => one + 30) ?? null }, /d2t: does not name a token/],
      [{ ...model, offsets: model.offsets?.slice(1) ?? null }, /d2t: does not name a token.*24 rows/],
      [{ ...model, headTensors }, /model\.eagle3\.norm\.weight/],
      [
        { ...model, headTensors: { ...model.headTensors, 'input_norm.weight': [96] } },
        /input_norm\.weight: is a tensor that no known form/,
      ],
    ];
    for (const [index, [one, message]] of broken.entries()) {
      const own = mkdtempSync(join(folder, `${index}-`));
      const paths = writeEagle3(own, one);
      expect(() => openSpec(paths.model, { eagle3Path: paths.head })).toThrow(message);
    }
    rmSync(folder, { recursive: true, force: true });
  });

  it('or that lies in no safetensors is refused with what to do', () => {
    const folder = mkdtempSync(join(tmpdir(), 'chairlift-'));
    const paths = writeEagle3(folder, model);
    rmSync(join(paths.head, 'model.safetensors'));
    writeFileSync(join(paths.head, 'pytorch_model.bin'), readFileSync(join(paths.head, 'config.json')));
    expect(() => openSpec(paths.model, { eagle3Path: paths.head })).toThrow(/Save the head as safetensors/);
    rmSync(folder, { recursive: true, force: true });
  });
});
