// Models without their weights read and write text like the models themselves.

import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { hasTestdata, testdata } from '../../test/support/testdata.ts';
import { openLocalModel } from '../pool/local-model.ts';
import { embeddedModelPath } from '../pool/model-homes.ts';
import {
  type DescribedModel,
  describeTextSide,
  fetchTextSide,
  PART_BYTES,
  readPart,
  type TextPaths,
} from './text-side.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'chairlift-text-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

async function copy(path: string): Promise<string> {
  return (await copied({ path })).path;
}

function copied(model: DescribedModel): Promise<TextPaths> {
  return fetchTextSide(folder, describeTextSide(model), async (file, offset, bytes) => {
    const content = readPart(model, file, offset, bytes);
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
    const own = await copy(embeddedModelPath());
    expect(textOf(own)).toEqual(textOf(embeddedModelPath()));
    expect(statSync(own).size).toBe(statSync(embeddedModelPath()).size);
    expect(statSync(own).blocks * 512).toBeLessThan(statSync(own).size / 10);
  });

  it.skipIf(!hasTestdata).each(shared())('reads the same text as %s', async (path) => {
    expect(textOf(await copy(path))).toEqual(textOf(path));
  });

  it.skipIf(!hasTestdata)(
    'has what a GGUF sees with, wherever that lies, only where it is wanted',
    async () => {
      const path = testdata('vision', 'qwen3_vl', 'model.gguf');
      const projectorPath = join(folder, 'elsewhere', 'eyes.gguf');
      mkdirSync(join(folder, 'elsewhere'));
      copyFileSync(testdata('vision', 'qwen3_vl', 'mmproj.gguf'), projectorPath);
      const settings = 'preprocessor_config.json';
      copyFileSync(testdata('vision', 'qwen3_vl', settings), join(folder, 'elsewhere', settings));
      const visionOf = (paths: TextPaths) => {
        const { spec, close } = openLocalModel(paths.path, { ...paths, images: 'if-possible' });
        close();
        return spec.vision;
      };
      const text = await copied({ path });
      expect(text.projectorPath).toBeUndefined();
      expect(visionOf(text)).toBeUndefined();
      for (const model of [
        { path, sees: true },
        { path, sees: true, projectorPath },
      ]) {
        const paths = await copied(model);
        expect(paths.projectorPath?.startsWith(join(folder, 'tower'))).toBe(true);
        expect(visionOf(paths)).toEqual(visionOf(model));
      }
    },
  );

  it('gives away no file but its own, and no more at once than a message carries', () => {
    const path = embeddedModelPath();
    for (const file of ['../package.json', '/etc/passwd', 'other.gguf']) {
      expect(readPart({ path }, file, 0, 10)).toBeUndefined();
    }
    const [own] = describeTextSide({ path }).files;
    expect(readPart({ path }, own?.name ?? '', 0, PART_BYTES + 1)).toBeUndefined();
  });

  it('is written nowhere but into its folder', async () => {
    for (const name of ['../outside', '/tmp/outside', 'a/../../outside']) {
      const side = { opening: '', files: [{ name, size: 1, spans: [] }] };
      await expect(fetchTextSide(join(folder, 'in'), side, async () => new Uint8Array(1))).rejects.toThrow();
      expect(existsSync(join(folder, 'outside'))).toBe(false);
    }
  });
});
