// Splits a file into lines while it is read. A line that is too long is reported without being kept in memory.

import { Buffer } from 'node:buffer';

const NEWLINE = 0x0a;

export type FileLine =
  | { readonly number: number; readonly text: string }
  | { readonly number: number; readonly problem: string };

export async function* fileLines(
  chunks: AsyncIterable<Buffer>,
  maxLineBytes: number,
): AsyncGenerator<FileLine> {
  const decoder = new TextDecoder('utf-8', { fatal: true });
  let number = 0;
  let pending: Buffer[] = [];
  let pendingBytes = 0;
  const keep = (piece: Buffer) => {
    pendingBytes += piece.length;
    if (pendingBytes <= maxLineBytes) pending.push(piece);
    else pending = [];
  };
  const end = (): FileLine => {
    const bytes = Buffer.concat(pending);
    const tooLong = pendingBytes > maxLineBytes;
    pending = [];
    pendingBytes = 0;
    number++;
    if (tooLong) return { number, problem: `is longer than ${maxLineBytes} bytes` };
    try {
      return { number, text: decoder.decode(bytes) };
    } catch {
      return { number, problem: 'is not UTF-8' };
    }
  };
  for await (const chunk of chunks) {
    let from = 0;
    for (let at = chunk.indexOf(NEWLINE); at >= 0; at = chunk.indexOf(NEWLINE, from)) {
      keep(chunk.subarray(from, at));
      yield end();
      from = at + 1;
    }
    keep(chunk.subarray(from));
  }
  if (pendingBytes > 0) yield end();
}
