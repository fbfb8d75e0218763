// `npm run bench -- tier-steps SHAPE:TYPE [layers] [streams] [rounds] [cpu|cuda] [MB/s]`: how evenly streams get their tokens next to
// reading and writing of tiers, and without, in rounds by turns. Prompts come up from the disk one after the other, more than memory has
// room for, while other blocks are written to the same disk and read again, at that rate or as fast as a store's threads can.

import { setTimeout as pause } from 'node:timers/promises';
import { median } from '#src/bench/statistics.ts';
import { countFrom, giveUp, print, report } from './harness.ts';
import { type Opened, TierEngines } from './tier-engine.ts';
import { TierTraffic } from './tier-traffic.ts';

const PROMPT_TOKENS = 1024;
const STREAM_TOKENS = 40;
const ROUND_STEPS = 60;

const [model = 'llama-3.2-1b:q4_0', layersText, streamsText, roundsText, backendName, rateText] =
  process.argv.slice(2);
const layers = layersText === undefined || layersText === '-' ? undefined : countFrom(layersText, 'layers');
const streams = streamsText === undefined ? 16 : countFrom(streamsText, 'streams');
const rounds = roundsText === undefined ? 8 : countFrom(roundsText, 'rounds');
const bytesPerSecond = rateText === undefined ? undefined : 1e6 * countFrom(rateText, 'MB/s');
const engines = new TierEngines(model, layers, backendName);
const answerTokens = 3 * rounds * ROUND_STEPS;
if (engines.spec.contextLength < STREAM_TOKENS + answerTokens)
  giveUp(`${model} has a context of ${engines.spec.contextLength}: take fewer rounds`);

type Kind = 'without' | 'beside';
interface Round {
  readonly p50: number;
  readonly p99: number;
}

/** Milliseconds between steps that decode all streams and nothing else. */
class Gaps {
  #list: number[] = [];
  #lastMs = 0;

  step(tokens: number, sequences: number): void {
    const nowMs = performance.now();
    const isPlain = tokens === streams && sequences === streams;
    // A step that computes a prompt's rest as well is longer for that.
    if (isPlain && this.#lastMs > 0) this.#list.push(nowMs - this.#lastMs);
    this.#lastMs = isPlain ? nowMs : 0;
  }

  get count(): number {
    return this.#list.length;
  }

  take(): Round {
    const sorted = this.#list.sort((one, other) => one - other);
    this.#list = [];
    this.#lastMs = 0;
    return { p50: median(sorted), p99: sorted[Math.floor(0.99 * sorted.length)] as number };
  }
}

async function load(opened: Opened, isOver: () => boolean): Promise<void> {
  for (; !isOver(); loaded++) await engines.ask(opened, seedOfPrompt(loaded % prompts), PROMPT_TOKENS, 1);
}

const own = engines.blocksOf(STREAM_TOKENS + answerTokens);
const blockCount = streams * own + engines.blocksOf(PROMPT_TOKENS) + 8;
// More than memory holds: each has left it when its turn comes again.
const prompts = Math.ceil(blockCount / engines.blocksOf(PROMPT_TOKENS)) + 1;
const seedOfPrompt = (index: number) => 1000 + index;
let loaded = 0;
const opened = await engines.open({ blockCount, hostBytes: 0, usesDisk: true });
print(`${engines.files.path}, ${layers ?? 'all'} layers, ${streams} streams, ${opened.backend}`);
const traffic = await TierTraffic.open({ folder: engines.folder, bytesPerSecond });
for (let index = 0; index < prompts; index++)
  await engines.ask(opened, seedOfPrompt(index), PROMPT_TOKENS, 1);
const gaps = new Gaps();
const subscription = opened.engine.monitor.subscribe({
  step: ({ tokens, sequences }) => gaps.step(tokens, sequences),
});
let decoding = true;
const answers = Array.from({ length: streams }, (_, index) =>
  engines.ask(opened, 10 + index, STREAM_TOKENS, answerTokens),
);
void Promise.race(answers).then(() => {
  decoding = false;
});
while (gaps.count < ROUND_STEPS / 2) await pause(20);
gaps.take();
const results: Record<Kind, Round[]> = { without: [], beside: [] };
let movedBytes = 0;
let movedMs = 0;
for (let round = 0; round < 2 * rounds && decoding; round++) {
  // Which comes first changes, for machines drift.
  const kind: Kind = (round + (round >> 1)) % 2 === 0 ? 'without' : 'beside';
  const beganMs = performance.now();
  const isOver = () => gaps.count >= ROUND_STEPS || !decoding;
  if (kind === 'without') while (!isOver()) await pause(5);
  else {
    traffic.begin();
    await load(opened, isOver);
    movedBytes += await traffic.end();
    movedMs += performance.now() - beganMs;
  }
  results[kind].push(gaps.take());
  // What is still on its way belongs to no round.
  if (kind === 'beside') await pause(200);
  gaps.take();
}
subscription.end();
const { tiers } = opened.engine.engine.stats(0);
await engines.end(opened);
await Promise.all(answers.map((answer) => answer.catch(() => undefined)));
await traffic.close();

const of = (kind: Kind, figure: keyof Round) => median(results[kind].map((round) => round[figure]));
const figures = {
  without: { p50: of('without', 'p50'), p99: of('without', 'p99') },
  beside: { p50: of('beside', 'p50'), p99: of('beside', 'p99') },
};
const mbPerSecond = movedBytes / 1e6 / (movedMs / 1000);
for (const [kind, { p50, p99 }] of Object.entries(figures))
  print(
    `${kind}: between tokens p50 ${p50.toFixed(1)} ms, p99 ${p99.toFixed(1)} ms (medians of ${rounds} rounds)`,
  );
print(`next to ${tiers?.loads} loads, and ${mbPerSecond.toFixed(0)} MB/s of other blocks`);
report('tier-steps', {
  ...{ model: engines.files.path, layers, streams, rounds, ...figures },
  p99Ratio: figures.beside.p99 / figures.without.p99,
  p50Ratio: figures.beside.p50 / figures.without.p50,
  ...{ loads: tiers?.loads, loadedBlocks: tiers?.loadedBlocks, mbPerSecond },
});
