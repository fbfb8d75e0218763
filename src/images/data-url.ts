// Pictures that come in base64, alone or as a `data:` URL.

import { PictureError } from './picture.ts';

/** Of what `data:` may be followed by: a media type and its parameters. */
const HEAD = /^data:[^,]{0,200}?(;base64)?,/i;

export function isDataUrl(url: string): boolean {
  return /^data:/i.test(url);
}

/** Longer texts are refused before they are decoded. */
export function dataUrlBytes(url: string, maxBytes: number): Uint8Array {
  const head = HEAD.exec(url.slice(0, 256));
  if (head?.[1] === undefined) throw new PictureError('a data: URL of an image must be of base64');
  return base64Bytes(url.slice(head[0].length), maxBytes);
}

export function base64Bytes(text: string, maxBytes: number): Uint8Array {
  const bytes = Math.floor((text.length * 3) / 4);
  if (bytes > maxBytes + 2) {
    throw new PictureError(`the image has about ${bytes} bytes; ${maxBytes} are possible`);
  }
  // Node skips whatever is no base64; a file that is cut short or another one altogether would be decoded then.
  if (!/^[a-z0-9+/_-]*={0,2}\s*$/i.test(text)) {
    const compact = text.replace(/\s+/g, '');
    if (!/^[a-z0-9+/_-]*={0,2}$/i.test(compact)) throw new PictureError('the image is no base64');
    return Buffer.from(compact, 'base64');
  }
  return Buffer.from(text, 'base64');
}
