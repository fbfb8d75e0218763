import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { hasTestdata, testdata } from '../../test/support/testdata.ts';
import type { Filter } from '../model/vision/preprocessing.ts';
import { decodePicture } from './decode.ts';
import type { Picture } from './picture.ts';
import { resize } from './resample.ts';

interface ResampleCase {
  readonly image: string;
  readonly size: readonly [number, number];
  readonly filter: Filter;
  readonly sha256: string;
}

const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

describe.skipIf(!hasTestdata)('resize', () => {
  it('gives the bytes that Pillow 12 gives, with every filter, larger and smaller', async () => {
    const { cases } = JSON.parse(readFileSync(testdata('vision', 'images', 'resample.json'), 'utf8')) as {
      cases: readonly ResampleCase[];
    };
    const pictures = new Map<string, Picture>();
    const wrong: string[] = [];
    for (const { image, size, filter, sha256: expected } of cases) {
      const picture =
        pictures.get(image) ?? (await decodePicture(readFileSync(testdata('vision', 'images', image))));
      pictures.set(image, picture);
      const [width, height] = size;
      const { rgb } = resize(picture, { width, height }, filter);
      if (sha256(rgb) !== expected) wrong.push(`${image} ${size} ${filter}`);
    }
    expect(cases).toHaveLength(54);
    expect(wrong).toEqual([]);
  });
});

describe('resize', () => {
  it('leaves an axis alone whose size stays', () => {
    const rgb = Uint8Array.from({ length: 2 * 3 * 3 }, (_, at) => (at * 37) % 256);
    expect(resize({ width: 2, height: 3, rgb }, { width: 2, height: 3 }, 'lanczos').rgb).toEqual(rgb);
  });

  it('keeps a picture of one colour as it is, whatever its size becomes', () => {
    const rgb = new Uint8Array(7 * 5 * 3).fill(201);
    for (const filter of ['bilinear', 'bicubic', 'lanczos'] as const) {
      for (const precision of ['pillow', 'torchvision'] as const) {
        const resized = resize({ width: 7, height: 5, rgb }, { width: 31, height: 2 }, filter, precision);
        expect(new Set(resized.rgb)).toEqual(new Set([201]));
      }
    }
  });
});
