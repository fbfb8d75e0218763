// `npm run bench -- event-loop [FLAGS]`: how long the server's event loop is held up: starts the real program, lets 64 clients stream, sends prompts of
// 100 KB in their midst, and reads what the server itself measured. The loop's timer ticks every 10 ms, and that is
// part of each figure: an idle server shows 10. Flags go to the server. Ends in one JSON line.

import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { print } from './command-line.ts';

const CLIENTS = 64;
const LARGE_BYTES = 100_000;
const LARGE_PAUSE_MS = 200;
const sentence = 'Then the miller walked through the old forest and told the fox what he had seen. ';
const program = fileURLToPath(new URL('../../bin/chairlift.js', import.meta.url));

interface Lag {
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly maxMs: number;
}

interface Phase extends Lag {
  readonly seconds: number;
  /** Streams that came to their proper end. */
  readonly complete: number;
  readonly largePrompts: number;
}

function post(url: string, body: object): Promise<Response> {
  return fetch(`${url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ temperature: 0, ignore_eos: true, ...body }),
  });
}

function openStream(url: string, n: number): Promise<Response> {
  const prompt = `Tale ${n}. ${sentence.repeat(n % 20)}`;
  return post(url, { prompt, max_tokens: 100 + 2 * n, stream: true });
}

/** Since it was last asked. */
async function eventLoopLag(url: string): Promise<Lag> {
  const text = await (await fetch(`${url}/metrics`)).text();
  const ms = (name: string) => {
    const value = new RegExp(`^nodejs_eventloop_lag_${name}_seconds (\\S+)$`, 'm').exec(text)?.[1];
    return Math.round(Number(value) * 10_000) / 10;
  };
  return { p50Ms: ms('p50'), p99Ms: ms('p99'), maxMs: ms('max') };
}

/** From when all streams are open to when the last one ends. */
async function phase(url: string, largePrompts: boolean): Promise<Phase> {
  const large = sentence.repeat(Math.ceil(LARGE_BYTES / sentence.length)).slice(0, LARGE_BYTES);
  const responses = await Promise.all(Array.from({ length: CLIENTS }, (_, n) => openStream(url, n)));
  await eventLoopLag(url);
  const started = performance.now();
  let streaming = true;
  const bodies = Promise.all(responses.map((response) => response.text())).finally(() => {
    streaming = false;
  });
  let largeCount = 0;
  while (largePrompts && streaming) {
    const response = await post(url, { prompt: large, max_tokens: 1 });
    await response.text();
    largeCount++;
    await sleep(LARGE_PAUSE_MS);
  }
  const complete = (await bodies).filter((body) => body.endsWith('data: [DONE]\n\n')).length;
  const lag = await eventLoopLag(url);
  return { seconds: (performance.now() - started) / 1000, complete, largePrompts: largeCount, ...lag };
}

async function measure(url: string): Promise<object> {
  await phase(url, false);
  const clients = CLIENTS;
  return {
    benchmark: 'event-loop',
    clients,
    streams: await phase(url, false),
    withLargePrompts: await phase(url, true),
  };
}

async function main(flags: readonly string[]): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'chairlift-bench-'));
  const args = ['serve', '--port', '0', '--database', join(folder, 'bench.db'), '--log-level', 'error'];
  const server = spawn(process.execPath, [program, ...args, ...flags], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = new Promise((resolve) => server.once('exit', resolve));
  try {
    const url = await new Promise<string>((resolve, reject) => {
      server.stdout.setEncoding('utf8').on('data', (text: string) => {
        const found = /listens on (\S+)/.exec(text)?.[1];
        if (found !== undefined) resolve(found);
      });
      server.once('exit', (code) => reject(new Error(`the server ended with ${code}`)));
    });
    print(JSON.stringify(await measure(url)));
  } finally {
    server.kill('SIGTERM');
    await ended;
    await rm(folder, { recursive: true, force: true });
  }
}

await main(process.argv.slice(2));
