// Damaged pictures of every format, as the server reads them: in threads, by the header first. Each gives views or is refused.

import { readFileSync } from 'node:fs';
import { deflateSync } from 'node:zlib';
import { afterAll, describe, expect, it } from 'vitest';
import { PictureError } from '../../src/images/picture.ts';
import { PictureWorkers } from '../../src/images/picture-workers.ts';
import { planViews } from '../../src/images/view-plan.ts';
import type { PreprocessingSpec } from '../../src/model/vision/preprocessing.ts';
import { png } from '../support/png-writer.ts';
import { hasTestdata, testdata } from '../support/testdata.ts';
import { cases } from '../support/thorough.ts';

const names = [
  'tiny-31x17.png',
  'alpha-160x120.png',
  'palette-120x90.gif',
  'animated-48x48.gif',
  'tall-64x500.webp',
  'exif6-333x187.jpg',
  'large-1024x768-progressive.jpg',
];

const preprocessing: PreprocessingSpec = {
  views: { kind: 'area', factor: 28, leastArea: 3136, mostArea: 100_352, frames: 1 },
  filter: 'bicubic',
  mean: [0, 0, 0],
  deviation: [1, 1, 1],
};

const limits = { maxBytes: 2 ** 20, maxPixels: 4_000_000 };
const MOST_GROWN_BYTES = 512 * 2 ** 20;

describe.skipIf(!hasTestdata)('damaged pictures', () => {
  const workers = new PictureWorkers();
  afterAll(() => workers.close());

  let seed = 11;
  const random = (below: number): number => {
    seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31;
    return Math.floor((seed / 2 ** 31) * below);
  };

  /** Bytes changed, cut short, repeated, or with the head of another file. */
  function damaged(files: readonly Buffer[], round: number): Buffer {
    const file = Buffer.from(files[round % files.length] as Buffer);
    switch (random(4)) {
      case 0:
        for (let count = 0; count < 1 + random(8); count++)
          file[random(Math.min(file.length, 200))] = random(256);
        return file;
      case 1:
        return file.subarray(0, random(file.length));
      case 2: {
        const at = random(file.length);
        return Buffer.concat([file.subarray(0, at), file.subarray(random(file.length))]);
      }
      default: {
        const other = files[random(files.length)] as Buffer;
        return Buffer.concat([other.subarray(0, 4 + random(60)), file.subarray(random(60))]);
      }
    }
  }

  async function outcome(file: Uint8Array): Promise<'read' | string> {
    try {
      const measured = await workers.measure(file, limits);
      const plan = planViews(preprocessing.views, measured.size);
      const [view] = await workers.views(measured, preprocessing, plan);
      expect(view?.rgb.length).toBe(3 * (view?.width ?? 0) * (view?.height ?? 0));
      return 'read';
    } catch (error) {
      if (!(error instanceof PictureError)) throw error;
      expect(error.message).toMatch(/^the image /);
      return error.message;
    }
  }

  it('give views or a refusal, 2,000 times, in bounded memory', { timeout: 600_000 }, async () => {
    const files = names.map((name) => readFileSync(testdata('vision', 'images', name)));
    const before = process.memoryUsage().rss;
    let refused = 0;
    let read = 0;
    const count = cases(2000, 0.2);
    for (let round = 0; round < count; round++) {
      if ((await outcome(damaged(files, round))) === 'read') read++;
      else refused++;
    }
    expect(refused + read).toBe(count);
    expect(Math.min(refused, read)).toBeGreaterThan(count / 20);
    expect(process.memoryUsage().rss - before).toBeLessThan(MOST_GROWN_BYTES);
  });

  /** The scan that ends a progressive JPEG, many times over. */
  function scans(file: Buffer, times: number): Buffer {
    const last = file.lastIndexOf(Buffer.from([0xff, 0xda]));
    const end = file.length - 2;
    const again = Array.from({ length: times }, () => file.subarray(last, end));
    return Buffer.concat([file.subarray(0, last), ...again, file.subarray(end)]);
  }

  function canvas(width: number, height: number): Buffer {
    const file = Buffer.from(readFileSync(testdata('vision', 'images', 'animated-48x48.gif')));
    file.writeUInt16LE(width, 6);
    file.writeUInt16LE(height, 8);
    return file;
  }

  it('take no memory for what they claim or inflate to beyond their pixels', async () => {
    const zeros = Buffer.alloc(MOST_GROWN_BYTES / 2);
    const inflating = Buffer.concat([Buffer.from('a\0\0', 'latin1'), deflateSync(zeros)]);
    const small = { width: 8, height: 8 };
    const rows = Buffer.alloc(8 * (1 + 8 * 3));
    const bit = { width: 1999, height: 1999, depth: 1, colour: 0 };
    const bombs: readonly (readonly [Uint8Array, RegExp])[] = [
      [png(bit, Buffer.alloc(1999 * (1 + 250))), /^read$/],
      [png({ ...bit, width: 2001 }, Buffer.alloc(1999 * (1 + 251))), /^read$/],
      [png({ ...bit, height: 2010 }, Buffer.alloc(1)), /2010 pixels; 4000000 in all are possible/],
      [png(small, rows, [['zTXt', inflating]]), /^read$/],
      [png(small, rows, [['iCCP', inflating]]), /^read$/],
      [png({ ...small, level: 6 }, zeros), /^read$/],
      [canvas(65_535, 65_535), /^read$|in all are possible/],
      [
        scans(readFileSync(testdata('vision', 'images', 'large-1024x768-progressive.jpg')), 100),
        /cannot be decoded/,
      ],
    ];
    const before = process.memoryUsage().rss;
    for (const [at, [file, expected]] of bombs.entries()) {
      expect(await outcome(file), `${at}`).toMatch(expected);
    }
    expect(process.memoryUsage().rss - before).toBeLessThan(zeros.length / 2);
  });
});
