// A fleet in simulated time, struck by faults for as long as CI has: what it promises holds, and a run can be had again.

import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, it, vi } from 'vitest';
import type { Summary } from './run.ts';

// Half a minute of a processor, however many others want it.
vi.setConfig({ testTimeout: 900_000 });

const root = fileURLToPath(new URL('../..', import.meta.url));

function simulate(...words: string[]): { readonly text: string; readonly summary: Summary } {
  const { stdout } = spawnSync(process.execPath, ['scripts/simulate-faults.js', ...words], {
    cwd: root,
    encoding: 'utf8',
  });
  const last = stdout.trimEnd().split('\n').at(-1) ?? '';
  if (!last.startsWith('{')) throw new Error(`ended without a summary: ${stdout}`);
  return { text: stdout, summary: JSON.parse(last) as Summary };
}

it('the same seed gives the same run, message by message, and another seed another', () => {
  const traceOf = (seed: number) =>
    /trace (\w+)/.exec(simulate('--seed', `${seed}`, '--episodes', '1').text)?.[1];
  const first = traceOf(3);
  expect(first).toMatch(/^\w{8}$/);
  expect(traceOf(3)).toBe(first);
  expect(traceOf(4)).not.toBe(first);
});

it('what it has found once stays mended', () => {
  const { text, summary } = simulate('--found');
  expect(summary.episodes).toBeGreaterThan(0);
  expect(summary.failures, text).toEqual([]);
});

it('nothing is wrong, late, charged twice or left over, whatever strikes', () => {
  const { text, summary } = simulate('--episodes', '8', '--seconds', '600', '--seed', '1');
  expect(summary.failures, text).toEqual([]);
  expect(summary.requests).toBeGreaterThan(100);
  expect(Object.keys(summary.faults).length).toBeGreaterThan(15);
});
