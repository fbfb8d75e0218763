// A map of blocks as runs: what has changed against what was told, and the whole.

/**
 * 0: holds no memory. 1: empty. 2: cached, held by nobody. 3: shared by several. 4 and above: held by the sequence of
 * seat `state - 4` alone.
 */
type BlockState = number;

/** So many blocks from the first on have this state now. */
export type BlockRun = readonly [first: number, count: number, state: BlockState];

/** Both maps are of one size. */
export function changedRuns(told: Int32Array, now: Int32Array): BlockRun[] {
  const runs: BlockRun[] = [];
  for (let block = 0; block < now.length; ) {
    const state = now[block] as number;
    const first = block;
    if (told[block++] === state) continue;
    while (block < now.length && now[block] === state && told[block] !== state) block += 1;
    runs.push([first, block - first, state]);
  }
  return runs;
}

export function applyRuns(map: Int32Array, runs: readonly BlockRun[]): void {
  for (const [first, count, state] of runs) map.fill(state, first, first + count);
}

export function wholeRuns(map: Int32Array): (readonly [count: number, state: BlockState])[] {
  const runs: (readonly [number, number])[] = [];
  for (let block = 0; block < map.length; ) {
    const state = map[block] as number;
    const first = block;
    while (block < map.length && map[block] === state) block += 1;
    runs.push([block - first, state]);
  }
  return runs;
}
