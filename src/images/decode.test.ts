import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { png } from '../../test/support/png-writer.ts';
import { hasTestdata, testdata } from '../../test/support/testdata.ts';
import { cases } from '../../test/support/thorough.ts';
import { decodePicture } from './decode.ts';
import { PictureError } from './picture.ts';

const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

interface Decoded {
  readonly size: readonly [number, number];
  readonly rgbSha256: string;
}

describe.skipIf(!hasTestdata)('decodePicture', () => {
  it('gives the pixels that Pillow gives: first frame, turned, transparency over white', async () => {
    const index = JSON.parse(readFileSync(testdata('vision', 'images', 'index.json'), 'utf8')) as {
      images: Readonly<Record<string, Decoded>>;
    };
    const wrong: string[] = [];
    for (const [name, { size, rgbSha256 }] of Object.entries(index.images)) {
      const { width, height, rgb } = await decodePicture(readFileSync(testdata('vision', 'images', name)));
      if (width !== size[0] || height !== size[1] || sha256(rgb) !== rgbSha256) wrong.push(name);
    }
    expect(Object.keys(index.images).length).toBeGreaterThan(9);
    expect(wrong).toEqual([]);
  });
});

describe.skipIf(!hasTestdata)('decodePicture', () => {
  it('gives pixels or a refusal for files whose bytes are changed at random', async () => {
    let seed = 7;
    const random = (below: number): number => {
      seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31;
      return Math.floor((seed / 2 ** 31) * below);
    };
    const names = ['tiny-31x17.png', 'animated-48x48.gif', 'tall-64x500.webp', 'exif6-333x187.jpg'];
    for (let round = 0; round < cases(400, 0.2); round++) {
      const file = Buffer.from(readFileSync(testdata('vision', 'images', names[round % 4] as string)));
      for (let byte = 0; byte < 4; byte++) file[random(round % 3 === 0 ? 100 : file.length)] = random(256);
      const decoded = await decodePicture(file).catch((error: unknown) => error);
      if (decoded instanceof PictureError) continue;
      expect(decoded).toMatchObject({ rgb: expect.any(Uint8Array) });
    }
  });
});

describe('decodePicture', () => {
  it('refuses a picture by the size in its header, however few bytes it has', async () => {
    await expect(decodePicture(png({ width: 60_000, height: 60_000 }, new Uint8Array(0)))).rejects.toThrow(
      /60000 × 60000 pixels/,
    );
  });

  it('refuses a file that is too large, and one of another format', async () => {
    const limits = { maxBytes: 10, maxPixels: 100 };
    await expect(decodePicture(new Uint8Array(11), limits)).rejects.toThrow(
      'the image has 11 bytes; 10 are possible',
    );
    const svg = Buffer.from('<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"/>');
    await expect(decodePicture(svg)).rejects.toThrow('no PNG, JPEG, WebP or GIF');
  });

  it('refuses a picture that is cut short', async () => {
    const whole = png({ width: 64, height: 64, level: 0 }, new Uint8Array(64 * (64 * 3 + 1)).fill(7));
    await expect(decodePicture(whole.subarray(0, whole.length - 30))).rejects.toThrow('cannot be decoded');
  });
});
