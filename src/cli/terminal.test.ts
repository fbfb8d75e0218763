import { expect, it } from 'vitest';
import { progressBar } from './terminal.ts';

function shown(label: string, columns: number, ...shares: number[]): string {
  let text = '';
  const bar = progressBar(label, { isTTY: true, columns, write: (piece) => (text += piece) });
  for (const share of shares) bar.update(share, '1.2 GB of 4.5 GB');
  bar.end();
  return text;
}

it('draws a bar over itself, and removes it in the end', () => {
  const text = shown('pulling', 100, 0.5, 0.5, 1);
  expect(text.split('\r')).toEqual([
    '',
    `pulling [${'='.repeat(15)}${' '.repeat(15)}] 50% 1.2 GB of 4.5 GB\x1b[K`,
    `pulling [${'='.repeat(30)}] 100% 1.2 GB of 4.5 GB\x1b[K`,
    '\x1b[2K',
  ]);
});

it('never fills its line, where it would wrap', () => {
  for (const columns of [1, 10, 40, 60, 80, 200]) {
    const lines = shown('loading an-extremely-long-name-of-a-model-GGUF:Q4_K_M', columns, 0.1, 1).split('\r');
    for (const line of lines)
      expect(line.replace('\x1b[K', '').replace('\x1b[2K', '').length).toBeLessThan(Math.max(columns, 1));
  }
  expect(shown('loading an-extremely-long-name-of-a-model', 80, 1)).toContain(
    'loading an-extremely-lo… [===',
  );
});

it('writes nothing where no terminal is', () => {
  let text = '';
  const bar = progressBar('pulling', { write: (piece) => (text += piece) });
  bar.update(0.5);
  bar.end();
  expect(text).toBe('');
});
