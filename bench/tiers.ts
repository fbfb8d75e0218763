// `npm run bench -- tiers SHAPE:TYPE TOKENS [layers] [cpu|cuda]`: how soon a long prompt's first token comes where it was never
// computed, where its KV is in memory, in the machine's memory, and on the disk after the engine was ended and another one was
// started; with the same answer each time. Then how evenly others get their tokens next to that.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { dummyModel } from '#src/bench/dummy-model.ts';
import { median } from '#src/bench/statistics.ts';
import { BlockStore } from '#src/block-store/block-store.ts';
import { BLOCK_TOKENS } from '#src/compute/backend.ts';
import { chooseBackend } from '#src/compute/choose-backend.ts';
import { LocalEngine } from '#src/engine/local-engine.ts';
import type { AnswerRequest } from '#src/engine/request.ts';
import { buildSpec } from '#src/model/build-spec.ts';
import { validateSampling } from '#src/sampling/parameters.ts';
import { countFrom, dummyFrom, giveUp, print, report } from './harness.ts';

const ANSWER = 8;
const STREAMS = 4;
const TURNS = 5;
const TURN_STEPS = 40;
const DROP_CACHES = '/proc/sys/vm/drop_caches';

const [model = 'llama-3.2-1b:q4_0', tokensText = '32768', layersText, backendName] = process.argv.slice(2);
const wanted = dummyFrom(model);
const tokens = countFrom(tokensText, 'tokens');
const layers = layersText === undefined || layersText === '-' ? undefined : countFrom(layersText, 'layers');
const files = dummyModel(wanted.shape, wanted.type, layers);
const spec = buildSpec(files);
if (spec.contextLength < tokens + ANSWER) giveUp(`${model} has a context of ${spec.contextLength}`);
const blocks = Math.ceil((tokens + ANSWER) / BLOCK_TOKENS) + 1;
const folder = mkdtempSync(join(tmpdir(), 'chairlift-bench-tiers-'));
process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
const choice = chooseBackend(backendName === 'cuda' ? 'cuda' : 'cpu', {});

interface Opened {
  readonly engine: LocalEngine;
  readonly backend: string;
}

/** With room for `prompts` of them in memory. */
async function open(prompts: number, hostBytes: number | undefined, readsDisk: boolean): Promise<Opened> {
  const blockCount = prompts * blocks + 2 * STREAMS * 16;
  const backend = await choice.create(spec, files.weights, { blockCount });
  const openDisk = (identity: { readonly name: string; readonly identity: string }) =>
    BlockStore.open({
      folder,
      model: identity,
      sizeBytes: 64 * 1024 ** 3,
      warn: (message) => print(message),
    });
  const engine = new LocalEngine(backend, {
    vocabSize: spec.vocabSize,
    contextLength: spec.contextLength,
    endIds: [],
    blockCount,
    budget: { kind: 'adaptive', targetStepMs: 100, loneStepMs: 400, maxStepTokens: 2048 },
    speculation: false,
    ...(hostBytes === undefined ? {} : { hostBytes }),
    ...(readsDisk ? { openDisk } : {}),
  });
  if (hostBytes !== undefined) engine.engine.identify(wanted.shape, { model, adapters: [] });
  if (readsDisk) while (engine.engine.stats(0).tiers?.disk === undefined) await pause(5);
  return { engine, backend: backend.device ?? backend.name };
}

let ids = 0;
function request(seed: number, length: number, maxTokens: number): AnswerRequest {
  const sampling = validateSampling(
    { temperature: 0, maxTokens, ignoreEos: true },
    { vocabSize: spec.vocabSize, freshSeed: { low: 1, high: 2 } },
  );
  if (!sampling.ok) throw new Error(sampling.problem);
  return {
    id: `${ids++}`,
    prompt: Int32Array.from({ length }, (_, place) => (place * 7919 + seed * 104_729) % spec.vocabSize),
    parameters: sampling.parameters,
    priority: 1,
    salt: '',
    account: `${seed}`,
    enqueuedMs: Date.now(),
  };
}

interface Asked {
  readonly firstMs: number;
  readonly cached: number;
  readonly answer: readonly number[];
}

async function ask(engine: LocalEngine, seed: number, length = tokens, maxTokens = ANSWER): Promise<Asked> {
  const startedMs = performance.now();
  const answer: number[] = [];
  let firstMs = Number.NaN;
  let cached = 0;
  for await (const event of engine.submit(request(seed, length, maxTokens))) {
    if (event.kind === 'token') {
      if (answer.length === 0) firstMs = performance.now() - startedMs;
      answer.push(event.token);
    } else cached = event.cachedTokens;
  }
  return { firstMs, cached, answer };
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

async function end({ engine }: Opened): Promise<number> {
  const startedMs = performance.now();
  engine.engine.end({ code: 'engine-failed', message: 'the benchmark is over' });
  await engine.engine.closeTiers(600_000);
  await engine.close();
  return performance.now() - startedMs;
}

async function measureLoads() {
  const first = await open(1, 64 * 1024 ** 3, true);
  const cold = await ask(first.engine, 1);
  const memory = await ask(first.engine, 1);
  const other = await ask(first.engine, 2);
  const host = await ask(first.engine, 1);
  const endMs = await end(first);
  const second = await open(1, 0, true);
  const disk = await ask(second.engine, 1);
  await end(second);
  const dropped = dropCaches();
  const third = await open(1, 0, true);
  const coldPages = dropped ? await ask(third.engine, 1) : undefined;
  await end(third);
  const coldMs = (cold.firstMs + other.firstMs) / 2;
  const figures = Object.entries({
    memory,
    host,
    disk,
    ...(coldPages && { 'disk, cold pages': coldPages }),
  }).map(([tier, { firstMs, cached, answer }]) => ({
    tier,
    firstMs,
    share: firstMs / coldMs,
    cached,
    same: answer.join() === cold.answer.join(),
  }));
  print(`cold: first token after ${coldMs.toFixed(0)} ms`);
  for (const { tier, firstMs, share, cached, same } of figures) {
    const percent = (100 * share).toFixed(2);
    print(
      `from ${tier}: ${firstMs.toFixed(0)} ms, ${percent} % of cold, ${cached} tokens; ${same ? 'the same answer' : 'ANOTHER ANSWER'}`,
    );
  }
  print(`ended in ${endMs.toFixed(0)} ms`);
  return { backend: first.backend, coldMs, endMs, figures };
}

/** Only root may. */
function dropCaches(): boolean {
  try {
    writeFileSync(DROP_CACHES, '1');
    return true;
  } catch {
    return false;
  }
}

/** Milliseconds between steps of streams that decode, in turns with and without prompts that come up and go down beside them. */
async function measureSteps() {
  const opened = await open(1, 0, true);
  const { engine } = opened;
  // Two prompts, with room for one: each comes up from the disk, and the other goes.
  for (const seed of [1, 2]) await ask(engine, seed, tokens, 1);
  const gaps = { without: [] as number[], beside: [] as number[] };
  let isMoving = false;
  let lastMs = 0;
  const subscription = engine.monitor.subscribe({
    step: ({ tokens: rows, sequences }) => {
      const nowMs = performance.now();
      // Steps that compute a prompt's rest are longer for that.
      if (rows === STREAMS && sequences === STREAMS && lastMs > 0) {
        gaps[isMoving ? 'beside' : 'without'].push(nowMs - lastMs);
      }
      lastMs = rows === STREAMS && sequences === STREAMS ? nowMs : 0;
    },
  });
  const streams = Array.from({ length: STREAMS }, (_, index) =>
    ask(engine, 10 + index, 40, 2 * TURNS * TURN_STEPS + 500),
  );
  let decoding = true;
  void Promise.race(streams).then(() => {
    decoding = false;
  });
  for (let turn = 0; turn < TURNS && decoding; turn++) {
    for (const moving of [false, true]) {
      isMoving = moving;
      const list = gaps[moving ? 'beside' : 'without'];
      const until = (turn + 1) * TURN_STEPS;
      for (let seed = 0; list.length < until && decoding; seed++) {
        if (moving) await ask(engine, 1 + (seed % 2), tokens, 1);
        else await pause(20);
      }
    }
  }
  subscription.end();
  const tiers = engine.engine.stats(0).tiers;
  await end(opened);
  await Promise.all(streams);
  const of = (list: number[]) => {
    const sorted = [...list].sort((a, b) => a - b);
    return { steps: list.length, p50: median(list), p99: sorted[Math.floor(0.99 * sorted.length)] as number };
  };
  const [without, beside] = [of(gaps.without), of(gaps.beside)];
  print(
    `steps of ${STREAMS} streams: p50 ${without.p50.toFixed(2)} and p99 ${without.p99.toFixed(2)} ms without, ` +
      `${beside.p50.toFixed(2)} and ${beside.p99.toFixed(2)} ms next to ${tiers?.loads} loads`,
  );
  return { without, beside, loads: tiers?.loads, loadedBlocks: tiers?.loadedBlocks };
}

print(`${files.path}, ${layers ?? 'all'} layers, ${tokens} tokens, ${choice.name}`);
const loads = await measureLoads();
const steps = await measureSteps();
report('tiers', { model: files.path, layers, tokens, ...loads, steps });
