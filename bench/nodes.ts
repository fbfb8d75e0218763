// `npm run bench -- nodes [WORKERS] [GATEWAYS]`: a fleet of real processes without models on one machine, over a real NATS server.
// What an idle node costs, what goes over NATS, and how long a gateway takes to place a request. Ends in one JSON line.

import { type ChildProcess, fork, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { freemem, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { distributionOf } from '#src/bench/statistics.ts';
import { countFrom, giveUp, print, report } from './harness.ts';
import type { Placed } from './node-process.ts';

const NODE_BYTES = 70e6;
const IDLE_MS = 10_000;
const PLACED = 300;
/** Processes that start at once. */
const STARTING = 6;
const TICKS_PER_SECOND = 100;

const [workers, gateways] = [
  countFrom(process.argv[2] ?? '180', 'workers'),
  countFrom(process.argv[3] ?? '20', 'gateways'),
];
if (freemem() < NODE_BYTES * (workers + gateways))
  giveUp(`${workers + gateways} nodes need ${(NODE_BYTES * (workers + gateways)) / 1e9} GB of free memory`);

const folder = mkdtempSync(join(tmpdir(), 'chairlift-nodes-'));
const [port, monitor] = [await freePort(), await freePort()];
writeFileSync(
  join(folder, 'nats.conf'),
  `listen: "127.0.0.1:${port}"\nhttp: "127.0.0.1:${monitor}"\njetstream { store_dir: "${join(folder, 'jetstream')}" }\n`,
);
const nats = spawn('nats-server', ['-c', join(folder, 'nats.conf')], { stdio: 'ignore' });
nats.once('exit', (code, signal) => process.stderr.write(`nats-server ended: ${code ?? signal}\n`));
const nodes: { readonly role: string; readonly child: ChildProcess }[] = [];
try {
  await untilUp();
  await startAll('worker', workers);
  await startAll('gateway', gateways);
  // Texts are fetched, and code is warm.
  const first = nodes.find(({ role }) => role === 'gateway')?.child as ChildProcess;
  await placed(first, 50);
  await sleep(3000);
  const idle = await measureIdle();
  const { placingMs, answeredMs } = await placed(first, PLACED);
  const [placing, answered] = [distributionOf([...placingMs]), distributionOf([...answeredMs])];
  const figures = {
    workers,
    gateways,
    ...idle,
    placingMs: { p50: rounded(placing?.p50), p99: rounded(placing?.p99) },
    answeredMs: { p50: rounded(answered?.p50), p99: rounded(answered?.p99) },
  };
  for (const [name, value] of Object.entries(figures)) print(`${name.padEnd(28)}${JSON.stringify(value)}`);
  report('nodes', figures);
} finally {
  for (const { child } of nodes) child.kill('SIGKILL');
  nats.kill('SIGKILL');
  await sleep(500);
  rmSync(folder, { recursive: true, force: true });
}

async function startAll(role: 'worker' | 'gateway', count: number): Promise<void> {
  const program = fileURLToPath(new URL('node-process.js', import.meta.url));
  const starting = Array.from({ length: STARTING }, async (_, lane) => {
    for (let i = lane; i < count; i += STARTING) {
      const args = [`${role}-${i}`, role, `${port}`, join(folder, 'home'), `${workers}`];
      const child = fork(program, args, { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
      nodes.push({ role, child });
      await nextMessage(child);
    }
  });
  await Promise.all(starting);
  process.stderr.write(`${count} × ${role} are there\n`);
}

function placed(gateway: ChildProcess, count: number): Promise<Placed> {
  gateway.send(count);
  return nextMessage(gateway) as Promise<Placed>;
}

async function measureIdle() {
  const before = { cpu: nodes.map(({ child }) => cpuSeconds(child)), nats: await natsCounts() };
  const startMs = performance.now();
  await sleep(IDLE_MS);
  const seconds = (performance.now() - startMs) / 1000;
  const shares = nodes.map(({ child }, i) => (cpuSeconds(child) - (before.cpu[i] as number)) / seconds);
  const after = await natsCounts();
  const mean = (role: string, of: (i: number) => number) => {
    const own = nodes.flatMap((one, i) => (one.role === role ? [of(i)] : []));
    return own.reduce((sum, value) => sum + value, 0) / own.length;
  };
  const residentBytes = nodes.map(({ child }) => statusBytes(child, 'VmRSS'));
  const by = (role: string) => ({
    cpuPercent: rounded(100 * mean(role, (i) => shares[i] as number)),
    residentMegabytes: Math.round(mean(role, (i) => residentBytes[i] as number) / 1e6),
  });
  return {
    worker: by('worker'),
    gateway: by('gateway'),
    natsCpuPercent: rounded((100 * (after.cpu - before.nats.cpu)) / seconds),
    deliveriesPerSecond: Math.round((after.messages - before.nats.messages) / seconds),
    deliveredBytesPerSecond: Math.round((after.bytes - before.nats.bytes) / seconds),
  };
}

function cpuSeconds({ pid }: { readonly pid?: number | undefined }): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
}

function statusBytes({ pid }: ChildProcess, name: string): number {
  const line = new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(readFileSync(`/proc/${pid}/status`, 'utf8'));
  return 1024 * Number(line?.[1]);
}

async function natsCounts() {
  const varz = (await (await fetch(`http://127.0.0.1:${monitor}/varz`)).json()) as {
    readonly out_msgs: number;
    readonly out_bytes: number;
  };
  return { messages: varz.out_msgs, bytes: varz.out_bytes, cpu: cpuSeconds(nats) };
}

async function untilUp(): Promise<void> {
  while (
    !(await natsCounts().then(
      () => true,
      () => false,
    ))
  ) {
    if (nats.exitCode !== null) throw new Error(`nats-server ended with ${nats.exitCode}`);
    await sleep(50);
  }
}

function nextMessage(child: ChildProcess): Promise<unknown> {
  return new Promise((resolve, reject) => {
    child.once('message', resolve);
    child.once('exit', (code) => reject(new Error(`a node ended with ${code}`)));
  });
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}

function rounded(value = 0): number {
  return Number(value.toFixed(value < 10 ? 2 : 1));
}
