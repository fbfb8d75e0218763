// Decodes PNG, JPEG, WebP and GIF files with the optional package sharp: the first frame, turned as its EXIF orientation says,
// transparency over white. What is too large is refused by its header, before any pixel is decoded.

import type { Metadata } from 'sharp';
import { messageOf } from '../runtime/error-message.ts';
import { type Picture, PictureError } from './picture.ts';
import type { Size } from './resample.ts';

export interface PictureLimits {
  readonly maxBytes: number;
  readonly maxPixels: number;
}

export const defaultPictureLimits: PictureLimits = { maxBytes: 20 * 2 ** 20, maxPixels: 50_000_000 };

const DECODE_SECONDS = 20;

type Sharp = typeof import('sharp').default;

/** The size that a picture will have once it is decoded and turned, by its header alone. */
export async function measurePicture(
  file: Uint8Array,
  { maxBytes, maxPixels }: PictureLimits = defaultPictureLimits,
): Promise<Size> {
  checkFile(file, maxBytes);
  const sharp = await loadSharp();
  return decoding(async () => sizeOf(await sharp(file, { limitInputPixels: false }).metadata(), maxPixels));
}

export async function decodePicture(
  file: Uint8Array,
  { maxBytes, maxPixels }: PictureLimits = defaultPictureLimits,
): Promise<Picture> {
  checkFile(file, maxBytes);
  const sharp = await loadSharp();
  return decoding(async () => {
    sizeOf(await sharp(file, { limitInputPixels: false }).metadata(), maxPixels);
    const { data, info } = await sharp(file, {
      failOn: 'error',
      ignoreIcc: true,
      limitInputPixels: maxPixels,
    })
      .autoOrient()
      .toColourspace('srgb')
      .timeout({ seconds: DECODE_SECONDS })
      .raw({ depth: 'uchar' })
      .toBuffer({ resolveWithObject: true });
    const { width, height, channels } = info;
    return { width, height, rgb: toRgb(data, channels) };
  });
}

export async function canDecodePictures(): Promise<boolean> {
  return loadSharp().then(
    () => true,
    () => false,
  );
}

function checkFile(file: Uint8Array, maxBytes: number): void {
  if (file.length > maxBytes) {
    throw new PictureError(`the image has ${file.length} bytes; ${maxBytes} are possible`);
  }
  // By its first bytes: the decoder would read much else, such as SVG, that can ask for other files.
  if (!isKnownFormat(file)) throw new PictureError('the image is no PNG, JPEG, WebP or GIF file');
}

async function decoding<Result>(decode: () => Promise<Result>): Promise<Result> {
  try {
    return await decode();
  } catch (error) {
    if (error instanceof PictureError) throw error;
    throw new PictureError(`the image cannot be decoded: ${firstLine(messageOf(error))}`);
  }
}

async function loadSharp(): Promise<Sharp> {
  try {
    return (await import('sharp')).default;
  } catch {
    throw new PictureError('images need the package sharp, which is not installed here: npm install sharp');
  }
}

function isKnownFormat(file: Uint8Array): boolean {
  const text = (from: number, to: number) => Buffer.from(file.subarray(from, to)).toString('latin1');
  return (
    text(0, 8) === '\x89PNG\r\n\x1a\n' ||
    text(0, 3) === '\xff\xd8\xff' ||
    text(0, 4) === 'GIF8' ||
    (text(0, 4) === 'RIFF' && text(8, 12) === 'WEBP')
  );
}

function sizeOf({ autoOrient: { width, height } }: Metadata, maxPixels: number): Size {
  if (width * height <= maxPixels) return { width, height };
  throw new PictureError(`the image has ${width} × ${height} pixels; ${maxPixels} in all are possible`);
}

/** From one (grey) to four bytes a pixel. */
function toRgb(data: Uint8Array, channels: number): Uint8Array {
  if (channels === 3) return data;
  const hasAlpha = channels === 2 || channels === 4;
  const colours = hasAlpha ? channels - 1 : channels;
  const rgb = new Uint8Array((data.length / channels) * 3);
  for (let pixel = 0; pixel < rgb.length / 3; pixel++) {
    const at = pixel * channels;
    const alpha = hasAlpha ? (data[at + colours] as number) : 255;
    for (let channel = 0; channel < 3; channel++) {
      const colour = data[at + (colours === 1 ? 0 : channel)] as number;
      rgb[pixel * 3 + channel] = Math.round((colour * alpha + 255 * (255 - alpha)) / 255);
    }
  }
  return rgb;
}

function firstLine(text: string): string {
  return text.split('\n')[0] ?? '';
}
