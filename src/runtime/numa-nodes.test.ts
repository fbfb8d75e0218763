import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { numaNodes, threadNodes } from './numa-nodes.ts';

const folders: string[] = [];
afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

/** A tree of files as Linux has it. */
function tree(files: Readonly<Record<string, string>>): string {
  const root = mkdtempSync(join(tmpdir(), 'chairlift-nodes-'));
  folders.push(root);
  for (const [path, text] of Object.entries(files)) {
    const file = join(root, path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
  }
  return root;
}

const node = (number: number) => `sys/devices/system/node/node${number}/cpulist`;
const allowed = (list: string) => ({
  'proc/self/status': `Name:\tnode\nCpus_allowed:\tff\nCpus_allowed_list:\t${list}\n`,
});

describe('NUMA nodes', () => {
  it('are those that the system lists, with their cores', () => {
    const root = tree({
      'sys/devices/system/node/online': '0-1\n',
      [node(0)]: '0-3,8-11\n',
      [node(1)]: '4-7,12-15\n',
      ...allowed('0-15'),
    });
    expect(numaNodes(root)).toEqual([
      { number: 0, cores: [0, 1, 2, 3, 8, 9, 10, 11] },
      { number: 1, cores: [4, 5, 6, 7, 12, 13, 14, 15] },
    ]);
  });

  it('have the cores alone that this process may run on, and are left out without any', () => {
    const files = {
      'sys/devices/system/node/online': '0,2-3\n',
      [node(0)]: '0-3\n',
      // Memory without cores.
      [node(2)]: '\n',
      [node(3)]: '4-7\n',
    };
    expect(numaNodes(tree({ ...files, ...allowed('2-3,6') }))).toEqual([
      { number: 0, cores: [2, 3] },
      { number: 3, cores: [6] },
    ]);
    expect(numaNodes(tree({ ...files, ...allowed('0-1') }))).toEqual([{ number: 0, cores: [0, 1] }]);
  });

  it('are none where the system does not list them', () => {
    expect(numaNodes(tree({}))).toEqual([]);
    expect(numaNodes(tree({ 'sys/devices/system/node/online': '0-1\n' }))).toEqual([]);
    expect(numaNodes(tree({ 'sys/devices/system/node/online': 'nonsense', ...allowed('0-3') }))).toEqual([]);
  });
});

describe('the nodes of threads', () => {
  const first = { number: 0, cores: [0, 1, 2, 3] };
  const second = { number: 1, cores: [4, 5, 6, 7] };
  const small = { number: 2, cores: [8, 9] };
  const numbers = (threads: number, nodes: Parameters<typeof threadNodes>[1]) =>
    threadNodes(threads, nodes).map(({ number }) => number);

  it('take turns, so that any number of them is spread evenly', () => {
    expect(numbers(8, [first, second])).toEqual([0, 1, 0, 1, 0, 1, 0, 1]);
  });

  it('have as many threads as they have cores', () => {
    const all = numbers(10, [first, second, small]);
    const count = (number: number) => all.filter((one) => one === number).length;
    expect([count(0), count(1), count(2)]).toEqual([4, 4, 2]);
    expect(all.slice(0, 5).filter((one) => one === 2)).toHaveLength(1);
  });

  it('are none where all cores share one memory', () => {
    expect(threadNodes(8, [first])).toEqual([]);
    expect(threadNodes(8, [])).toEqual([]);
  });
});
