import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { droppedImages, withImages } from './image-arguments.ts';

const folder = mkdtempSync(join(tmpdir(), 'chairlift-images-'));
afterAll(() => rmSync(folder, { recursive: true }));
const plain = join(folder, 'a.png');
const spaced = join(folder, 'my photo.JPG');
for (const path of [plain, spaced]) writeFileSync(path, 'bytes');

describe('droppedImages', () => {
  it('finds paths of images that are there, quoted or escaped', () => {
    const escaped = spaced.replaceAll(' ', '\\ ');
    for (const line of [`What is ${plain} and '${spaced}'`, `What is ${plain} and ${escaped}`]) {
      const { text, paths } = droppedImages(line);
      expect(paths).toEqual([plain, spaced]);
      expect(text).toBe('What is  and');
    }
  });

  it('leaves all else as it was typed', () => {
    for (const line of ["it's about none.png", '"quoted" text', 'a \\ b', `${folder}`]) {
      expect(droppedImages(line)).toEqual({ text: line, paths: [] });
    }
  });
});

describe('withImages', () => {
  it('puts images before the text, and says which file is not there', () => {
    expect(withImages('What?', [plain])).toEqual([
      { type: 'image_url', image_url: { url: 'data:image/png;base64,Ynl0ZXM=' } },
      { type: 'text', text: 'What?' },
    ]);
    expect(withImages('What?', [])).toBe('What?');
    expect(() => withImages('What?', [join(folder, 'none.png')])).toThrow(/--image: .*none\.png: ENOENT/);
    expect(() => withImages('What?', [folder])).toThrow(/--image: .* is a folder/);
    expect(() => withImages('What?', ['https://example.com/a.png'])).toThrow(/is not fetched; give the path/);
  });
});
