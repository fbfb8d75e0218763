// Writes PNG files as a test wants them, sound or not.

import { deflateSync } from 'node:zlib';

interface PngHeader {
  readonly width: number;
  readonly height: number;
  /** Bits of a channel. Default 8. */
  readonly depth?: number;
  /** 0 is grey, 2 colours, 6 with transparency. Default 2. */
  readonly colour?: number;
  /** How well rows are compressed. Default 9. */
  readonly level?: number;
}

/** `rows` begin with the byte of their filter; `others` come before them. */
export function png(
  { width, height, depth = 8, colour = 2, level = 9 }: PngHeader,
  rows: Uint8Array,
  others: readonly (readonly [name: string, data: Uint8Array])[] = [],
): Buffer {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([depth, colour], 8);
  const chunks = [
    ['IHDR', header],
    ...others,
    ['IDAT', deflateSync(rows, { level })],
    ['IEND', Buffer.alloc(0)],
  ] as const;
  return Buffer.concat([
    Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'),
    ...chunks.map(([name, data]) => chunk(name, data)),
  ]);
}

function chunk(name: string, data: Uint8Array): Buffer {
  const named = Buffer.concat([Buffer.from(name, 'latin1'), data]);
  const framed = Buffer.alloc(named.length + 8);
  framed.writeUInt32BE(data.length, 0);
  framed.set(named, 4);
  framed.writeUInt32BE(crc32(named), named.length + 4);
  return framed;
}

/** Node 20 has none of its own from the start. */
function crc32(bytes: Uint8Array): number {
  let crc = 0xffffffff;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1;
  }
  return (crc ^ 0xffffffff) >>> 0;
}
