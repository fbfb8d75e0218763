import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { runsOnMusl } from './c-library.ts';

it('tells musl by the loader that is in the process', () => {
  const folder = mkdtempSync(join(tmpdir(), 'chairlift-maps-'));
  try {
    const maps = join(folder, 'maps');
    writeFileSync(maps, '7f00-7f01 r-xp 00000000 fd:00 42   /lib/ld-musl-aarch64.so.1\n');
    expect(runsOnMusl(maps)).toBe(true);
    writeFileSync(maps, '7f00-7f01 r-xp 00000000 fd:00 42   /lib/x86_64-linux-gnu/libc.so.6\n');
    expect(runsOnMusl(maps)).toBe(false);
    expect(runsOnMusl(join(folder, 'absent'))).toBe(false);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
