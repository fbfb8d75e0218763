// `npm run bench -- routing [--folder] [WORKERS ...]`: what routing costs a gateway: keys of prompts, events of caches, and decisions
// with many workers, long prompts and a full index; with `--folder` all workers read a folder that has every prompt. Ends in one JSON line.

import { distributionOf } from '#src/bench/statistics.ts';
import { BLOCK_TOKENS } from '#src/compute/backend.ts';
import { KEY_LANES } from '#src/engine/cache/prefix-key.ts';
import { foundTokens } from '#src/fleet/routing/expected-prefix.ts';
import type { Heartbeat } from '#src/fleet/routing/heartbeat.ts';
import { DEFAULT_MAX_ENTRIES, ENTRY_BYTES } from '#src/fleet/routing/prefix-index.ts';
import { promptKeys } from '#src/fleet/routing/prefix-keys.ts';
import { type RoutedRequest, Router } from '#src/fleet/routing/router.ts';
import { giveUp, print, report } from './harness.ts';

const MODEL_KEY = 'model';
const PROMPT_TOKENS = 4096;
const PROMPTS = 2000;
/** Workers that hold each prompt's prefix; every tenth prompt is held by half of the fleet. */
const FEW_HOLDERS = 3;
const DECISIONS = 20_000;
const WARM_UP = 2000;
/** Entries of other prompts, so that tables do not fit the processor's caches. */
const OTHER_KEYS = 3_000_000;
const BATCH_KEYS = 64;
const HEARTBEATS = 50_000;

const words = process.argv.slice(2);
const hasFolder = words.includes('--folder');

let state = 1;
function randomBelow(below: number): number {
  state = (Math.imul(state, 1_664_525) + 1_013_904_223) | 0;
  return Math.floor(((state >>> 8) / 2 ** 24) * below);
}

function randomTokens(length: number): Int32Array {
  return Int32Array.from({ length }, () => randomBelow(128_000));
}

function measureKeys(): number {
  const tokens = randomTokens(PROMPT_TOKENS);
  const rounds = 4000;
  let startMs = 0;
  for (let round = -500; round < rounds; round++) {
    if (round === 0) startMs = performance.now();
    promptKeys({ modelKey: MODEL_KEY, salt: ':', tokens });
  }
  return (rounds * PROMPT_TOKENS) / ((performance.now() - startMs) / 1000);
}

function heartbeatOf(worker: number, number: number): Heartbeat {
  const waiting = randomBelow(3);
  return {
    worker: `worker-${worker}`,
    epoch: 'a',
    number,
    draining: false,
    heard: { here: Number.MAX_SAFE_INTEGER },
    models: [
      {
        modelKey: MODEL_KEY,
        queuedTokens: [0, randomBelow(2000), 0],
        waiting: [0, waiting, 0],
        oldestMs: [0, waiting * 100, 0],
        running: randomBelow(16),
        maxRunning: 32,
        freeBlocks: 100 + randomBelow(1900),
        totalBlocks: 2048,
        speeds: { promptTokenMs: 2.9, stepBaseMs: 40 + randomBelow(4), stepRowMs: 1.6, stepTokens: 128 },
        answerTokens: 64,
        ...(hasFolder ? { tiers: { disk: { folder: 'f', blockMs: 2 }, isAssumed: false } } : {}),
      },
    ],
  };
}

interface Batches {
  tell(worker: number, entered: Int32Array): void;
}

function batchesTo(router: Router, workers: number): Batches {
  const numbers = new Int32Array(workers);
  return {
    tell(worker, entered) {
      const number = (numbers[worker] as number) + 1;
      numbers[worker] = number;
      router.cacheBatch(`worker-${worker}`, MODEL_KEY, {
        epoch: 'a',
        number,
        entered,
        left: new Int32Array(0),
      });
    },
  };
}

function fill(router: Router, workers: number, prompts: readonly Int32Array[]): number {
  const batches = batchesTo(router, workers);
  prompts.forEach((keys, n) => {
    const holders = n % 10 === 0 ? Math.floor(workers / 2) : Math.min(workers, FEW_HOLDERS);
    const first = randomBelow(workers);
    for (let i = 0; i < holders; i++) {
      const depth = KEY_LANES * (1 + randomBelow(keys.length / KEY_LANES));
      batches.tell((first + i) % workers, keys.subarray(0, depth));
    }
  });
  const startMs = performance.now();
  for (let n = 0; n < OTHER_KEYS; n += BATCH_KEYS) {
    const keys = Int32Array.from(
      { length: KEY_LANES * BATCH_KEYS },
      () => randomBelow(2 ** 24) ^ (randomBelow(2 ** 16) << 16),
    );
    batches.tell(randomBelow(workers), keys);
  }
  return OTHER_KEYS / ((performance.now() - startMs) / 1000);
}

/** In a folder that all workers read: every prompt. */
function fillFolder(router: Router, workers: number, prompts: readonly Int32Array[]): void {
  const names = Array.from({ length: workers }, (_, n) => `worker-${n}`);
  const reporter = names.find((name) => router.tiersOf(name, MODEL_KEY)?.isReporter('disk')) as string;
  prompts.forEach((entered, n) => {
    const batch = { epoch: 'a', number: n + 1, entered, left: new Int32Array(0) };
    router.tiersOf(reporter, MODEL_KEY)?.apply('disk', batch);
  });
}

function measure(workers: number) {
  const router = new Router({ gateway: 'here' });
  for (let n = 0; n < workers; n++) router.heartbeat(heartbeatOf(n, 1), 0);
  const prompts = Array.from({ length: PROMPTS }, () =>
    promptKeys({ modelKey: MODEL_KEY, salt: ':', tokens: randomTokens(PROMPT_TOKENS) }),
  );
  const keysPerSecond = fill(router, workers, prompts);
  if (hasFolder) fillFolder(router, workers, prompts);
  const microseconds: number[] = [];
  let cached = 0;
  for (let n = 0; n < WARM_UP + DECISIONS; n++) {
    const request: RoutedRequest = {
      modelKey: MODEL_KEY,
      keys: prompts[randomBelow(PROMPTS)] as Int32Array,
      conversation: `${n}`,
      promptTokens: PROMPT_TOKENS,
      expectedTokens: 64,
      maxTokens: 256,
      priority: 1,
      ageMs: 0,
    };
    const startMs = performance.now();
    const decision = router.choose(request, 0);
    if (decision.kind === 'worker') router.assign(decision.worker, request, decision.prefix);
    if (n >= WARM_UP) microseconds.push(1000 * (performance.now() - startMs));
    if (decision.kind === 'worker') cached += Number(foundTokens(decision.prefix) > 0);
    // Each worker sends two heartbeats a second, against 833 decisions.
    const beats = Math.ceil((2 * workers) / 833);
    for (let i = 0; i < beats; i++) router.heartbeat(heartbeatOf(randomBelow(workers), n + 2), 0);
  }
  const index = router.indexOf(MODEL_KEY);
  return {
    workers,
    heartbeatUs: measureHeartbeats(router, workers, WARM_UP + DECISIONS + 2),
    keysPerSecond: Math.round(keysPerSecond),
    decisionUs: distributionOf(microseconds),
    cachedShare: cached / (WARM_UP + DECISIONS),
    entries: index?.size ?? 0,
    bytes: index?.bytes ?? 0,
    forgotten: index?.forgotten ?? 0,
  };
}

function measureHeartbeats(router: Router, workers: number, firstNumber: number): number {
  const rounds = Math.ceil(HEARTBEATS / workers);
  const heartbeats = Array.from({ length: rounds * workers }, (_, n) =>
    heartbeatOf(n % workers, firstNumber + Math.floor(n / workers)),
  );
  const startMs = performance.now();
  for (const heartbeat of heartbeats) router.heartbeat(heartbeat, 0);
  return (1000 * (performance.now() - startMs)) / heartbeats.length;
}

const asked = words.filter((word) => word !== '--folder').map(Number);
if (asked.some((workers) => !(Number.isInteger(workers) && workers >= 1 && workers <= 30_000))) {
  giveUp('npm run bench -- routing [--folder] WORKERS ...: whole numbers between 1 and 30000');
}
const tokensPerSecond = measureKeys();
print(`keys: ${Math.round(tokensPerSecond / 1e6)} million tokens a second`);
print(`index: at most ${DEFAULT_MAX_ENTRIES} entries of ${ENTRY_BYTES} bytes`);
print(`prompts of ${PROMPT_TOKENS} tokens (${PROMPT_TOKENS / BLOCK_TOKENS} blocks)`);
const results = (asked.length > 0 ? asked : [100, 1000, 5000]).map((workers) => {
  const result = measure(workers);
  const { p50, p99, max } = result.decisionUs ?? { p50: 0, p99: 0, max: 0 };
  print(
    `${workers} workers: decision ${p50.toFixed(0)} µs, p99 ${p99.toFixed(0)}, max ${max.toFixed(0)};` +
      ` heartbeat ${result.heartbeatUs.toFixed(1)} µs; ${result.keysPerSecond} keys/s enter; ${result.entries} entries, ${(result.bytes / 2 ** 20).toFixed(0)} MiB,` +
      ` ${result.forgotten} forgotten`,
  );
  return result;
});
report('routing', { tokensPerSecond: Math.round(tokensPerSecond), results });
