// What a person sees while a checkout is set up.

import { describe, expect, it } from 'vitest';
import { type Pieces, Progress } from '../scripts/progress.js';

async function shown(isTTY: boolean, work: (pieces: Pieces) => Promise<void>): Promise<string> {
  const written: string[] = [];
  const stream = { isTTY, columns: 200, write: (text: string) => void written.push(text) };
  await new Progress('set-up', stream).during('compiling C++', work);
  return written.join('');
}

describe('the progress of a build', () => {
  it('is one line on a terminal, which says what is done and how far, and goes away', async () => {
    const text = await shown(true, async (pieces) => {
      pieces.add(3);
      pieces.done();
      pieces.add(2);
    });
    expect(text).toContain('\r\x1b[Kset-up: 0 s: compiling C++ (1 of 5 files)');
    expect(text).not.toContain('\n');
    expect(text.endsWith('\r\x1b[K')).toBe(true);
  });

  it('is a line for what begins elsewhere', async () => {
    expect(await shown(false, async (pieces) => pieces.add(3))).toBe('set-up: compiling C++\n');
  });

  it('is silent where nothing is to be done', async () => {
    expect(await shown(false, async (pieces) => pieces.add(0))).toBe('');
  });
});
