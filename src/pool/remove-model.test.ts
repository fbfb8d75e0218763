import { copyFileSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { embeddedModelPath } from '../../test/support/embedded-model.ts';
import { ModelCards } from './model-card.ts';
import { liesIn, removeModel } from './remove-model.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'chairlift-remove-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function put(...paths: string[]): void {
  for (const path of paths) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), 'x');
  }
}
const isThere = (path: string) => existsSync(join(folder, path));

describe('removing a model', () => {
  it('takes all parts of a GGUF and leaves its neighbours', async () => {
    put('a/b/m-00001-of-00002.gguf', 'a/b/m-00002-of-00002.gguf', 'a/b/n.gguf');
    await removeModel(folder, join(folder, 'a/b/m-00001-of-00002.gguf'));
    expect(['a/b/m-00001-of-00002.gguf', 'a/b/m-00002-of-00002.gguf', 'a/b/n.gguf'].map(isThere)).toEqual([
      false,
      false,
      true,
    ]);
  });

  it('takes what belongs to safetensors, and folders that are empty then', async () => {
    put('a/b/config.json', 'a/b/model.safetensors', 'a/b/tokenizer.json', 'a/c/notes.txt', 'd/config.json');
    await removeModel(folder, join(folder, 'a/b'));
    expect([isThere('a/b'), isThere('a/c/notes.txt')]).toEqual([false, true]);
    put('d/model.safetensors', 'd/notes.txt');
    await removeModel(folder, join(folder, 'd'));
    expect([isThere('d/notes.txt'), isThere('d/config.json')]).toEqual([true, false]);
    put('top.gguf');
    await removeModel(folder, join(folder, 'top.gguf'));
    expect(existsSync(folder)).toBe(true);
  });

  it('takes the steps of an embedding model along, where it lists any', async () => {
    put('e/config.json', 'e/model.safetensors', 'e/1_Pooling/config.json', 'e/2_Dense/model.safetensors');
    await removeModel(folder, join(folder, 'e'));
    expect(isThere('e/2_Dense/model.safetensors')).toBe(true);
    put('e/config.json', 'e/model.safetensors', 'e/modules.json');
    await removeModel(folder, join(folder, 'e'));
    expect(isThere('e')).toBe(false);
  });

  it('touches nothing outside of its folder', async () => {
    await expect(removeModel(folder, join(folder, '..', 'x.gguf'))).rejects.toThrow('is not in');
    await expect(removeModel(folder, folder)).rejects.toThrow('is not in');
    expect(liesIn('/models', '/models-too/x.gguf')).toBe(false);
  });
});

describe("a model's card", () => {
  it('is read once for as long as its files do not change', async () => {
    const path = join(folder, 'm.gguf');
    copyFileSync(embeddedModelPath, path);
    const cards = new ModelCards();
    const card = await cards.read(path);
    expect(card).toMatchObject({ format: 'gguf', quantization: 'Q8_0' });
    expect(card.metadata['general.architecture']).toBe(card.architecture);
    expect(card.metadata['tokenizer.ggml.tokens']).toBeNull();
    expect(await cards.read(path)).toBe(card);
    writeFileSync(path, 'no model');
    await expect(cards.read(path)).rejects.toThrow('GGUF');
  });
});
