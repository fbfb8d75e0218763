// The NUMA nodes of a Linux machine, whose cores reach their own memory faster than that of other nodes, and on which of them each
// of several threads runs.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';

export interface NumaNode {
  /** As the system counts. */
  readonly number: number;
  /** Those that this process may be put on. */
  readonly cores: readonly number[];
}

/** Those with cores that this process may run on; none where the system does not say. `root`: replaceable in tests. */
export function numaNodes(root = '/'): NumaNode[] {
  const folder = join(root, 'sys/devices/system/node');
  const online = readText(join(folder, 'online'));
  const status = readText(join(root, 'proc/self/status'));
  if (online === undefined || status === undefined) return [];
  const allowed = new Set(parseList(/^Cpus_allowed_list:\s*(.*)$/m.exec(status)?.[1] ?? ''));
  return parseList(online)
    .map((number) => {
      const cores = parseList(readText(join(folder, `node${number}`, 'cpulist')) ?? '');
      return { number, cores: cores.filter((core) => allowed.has(core)) };
    })
    .filter(({ cores }) => cores.length > 0);
}

/**
 * The node of each thread: every prefix of the threads has its share on each node, because engines that share a machine use fewer
 * of theirs. Empty where there are not two nodes.
 */
export function threadNodes(threads: number, nodes: readonly NumaNode[]): NumaNode[] {
  if (nodes.length < 2) return [];
  const cores = nodes.reduce((sum, node) => sum + node.cores.length, 0);
  const given = nodes.map(() => 0);
  return Array.from({ length: threads }, (_, thread) => {
    const wanting = nodes.map((node, n) => ((thread + 1) * node.cores.length) / cores - (given[n] as number));
    const next = wanting.indexOf(Math.max(...wanting));
    given[next] = (given[next] as number) + 1;
    return nodes[next] as NumaNode;
  });
}

/** Such as `0-3,8`. */
function parseList(text: string): number[] {
  return text
    .trim()
    .split(',')
    .filter((part) => /^\d+(-\d+)?$/.test(part))
    .flatMap((part) => {
      const [first, last = first] = part.split('-').map(Number) as [number, number?];
      return Array.from({ length: Math.max(0, last - first + 1) }, (_, n) => first + n);
    });
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}
