// The settings of a simulation, from the command line.

import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { LENGTH_FORMS, type LengthDistribution, parseLengths } from '#src/bench/serve/load-plan.ts';
import type { Speeds } from '#src/fleet/routing/heartbeat.ts';
import { type PolicyName, policyNames } from './policies.ts';
import { conversationsIn, readTrace, type TracedRequest, type TrafficSettings } from './traffic.ts';

export interface SimulationSettings {
  readonly workers: number;
  readonly gateways: number;
  readonly policies: readonly PolicyName[];
  /** Whether nodes are the real ones, or have the router alone. */
  readonly areWhole: boolean;
  readonly traffic: TrafficSettings;
  readonly trace: readonly TracedRequest[] | undefined;
  readonly speeds: Speeds;
  readonly spread: number;
  readonly blocks: number;
  readonly maxRunning: number;
  readonly heartbeatMs: number;
  /** At most this often. */
  readonly newsMs: number;
  readonly delayMs: number;
  readonly loss: number;
  readonly maxWaitMs: number;
  readonly indexEntries: number;
  /** Expected failures of each worker in an hour, and how long it is down. */
  readonly failuresPerHour: number;
  readonly downMs: number;
  /** Until a block has come up from a folder that all workers share; undefined where there is none. */
  readonly folderMs: number | undefined;
}

/** Measured figures: docs/performance.md (1.24 B parameters, Q8_0, two cores) and docs/gpu.md (8 B, Q4_0, one H200). */
const machines: Readonly<Record<string, Speeds & { readonly blocks: number; readonly maxRunning: number }>> =
  {
    cpu: {
      promptTokenMs: 2.9,
      stepBaseMs: 40,
      stepRowMs: 1.6,
      stepTokens: 128,
      blocks: 2048,
      maxRunning: 32,
    },
    gpu: {
      promptTokenMs: 0.31,
      stepBaseMs: 2.9,
      stepRowMs: 0.24,
      stepTokens: 512,
      blocks: 16_384,
      maxRunning: 128,
    },
  };

interface Option {
  readonly form: string;
  readonly says: string;
  readonly usual?: string;
}

const options = {
  workers: { form: 'N', says: 'simulated workers', usual: '16' },
  gateways: { form: 'N', says: 'gateways that share the requests, each with its own view', usual: '3' },
  policies: { form: 'A,B', says: `of ${policyNames.join(', ')}`, usual: policyNames.join(',') },
  nodes: {
    form: 'KIND',
    says: 'router: the router alone; whole: real nodes, and every message coded and counted',
    usual: 'router',
  },
  seed: { form: 'N', says: 'the same seed gives the same run', usual: '1' },
  rate: { form: 'R', says: 'requests a second, at random (default: half a request for each worker)' },
  seconds: { form: 'N', says: 'of steady load', usual: '60' },
  conversations: { form: 'N', says: 'so many and all their turns, in place of steady load' },
  turns: { form: 'N', says: 'of each conversation', usual: '4' },
  'think-ms': { form: 'N', says: 'between turns, on average', usual: '8000' },
  groups: { form: 'N', says: 'different system prompts', usual: '50' },
  hot: { form: 'X', says: 'the n-th system prompt is asked for in proportion to 1 / n^X', usual: '1' },
  'system-tokens': { form: 'N', says: 'of a system prompt', usual: '256' },
  'user-tokens': {
    form: 'LENGTHS',
    says: `added with each turn: ${LENGTH_FORMS}`,
    usual: 'lognormal:48,0.6',
  },
  'answer-tokens': { form: 'LENGTHS', says: 'of an answer, in the same forms', usual: 'lognormal:64,0.5' },
  high: { form: 'SHARE', says: 'of conversations with priority HIGH', usual: '0' },
  low: { form: 'SHARE', says: 'of conversations with priority LOW', usual: '0' },
  trace: { form: 'FILE', says: 'JSON lines to replay in place of all that; see docs/fleet-routing.md' },
  machine: {
    form: 'NAME',
    says: `measured figures of a worker: ${Object.keys(machines).join(' or ')}`,
    usual: 'cpu',
  },
  'step-base-ms': { form: 'X', says: 'in place of the measured figure' },
  'step-row-ms': { form: 'X', says: 'in place of the measured figure' },
  'prompt-token-ms': { form: 'X', says: 'in place of the measured figure' },
  'step-tokens': { form: 'N', says: 'tokens of a step at most' },
  blocks: { form: 'N', says: 'blocks of 32 tokens that a worker has' },
  'max-running': { form: 'N', says: 'sequences that run at once in a worker' },
  spread: { form: 'SHARE', says: 'workers are up to so much faster or slower', usual: '0.1' },
  'heartbeat-ms': { form: 'N', says: 'between heartbeats', usual: '500' },
  'news-ms': { form: 'N', says: "between batches of a cache's news", usual: '100' },
  'delay-ms': { form: 'N', says: 'that a message takes', usual: '2' },
  loss: { form: 'SHARE', says: 'of batches that do not arrive', usual: '0' },
  'max-wait-ms': { form: 'N', says: 'a longer expected wait is refused', usual: '60000' },
  'index-entries': { form: 'N', says: "a gateway's index holds at most", usual: `${2 ** 22}` },
  failures: { form: 'R', says: 'deaths an hour, for each worker', usual: '0' },
  'folder-ms': { form: 'X', says: 'workers share a folder of KV blocks, from which one comes up in so long' },
  'down-ms': { form: 'N', says: 'until a dead worker is back, empty', usual: '10000' },
} as const satisfies Readonly<Record<string, Option>>;

type Name = keyof typeof options;

export class SettingsError extends Error {}

export const usage = [
  'npm run bench -- simulate [options]',
  '',
  ...Object.entries<Option>(options).map(([name, { form, says, usual }]) => {
    const tail = usual === undefined ? '' : ` (default ${usual})`;
    return `  ${`--${name} ${form}`.padEnd(26)}${says}${tail}`;
  }),
].join('\n');

export function readSettings(args: readonly string[]): SimulationSettings {
  const given = parseOptions(args);
  const text = (name: Name): string | undefined => given[name] ?? (options[name] as Option).usual;
  const number = (name: Name, least: number, usual?: number): number => {
    const value = text(name);
    if (value === undefined) return usual ?? Number.NaN;
    const read = value.trim() === '' ? Number.NaN : Number(value);
    if (!(Number.isFinite(read) && read >= least))
      fail(`--${name} must be a number of at least ${least}, not "${value}"`);
    return read;
  };
  const count = (name: Name, usual?: number): number => {
    const value = number(name, 1, usual);
    if (!Number.isInteger(value)) fail(`--${name} must be a whole number, not "${value}"`);
    return value;
  };
  const share = (name: Name): number => {
    const value = number(name, 0);
    if (value > 1) fail(`--${name} must be between 0 and 1, not "${value}"`);
    return value;
  };
  const lengths = (name: Name): LengthDistribution =>
    parseLengths(text(name) ?? '') ?? fail(`--${name} must be one of ${LENGTH_FORMS}, not "${text(name)}"`);

  const machineName = text('machine') ?? '';
  const machine = machines[machineName] ?? fail(`--machine must be cpu or gpu, not "${machineName}"`);
  const workers = count('workers');
  const areWhole = readNodes(text('nodes') ?? '');
  if (areWhole && given['folder-ms'] !== undefined) fail('--folder-ms needs --nodes router');
  const requestsPerSecond = number('rate', 1e-3, workers / 2);
  const turns = count('turns');
  const thinkMs = number('think-ms', 1);
  const windowMs = given.conversations === undefined ? 1000 * number('seconds', 0.1) : undefined;
  const [highShare, lowShare] = [share('high'), share('low')];
  if (highShare + lowShare > 1) fail('--high and --low are shares of one whole: together at most 1');
  return {
    workers,
    gateways: count('gateways'),
    policies: readPolicies(text('policies') ?? ''),
    areWhole,
    trace: given.trace === undefined ? undefined : traceFrom(given.trace, number('system-tokens', 0)),
    traffic: {
      seed: number('seed', 0),
      requestsPerSecond,
      conversations:
        windowMs === undefined
          ? count('conversations')
          : conversationsIn(windowMs, { requestsPerSecond, turns, thinkMs }),
      windowMs,
      turns,
      thinkMs,
      groups: count('groups'),
      hot: number('hot', 0),
      systemTokens: number('system-tokens', 0),
      userTokens: lengths('user-tokens'),
      answerTokens: lengths('answer-tokens'),
      highShare,
      lowShare,
    },
    speeds: {
      promptTokenMs: number('prompt-token-ms', 0, machine.promptTokenMs),
      stepBaseMs: number('step-base-ms', 0.001, machine.stepBaseMs),
      stepRowMs: number('step-row-ms', 0, machine.stepRowMs),
      stepTokens: count('step-tokens', machine.stepTokens),
    },
    spread: share('spread'),
    blocks: count('blocks', machine.blocks),
    maxRunning: count('max-running', machine.maxRunning),
    heartbeatMs: number('heartbeat-ms', 1),
    newsMs: number('news-ms', 1),
    delayMs: number('delay-ms', 0),
    loss: share('loss'),
    maxWaitMs: number('max-wait-ms', 0),
    indexEntries: count('index-entries'),
    failuresPerHour: number('failures', 0),
    downMs: number('down-ms', 1),
    folderMs: given['folder-ms'] === undefined ? undefined : number('folder-ms', 0),
  };
}

function parseOptions(args: readonly string[]): Partial<Record<Name, string>> {
  const named = Object.fromEntries(Object.keys(options).map((name) => [name, { type: 'string' as const }]));
  try {
    return parseArgs({ args: [...args], options: named, strict: true, allowPositionals: false })
      .values as Partial<Record<Name, string>>;
  } catch (error) {
    return fail(error instanceof Error ? error.message : String(error));
  }
}

function readPolicies(text: string): PolicyName[] {
  return text
    .split(',')
    .map(
      (name) =>
        policyNames.find((known) => known === name) ??
        fail(`--policies knows ${policyNames.join(', ')}, not "${name}"`),
    );
}

function readNodes(text: string): boolean {
  return ['router', 'whole'].includes(text)
    ? text === 'whole'
    : fail(`--nodes must be router or whole, not "${text}"`);
}

function traceFrom(file: string, prefixTokens: number): readonly TracedRequest[] {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    return fail(`--trace: ${error instanceof Error ? error.message : String(error)}`);
  }
  const trace = readTrace(text, prefixTokens);
  return trace.kind === 'trace'
    ? trace.requests
    : fail(`--trace ${file}, line ${trace.line}: ${trace.reason}`);
}

function fail(message: string): never {
  throw new SettingsError(message);
}
