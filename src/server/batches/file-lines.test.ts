import { describe, expect, it } from 'vitest';
import { fileLines } from './file-lines.ts';

async function read(bytes: Buffer, chunkBytes: number, most = 100) {
  const chunks = (async function* () {
    for (let at = 0; at < bytes.length; at += chunkBytes) yield bytes.subarray(at, at + chunkBytes);
  })();
  const lines: unknown[] = [];
  for await (const line of fileLines(chunks, most)) lines.push('text' in line ? line.text : line);
  return lines;
}

describe('the lines of a file', () => {
  it.each([1, 2, 3, 7, 1000])('are the same in chunks of %i bytes', async (chunkBytes) => {
    const text = 'first\n\nüber – 雪\r\nlast';
    expect(await read(Buffer.from(text), chunkBytes)).toEqual(['first', '', 'über – 雪\r', 'last']);
    expect(await read(Buffer.from(`${text}\n`), chunkBytes)).toEqual(['first', '', 'über – 雪\r', 'last']);
  });

  it('are reported where they are too long or no text, and those after them come', async () => {
    const bytes = Buffer.concat([Buffer.from(`${'x'.repeat(101)}\nok\n`), Buffer.from([0xff, 0x0a, 0x61])]);
    expect(await read(bytes, 10)).toEqual([
      { number: 1, problem: 'is longer than 100 bytes' },
      'ok',
      { number: 3, problem: 'is not UTF-8' },
      'a',
    ]);
  });
});
