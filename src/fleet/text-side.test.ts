// Models without their weights read and write text like the models themselves.

import { existsSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { hasTestdata, testdata } from '../../test/support/testdata.ts';
import { openLocalModel } from '../pool/local-model.ts';
import { embeddedModelPath } from '../pool/model-homes.ts';
import { describeTextSide, fetchTextSide, PART_BYTES, readPart } from './text-side.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'chairlift-text-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

function copy(path: string): Promise<string> {
  return fetchTextSide(folder, describeTextSide(path), async (file, offset, bytes) => {
    const content = readPart(path, file, offset, bytes);
    if (content === undefined) throw new Error(`${file} was refused`);
    return content;
  });
}

function textOf(path: string) {
  const { spec, tokenizer, template, pooling, sampling, close } = openLocalModel(path);
  close();
  const text = 'Hello, who are you? 12 345 äöü 😀';
  return {
    spec: JSON.parse(JSON.stringify(spec)),
    ids: [...tokenizer.encode(text)],
    ends: [...tokenizer.eosIds],
    template: template?.source,
    pooling,
    sampling,
  };
}

function shared(): string[] {
  if (!hasTestdata) return [];
  const families = readdirSync(testdata('families')).map((name) => testdata('families', name));
  const folders = families.filter((path) => existsSync(join(path, 'tokenizer.json')));
  const others = ['stories260K', 'tinystories-656k-bf16-sharded', 'tinystories-656k-mlx-4bit'].map((name) =>
    testdata(name),
  );
  return [...folders, ...others];
}

describe('a model without its weights', () => {
  it('is a small part of the embedded one, and reads the same text', async () => {
    const copied = await copy(embeddedModelPath());
    expect(textOf(copied)).toEqual(textOf(embeddedModelPath()));
    expect(statSync(copied).size).toBe(statSync(embeddedModelPath()).size);
    expect(statSync(copied).blocks * 512).toBeLessThan(statSync(copied).size / 10);
  });

  it.skipIf(!hasTestdata).each(shared())('reads the same text as %s', async (path) => {
    expect(textOf(await copy(path))).toEqual(textOf(path));
  });

  it('gives away no file but its own, and no more at once than a message carries', () => {
    const path = embeddedModelPath();
    for (const file of ['../package.json', '/etc/passwd', 'other.gguf']) {
      expect(readPart(path, file, 0, 10)).toBeUndefined();
    }
    const [own] = describeTextSide(path).files;
    expect(readPart(path, own?.name ?? '', 0, PART_BYTES + 1)).toBeUndefined();
  });

  it('is written nowhere but into its folder', async () => {
    for (const name of ['../outside', '/tmp/outside', 'a/../../outside']) {
      const side = { opening: '', files: [{ name, size: 1, spans: [] }] };
      await expect(fetchTextSide(join(folder, 'in'), side, async () => new Uint8Array(1))).rejects.toThrow();
      expect(existsSync(join(folder, 'outside'))).toBe(false);
    }
  });
});
