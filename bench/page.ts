// `npm run bench -- page [MODEL.gguf]`: how smoothly the live view runs in Chromium while 64 streams decode, and how soon the
// page paints with an empty cache, on this machine's own link and on one as slow as DevTools' Fast 3G. Streams, engine, server
// and browser share the machine, so that it is measured with an engine on all cores, and with one that leaves the browser a core.
// Frames come from requestAnimationFrame, 60 a second at most; long tasks are those above 50 ms. Ends in one JSON line.

import { spawnSync } from 'node:child_process';
import { setMaxListeners } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { Agent } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { type Browser, chromium, type Page } from 'playwright-core';
import { median } from '#src/bench/statistics.ts';
import { giveUp, print, report } from './harness.ts';
import { generated, keepStreaming, type StreamedServer, startServer, stopServer } from './streamed-server.ts';

const STREAMS = 64;
const WINDOW_MS = 10_000;
const SETTLE_MS = 3000;
const PAINTS = 5;
const screen = { width: 1440, height: 900 };
/** As DevTools has it: its latency counts for every request. */
const fast3g = { latency: 562.5, downloadThroughput: (1.44e6 / 8) | 0, uploadThroughput: (675e3 / 8) | 0 };
const embedded = fileURLToPath(new URL('../../models/chairlift-demo-14m-q8_0.gguf', import.meta.url));

interface Frames {
  readonly framesPerSecond: number;
  readonly p99Ms: number;
  readonly slowestMs: number;
  readonly longTasks: number;
  readonly longTaskMs: number;
  /** Processor time of the page's main thread. */
  readonly busyShare: number;
  readonly scriptShare: number;
  readonly layoutShare: number;
}

function browserProgram(): string {
  const names = ['chromium', 'chromium-browser', 'google-chrome'];
  const found = spawnSync('sh', ['-c', names.map((name) => `command -v ${name}`).join(' || ')], {
    encoding: 'utf8',
  });
  return found.stdout.trim() || giveUp(`there is none of ${names.join(', ')}`);
}

async function openPage(browser: Browser, { url, key }: StreamedServer, throttled = false): Promise<Page> {
  const context = await browser.newContext({ viewport: screen });
  const page = await context.newPage();
  await page.addInitScript(
    `if (location.protocol === 'http:') sessionStorage.setItem('chairlift.key', ${JSON.stringify(key)})`,
  );
  if (throttled) {
    const session = await context.newCDPSession(page);
    await session.send('Network.emulateNetworkConditions', { offline: false, ...fast3g });
  }
  await page.goto(`${url}/#/lift`);
  return page;
}

const isLive = (page: Page) => page.locator('.lamp[data-lamp="live"]').waitFor();

/** Milliseconds from the beginning of the visit to the first text, and until values are live; and bytes on the line. */
async function measurePaint(browser: Browser, server: StreamedServer, throttled: boolean) {
  const paints: { paintMs: number; liveMs: number; bytes: number }[] = [];
  for (let n = 0; n < PAINTS; n++) {
    const page = await openPage(browser, server, throttled);
    await isLive(page);
    paints.push(
      await page.evaluate(`({
        paintMs: performance.getEntriesByName('first-contentful-paint')[0].startTime,
        liveMs: performance.now(),
        bytes: performance.getEntriesByType('resource').concat(performance.getEntriesByType('navigation'))
          .filter(({ name }) => !name.endsWith('/live'))
          .reduce((sum, { transferSize }) => sum + transferSize, 0),
      })`),
    );
    await page.context().close();
  }
  const of = (name: 'paintMs' | 'liveMs' | 'bytes') => Math.round(median(paints.map((one) => one[name])));
  return { paintMs: of('paintMs'), liveMs: of('liveMs'), bytes: of('bytes') };
}

async function measureFrames(page: Page): Promise<Frames> {
  const session = await page.context().newCDPSession(page);
  // What other processes take from the thread is no time of its own.
  await session.send('Performance.enable', { timeDomain: 'threadTicks' });
  const metrics = async () => {
    const { metrics: all } = await session.send('Performance.getMetrics');
    return (name: string) => all.find((one) => one.name === name)?.value ?? 0;
  };
  const before = await metrics();
  const { times, tasks } = await page.evaluate<{ times: number[]; tasks: number[] }>(`new Promise((done) => {
    const times = [], tasks = [];
    const observer = new PerformanceObserver((list) => tasks.push(...list.getEntries().map(({ duration }) => duration)));
    observer.observe({ type: 'longtask' });
    const frame = (now) => {
      times.push(now);
      if (now - times[0] < ${WINDOW_MS}) requestAnimationFrame(frame);
      else { observer.disconnect(); done({ times, tasks }); }
    };
    requestAnimationFrame(frame);
  })`);
  const after = await metrics();
  const gaps = times.slice(1).map((at, i) => at - (times[i] as number));
  const sorted = gaps.toSorted((a, b) => a - b);
  const spentMs = (times.at(-1) as number) - (times[0] as number);
  const share = (...names: string[]) =>
    Number((names.reduce((sum, name) => sum + after(name) - before(name), 0) / (spentMs / 1000)).toFixed(3));
  return {
    framesPerSecond: Number(((1000 * gaps.length) / spentMs).toFixed(1)),
    p99Ms: Math.round(sorted[Math.floor(0.99 * sorted.length)] as number),
    slowestMs: Math.round(sorted.at(-1) as number),
    longTasks: tasks.length,
    longTaskMs: Math.round(tasks.reduce((sum, ms) => sum + ms, 0)),
    busyShare: share('TaskDuration'),
    scriptShare: share('ScriptDuration'),
    layoutShare: share('LayoutDuration', 'RecalcStyleDuration'),
  };
}

async function underLoad(browser: Browser, server: StreamedServer) {
  const ending = new AbortController();
  const { signal } = ending;
  setMaxListeners(0, signal);
  const agent = new Agent({ maxSockets: Number.POSITIVE_INFINITY });
  try {
    for (let number = 0; number < STREAMS; number++)
      keepStreaming(server, { prompt: `Story ${number}`, tokens: 3000, agent, signal });
    while ((await generated(server)).running < STREAMS) await sleep(100);
    const empty = await browser.newPage({ viewport: screen });
    const emptyPage = await measureFrames(empty);
    await empty.close();
    const page = await openPage(browser, server);
    await isLive(page);
    await sleep(SETTLE_MS);
    const before = await generated(server);
    const live = await measureFrames(page);
    const after = await generated(server);
    await page.context().close();
    const tokensPerSecond = Math.round((1000 * (after.tokens - before.tokens)) / (after.atMs - before.atMs));
    return { live, emptyPage, tokensPerSecond, paint: await measurePaint(browser, server, false) };
  } finally {
    ending.abort();
    agent.destroy();
  }
}

const folder = mkdtempSync(join(tmpdir(), 'page-'));
const model = process.argv[2] ?? embedded;
const browser = await chromium.launch({ executablePath: browserProgram(), args: ['--no-sandbox'] });
const results: object[] = [];
let paints: object = {};
try {
  for (const [engine, flags] of [
    ['all cores', []],
    ['one thread', ['--threads', '1']],
  ] as const) {
    const server = await startServer(mkdtempSync(join(folder, 'server-')), ['--model', model, ...flags]);
    try {
      if (engine === 'all cores') {
        paints = {
          own: await measurePaint(browser, server, false),
          fast3g: await measurePaint(browser, server, true),
        };
        print(`idle, empty cache: ${JSON.stringify(paints)}`);
      }
      const measured = await underLoad(browser, server);
      results.push({ engine, ...measured });
      print(`${STREAMS} streams, engine on ${engine}: ${JSON.stringify(measured)}`);
    } finally {
      await stopServer(server);
    }
  }
  report('page', { streams: STREAMS, windowMs: WINDOW_MS, idle: paints, results });
} finally {
  await browser.close();
  rmSync(folder, { recursive: true, force: true });
}
process.exit();
