// `npm run simulate:faults`: episodes one after the other, each with a seed of its own, until the time is up. A seed that fails is
// shrunk to the fewest faults, and printed as the command that shows it again. Ends in a line of JSON.

import { execFileSync, spawn } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { openLocalModel } from '../../src/pool/local-model.ts';
import { type EpisodeOptions, type EpisodeResult, faultsOf, runEpisode } from './episode.ts';
import { foundFaults } from './found.ts';
import { plantBugs } from './plant.ts';
import { shrink } from './shrink.ts';

const SHRINK_TRIES = 120;
const MOST_SHRUNK = 3;

interface Failure {
  readonly seed: number;
  readonly violations: readonly string[];
  readonly again: string;
}

export interface Summary {
  episodes: number;
  simulatedHours: number;
  fleetHoursAnHour: number;
  wallSeconds: number;
  cpuSeconds: number;
  requests: number;
  tokens: number;
  messages: number;
  faults: Record<string, number>;
  violations: number;
  failures: Failure[];
}

const options = {
  seconds: { type: 'string', default: '60' },
  seed: { type: 'string', default: '1' },
  episodes: { type: 'string' },
  only: { type: 'string' },
  jobs: { type: 'string', default: '1' },
  step: { type: 'string', default: '1' },
  keep: { type: 'boolean', default: false },
  first: { type: 'boolean', default: false },
  found: { type: 'boolean', default: false },
  /** `seconds` are of the processor, which others may have. */
  processor: { type: 'boolean', default: false },
  planted: { type: 'boolean', default: false },
} as const;

export async function simulate(words: readonly string[], root: string): Promise<number> {
  const { values } = parseArgs({ args: [...words], options });
  const jobs = Number(values.jobs);
  if (values.planted)
    return (await plantBugs(root, Number(values.seed), Number(values.seconds), jobs)) ? 0 : 1;
  const summary =
    jobs > 1 ? await runJobs(words, jobs, Number(values.seed), root) : await runHere(values, root);
  console.log(JSON.stringify(summary));
  return summary.violations === 0 ? 0 : 1;
}

type Values = ReturnType<typeof parseArgs<{ options: typeof options }>>['values'];

async function runHere(values: Values, root: string): Promise<Summary> {
  const modelPath = join(root, 'models', 'chairlift-demo-14m-q8_0.gguf');
  const base = { model: openLocalModel(modelPath), modelPath };
  const first = Number(values.seed);
  const limitMs = 1000 * Number(values.seconds);
  const most = values.episodes === undefined ? Number.POSITIVE_INFINITY : Number(values.episodes);
  const only = values.only === undefined ? undefined : numbersOf(values.only);
  const began = process.hrtime.bigint();
  const cpu = process.cpuUsage();
  const wallMs = () => Number(process.hrtime.bigint() - began) / 1e6;
  const spentMs = () => {
    const { user, system } = process.cpuUsage(cpu);
    return values.processor ? (user + system) / 1000 : wallMs();
  };
  const summary = emptySummary();
  for (const { promise, seed, faults } of values.found ? foundFaults : []) {
    const result = await runEpisode({ ...base, seed, faults });
    add(summary, result);
    report(result);
    if (result.violations.length > 0)
      summary.failures.push({ seed, violations: [promise, ...result.violations], again: '--found' });
  }
  for (let i = 0; !values.found && i < most && spentMs() < limitMs; i++) {
    const seed = first + i * Number(values.step);
    const faults = only?.map((at) => faultsOf(seed)[at]).filter((one) => one !== undefined);
    const result = await runEpisode({ ...base, seed, faults, first: values.first });
    add(summary, result);
    report(result);
    if (result.violations.length === 0) continue;
    const isShrunk =
      !values.keep && !values.first && only === undefined && summary.failures.length < MOST_SHRUNK;
    const fewest = isShrunk ? await fewestFaults({ ...base, seed }, result) : only;
    summary.failures.push({
      seed,
      violations: result.violations.slice(0, 3),
      again: commandOf(seed, fewest),
    });
    if (values.first) break;
    if (isShrunk) console.log(`  the fewest faults: ${commandOf(seed, fewest)}`);
  }
  const { user, system } = process.cpuUsage(cpu);
  finish(summary, wallMs() / 1000, (user + system) / 1e6);
  return summary;
}

/** Those that came after the violation have no part in it. */
async function fewestFaults(base: EpisodeOptions, { violations, faults }: EpisodeResult): Promise<number[]> {
  const kind = kindOf(violations[0] as string);
  const all = faults.map((fault, at) => ({ fault, at }));
  const fails = async (some: typeof all) => {
    const found = await runEpisode({ ...base, faults: some.map(({ fault }) => fault), first: true });
    return found.violations.some((one) => kindOf(one) === kind);
  };
  const endMs = 1000 * Number(/^at ([\d.]+)/.exec(violations[0] as string)?.[1] ?? Number.POSITIVE_INFINITY);
  const before = all.filter(({ fault }) => fault.atMs <= endMs);
  const start = (await fails(before)) ? before : all;
  return (await shrink(start, (some) => fails([...some]), SHRINK_TRIES)).map(({ at }) => at);
}

/** What it says, without whom and when. */
function kindOf(violation: string): string {
  return violation
    .replace(/^at [\d.]+ s: /, '')
    .replaceAll(/\b[a-z]*\d[\w.-]*/g, '#')
    .slice(0, 60);
}

function commandOf(seed: number, only: readonly number[] | undefined): string {
  const some = only === undefined ? '' : ` --only ${only.length === 0 ? 'none' : only.join(',')}`;
  return `npm run simulate:faults -- --seed ${seed} --episodes 1${some} # at ${commitOf()}`;
}

function numbersOf(text: string): number[] {
  return text === 'none' ? [] : text.split(',').map(Number);
}

function commitOf(): string {
  try {
    return execFileSync('git', ['rev-parse', '--short', 'HEAD'], { encoding: 'utf8' }).trim();
  } catch {
    return 'an unknown commit';
  }
}

function report({ seed, hash, simulatedMs, requests, faults, violations, log }: EpisodeResult): void {
  const minutes = (simulatedMs / 60_000).toFixed(1);
  console.log(
    `seed ${seed}: ${minutes} min, ${requests} requests, ${faults.length} faults, trace ${hash}, ${violations.length} violations`,
  );
  for (const violation of violations) console.log(`  ${violation}`);
  for (const line of log.slice(-12)) console.log(`    ${line}`);
}

function emptySummary(): Summary {
  return {
    episodes: 0,
    simulatedHours: 0,
    fleetHoursAnHour: 0,
    wallSeconds: 0,
    cpuSeconds: 0,
    requests: 0,
    tokens: 0,
    messages: 0,
    faults: {},
    violations: 0,
    failures: [],
  };
}

function add(summary: Summary, result: EpisodeResult): void {
  summary.episodes += 1;
  summary.simulatedHours += result.simulatedMs / 3_600_000;
  summary.requests += result.requests;
  summary.tokens += result.tokens;
  summary.messages += result.messages;
  summary.violations += result.violations.length;
  for (const [kind, count] of Object.entries(result.struck)) {
    summary.faults[kind] = (summary.faults[kind] ?? 0) + count;
  }
}

function finish(summary: Summary, wallSeconds: number, cpuSeconds: number): void {
  summary.wallSeconds = wallSeconds;
  summary.cpuSeconds = cpuSeconds;
  summary.fleetHoursAnHour = (3600 * summary.simulatedHours) / wallSeconds;
}

/** Each job has a process, and every so many seeds. */
async function runJobs(words: readonly string[], jobs: number, seed: number, root: string): Promise<Summary> {
  const program = fileURLToPath(import.meta.url);
  const began = process.hrtime.bigint();
  const lines = await Promise.all(
    Array.from({ length: jobs }, (_, job) => {
      const own = ['--jobs', '1', '--seed', String(seed + job), '--step', String(jobs)];
      const code = `const { simulate } = await import(${JSON.stringify(program)}); await simulate(${JSON.stringify([...words, ...own])}, ${JSON.stringify(root)});`;
      return lastLine(['--input-type=module', '-e', code]);
    }),
  );
  const all = lines.map((line) => JSON.parse(line) as Summary);
  const summary = emptySummary();
  for (const one of all) {
    for (const key of [
      'episodes',
      'simulatedHours',
      'requests',
      'tokens',
      'messages',
      'violations',
    ] as const) {
      summary[key] += one[key];
    }
    for (const [kind, count] of Object.entries(one.faults)) {
      summary.faults[kind] = (summary.faults[kind] ?? 0) + count;
    }
    summary.failures.push(...one.failures);
  }
  const cpuSeconds = all.reduce((sum, one) => sum + one.cpuSeconds, 0);
  finish(summary, Number(process.hrtime.bigint() - began) / 1e9, cpuSeconds);
  return summary;
}

function lastLine(words: readonly string[]): Promise<string> {
  const child = spawn(process.execPath, [...words], { stdio: ['ignore', 'pipe', 'inherit'] });
  let last = '';
  let rest = '';
  child.stdout.setEncoding('utf8');
  child.stdout.on('data', (text: string) => {
    const lines = (rest + text).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) {
      if (line.startsWith('{')) last = line;
      else console.log(line);
    }
  });
  return new Promise((resolve, reject) => {
    child.on('close', () =>
      last === '' ? reject(new Error('a job ended without its summary')) : resolve(last),
    );
  });
}
