// `npm run bench -- block-store [MB] [folder]`: KV blocks on disk. How fast they are written and read (from the page cache, from the disk
// itself, by one thread and by two), how soon a store of them opens, and how much later this thread's event loop runs beside it. Reading
// is compared with reading the same files as they are, in the same run and in turns. Ends in one JSON line.

import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { closeSync, mkdtempSync, openSync, readdirSync, readSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setImmediate, setTimeout } from 'node:timers/promises';
import { median } from '#src/bench/statistics.ts';
import { BlockStore } from '#src/block-store/block-store.ts';
import { countFrom, print, report } from './harness.ts';

/** About a block of a small model, of a model of a billion parameters, and of a large one. */
const SIZES = [32 * 1024, 1024 * 1024, 8 * 1024 * 1024];
const ROUNDS = 3;
const IDLE_MS = 2000;
const WRITTEN_IN_TURN = 1024 * 1024;
const READ_BUFFER = 16 * 1024 * 1024;
const READ_AT_ONCE = 256 * 1024 * 1024;

const megabytes = countFrom(process.argv[2] ?? '500', 'megabytes');
const root = mkdtempSync(join(process.argv[3] ?? tmpdir(), 'block-store-'));

const keyOf = (name: string) => createHash('sha256').update(name).digest();
const keysOf = (count: number) => Array.from({ length: count }, (_, at) => keyOf(`block ${at}`));

function open(folder: string, readThreads = 1): Promise<BlockStore> {
  const model = { name: 'bench', identity: 'bench' };
  const warn = (message: string) => print(message);
  return BlockStore.open({ folder, model, sizeBytes: 64e9, readThreads, warn });
}

async function timed<T>(action: () => T | Promise<T>): Promise<readonly [seconds: number, result: T]> {
  const startMs = performance.now();
  const result = await action();
  return [(performance.now() - startMs) / 1000, result];
}

/** Of the processor, all threads together: what other programs leave of it says nothing of the store. */
async function processorSeconds(action: () => unknown): Promise<number> {
  const before = process.cpuUsage();
  await action();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1e6;
}

/** How late the event loop runs meanwhile. */
async function loopDelay(action: () => unknown): Promise<{ readonly p99: number; readonly max: number }> {
  const delays = monitorEventLoopDelay({ resolution: 1 });
  delays.enable();
  await action();
  delays.disable();
  return { p99: delays.percentile(99) / 1e6, max: delays.max / 1e6 };
}

/** As an engine under pressure does: some in a turn of the event loop, as much as is taken, and a little later again. */
async function writeAll(store: BlockStore, keys: readonly Uint8Array[], content: Uint8Array): Promise<void> {
  const inTurn = Math.max(1, Math.floor(WRITTEN_IN_TURN / content.length));
  for (const [at, key] of keys.entries()) {
    if (at % inTurn === 0) await setImmediate();
    for (let bytes = content.slice(); !store.write(key, '', bytes); ) await setTimeout(1);
  }
  await store.flush();
}

/** As chains of some length are read: not more at once than memory takes. */
async function readAll(store: BlockStore, keys: readonly Uint8Array[], blockBytes: number): Promise<void> {
  const atOnce = Math.max(1, Math.floor(READ_AT_ONCE / blockBytes));
  for (let from = 0; from < keys.length; from += atOnce) {
    const blocks = await store.read(keys.slice(from, from + atOnce));
    if (blocks.some((block) => block === undefined)) throw new Error('a block is missing');
  }
}

function blockFiles(folder: string): string[] {
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' });
  return names.filter((name) => name.endsWith('.blocks')).map((name) => join(folder, name));
}

function readPlain(folder: string): void {
  const buffer = new Uint8Array(READ_BUFFER);
  for (const path of blockFiles(folder)) {
    const file = openSync(path, 'r');
    while (readSync(file, buffer) > 0);
    closeSync(file);
  }
}

/** Out of the page cache; false where that cannot be done. */
function dropPages(folder: string): boolean {
  spawnSync('sync');
  return blockFiles(folder).every((path) => {
    const drop = ['if=/dev/null', `of=${path}`, 'oflag=nocache', 'conv=notrunc,fdatasync', 'count=0'];
    return spawnSync('dd', drop).status === 0;
  });
}

async function measureSize(blockBytes: number) {
  const count = Math.max(4, Math.floor((megabytes * 1e6) / blockBytes));
  const total = (count * blockBytes) / 1e6;
  const folder = join(root, `${blockBytes}`);
  const keys = keysOf(count);
  const content = new Uint8Array(blockBytes).map((_, at) => (at * 2654435761) >>> 24);
  const store = await open(folder);
  const idleLoopMs = await loopDelay(() => setTimeout(IDLE_MS));
  let [writeSeconds, writeProcessor] = [0, 0];
  const writingLoopMs = await loopDelay(async () => {
    const write = () => timed(() => writeAll(store, keys, content));
    writeProcessor = await processorSeconds(async () => {
      [writeSeconds] = await write();
    });
  });
  const [closeSeconds] = await timed(() => store.close());
  const [openSeconds, one] = await timed(() => open(folder));
  const two = await open(folder, 2);
  const speeds = {
    read: [] as number[],
    readByTwo: [] as number[],
    plain: [] as number[],
    cold: [] as number[],
  };
  await readAll(one, keys.slice(0, 2), blockBytes);
  await readAll(two, keys.slice(0, 2), blockBytes);
  readPlain(folder);
  for (let round = 0; round < ROUNDS; round++) {
    speeds.read.push(total / (await timed(() => readAll(one, keys, blockBytes)))[0]);
    speeds.readByTwo.push(total / (await timed(() => readAll(two, keys, blockBytes)))[0]);
    speeds.plain.push(total / (await timed(() => readPlain(folder)))[0]);
    if (dropPages(folder)) speeds.cold.push(total / (await timed(() => readAll(one, keys, blockBytes)))[0]);
  }
  const readProcessor = await processorSeconds(() => readAll(one, keys, blockBytes));
  const plainProcessor = await processorSeconds(() => readPlain(folder));
  const [findSeconds, found] = await timed(() => one.find(keys));
  if (found.blocks !== count) throw new Error('blocks are missing');
  await Promise.all([one.close(), two.close()]);
  rmSync(folder, { recursive: true });
  return {
    blockBytes,
    blocks: count,
    writeMBps: total / writeSeconds,
    syncSeconds: closeSeconds,
    loopDelayMs: { idle: idleLoopMs, writing: writingLoopMs },
    processorSecondsPerGB: {
      write: (1000 * writeProcessor) / total,
      read: (1000 * readProcessor) / total,
      plainRead: (1000 * plainProcessor) / total,
    },
    openMs: openSeconds * 1000,
    findNsPerBlock: (findSeconds * 1e9) / count,
    readMBps: median(speeds.read),
    readByTwoMBps: median(speeds.readByTwo),
    plainReadMBps: median(speeds.plain),
    coldReadMBps: speeds.cold.length > 0 ? median(speeds.cold) : undefined,
  };
}

try {
  const results = [];
  for (const blockBytes of SIZES) {
    const one = await measureSize(blockBytes);
    const [write, read, two, plain] = [one.writeMBps, one.readMBps, one.readByTwoMBps, one.plainReadMBps].map(
      (speed) => speed.toFixed(0),
    );
    const { idle, writing } = one.loopDelayMs;
    const cold = one.coldReadMBps?.toFixed(0) ?? '-';
    print(
      `${blockBytes / 1024} KiB: write ${write} MB/s, read ${read} (two threads ${two}, plain ${plain}, cold ${cold}), opens in ${one.openMs.toFixed(0)} ms, event loop p99 ${writing.p99.toFixed(1)} ms (idle ${idle.p99.toFixed(1)})`,
    );
    results.push(one);
  }
  report('block-store', { megabytes, results });
} finally {
  rmSync(root, { recursive: true, force: true });
}
