// Who asks what and when: conversations of several turns that share system prompts, made from a seed or read from a trace. Tokens
// are made up, but their prefix keys are those that gateways and engines would compute.

import { z } from 'zod';
import { exponentialFrom, type LengthDistribution, sampleLength } from '#src/bench/serve/load-plan.ts';
import { KEY_LANES } from '#src/engine/cache/prefix-key.ts';
import type { Priority } from '#src/engine/scheduler/sequence.ts';
import { promptKeys, reusableBlocks } from '#src/fleet/routing/prefix-keys.ts';
import { type Seed, seedFrom, uniformAt } from '#src/sampling/random.ts';

export const MODEL_KEY = 'simulated';

export interface Turn {
  readonly number: number;
  readonly conversation: Conversation;
  /** It starts after this time, and after the turn before it was answered and read. */
  readonly plannedMs: number;
  readonly promptTokens: number;
  readonly answerTokens: number;
  readonly priority: Priority;
}

export interface Conversation {
  readonly name: string;
  /** Of all turns, answers included; each prompt begins with everything before it. */
  readonly tokens: Int32Array;
  readonly keys: Int32Array;
  readonly turns: Turn[];
}

export interface TrafficSettings {
  readonly seed: number;
  readonly requestsPerSecond: number;
  readonly conversations: number;
  /** Conversations overlap both ends of the window; only turns within it count. */
  readonly windowMs: number | undefined;
  readonly turns: number;
  readonly thinkMs: number;
  /** The n-th system prompt is chosen in proportion to 1 / n^hot. */
  readonly groups: number;
  readonly hot: number;
  readonly systemTokens: number;
  readonly userTokens: LengthDistribution;
  readonly answerTokens: LengthDistribution;
  readonly highShare: number;
  readonly lowShare: number;
}

/** Lines of one conversation continue each other. */
export interface TracedRequest {
  readonly arrivalMs: number;
  readonly promptTokens: number;
  readonly answerTokens: number;
  /** Requests of one group begin with the same tokens. */
  readonly prefixGroup: number;
  readonly prefixTokens: number;
  readonly conversation?: string | undefined;
}

const VOCABULARY = 32_000;
const purposes = { start: 0, group: 1, priority: 2, think: 3, user: 4, answer: 5 } as const;
const ROWS = 16;

export function makeTraffic(settings: TrafficSettings): Conversation[] {
  const seed = seedFrom(BigInt(settings.seed));
  const uniform = (purpose: keyof typeof purposes, of: number) => (n: number) =>
    uniformAt(seed, of, purposes[purpose] + ROWS * n);
  const groupOf = groupChooser(settings);
  const perSecond = settings.requestsPerSecond / settings.turns;
  const numbers = counter();
  const { windowMs = Number.POSITIVE_INFINITY } = settings;
  let startMs = settings.windowMs === undefined ? 0 : -leadMs(settings);
  const all = Array.from({ length: settings.conversations }, (_, n) => {
    startMs += exponentialFrom(uniform('start', n), perSecond);
    const group = groupOf(uniform('group', n)(0));
    const priority = priorityOf(uniform('priority', n)(0), settings);
    let plannedMs = startMs;
    let length = settings.systemTokens;
    const turns = Array.from({ length: settings.turns }, (_, turn) => {
      const place = n * settings.turns + turn;
      if (turn > 0) plannedMs += exponentialFrom(uniform('think', place), 1000 / settings.thinkMs);
      const promptTokens = length + sampleLength(settings.userTokens, uniform('user', place));
      const answerTokens = sampleLength(settings.answerTokens, uniform('answer', place));
      length = promptTokens + answerTokens;
      return { plannedMs, promptTokens, answerTokens, priority };
    });
    const within = turns.filter((turn) => turn.plannedMs >= 0 && turn.plannedMs < windowMs);
    const tokens = tokensOf(seed, n, length, group, settings.systemTokens);
    return conversationOf(`${n}`, tokens, within, numbers);
  });
  return all.filter((one) => one.turns.length > 0);
}

/** As many as keep the rate constant over the window. */
export function conversationsIn(
  windowMs: number,
  settings: Pick<TrafficSettings, 'requestsPerSecond' | 'turns' | 'thinkMs'>,
): number {
  const perMs = settings.requestsPerSecond / settings.turns / 1000;
  return Math.max(1, Math.ceil((windowMs + leadMs(settings)) * perMs));
}

/** How long before the window the first conversations begin, so that most are over by its start. */
function leadMs({ turns, thinkMs }: Pick<TrafficSettings, 'turns' | 'thinkMs'>): number {
  return 2 * (turns - 1) * thinkMs;
}

export function replayTraffic(trace: readonly TracedRequest[], seedNumber: number): Conversation[] {
  const seed = seedFrom(BigInt(seedNumber));
  const numbers = counter();
  const grouped = new Map<string, TracedRequest[]>();
  trace.forEach((request, n) => {
    const name = request.conversation ?? `line ${n + 1}`;
    grouped.set(name, [...(grouped.get(name) ?? []), request]);
  });
  return [...grouped].map(([name, requests], n): Conversation => {
    const longest = Math.max(...requests.map((one) => one.promptTokens + one.answerTokens));
    const [first] = requests as [TracedRequest];
    const tokens = tokensOf(seed, n, longest, first.prefixGroup, first.prefixTokens);
    const turns = requests
      .toSorted((a, b) => a.arrivalMs - b.arrivalMs)
      .map(({ arrivalMs, promptTokens, answerTokens }) => ({
        plannedMs: arrivalMs,
        promptTokens,
        answerTokens,
        priority: 1 as const,
      }));
    return conversationOf(name, tokens, turns, numbers);
  });
}

/** Prompt tokens that one worker with unlimited memory would find cached, were every turn answered before the next. */
export function idealCachedTokens(conversations: readonly Conversation[], blockTokens: number): number {
  const turns = conversations.flatMap((one) => one.turns).sort((a, b) => a.plannedMs - b.plannedMs);
  const seen = new Set<number>();
  let cached = 0;
  for (const { conversation, promptTokens, answerTokens } of turns) {
    const limit = reusableBlocks(promptTokens);
    let found = 0;
    while (found < limit && seen.has(nameOf(conversation.keys, found))) found += 1;
    cached += found * blockTokens;
    const full = reusableBlocks(promptTokens + answerTokens);
    for (let i = found; i < full; i++) seen.add(nameOf(conversation.keys, i));
  }
  return cached;
}

/** 53 bits of a block's key, enough to tell blocks apart. */
function nameOf(keys: Int32Array, block: number): number {
  const [high, low] = [keys[KEY_LANES * block] as number, keys[KEY_LANES * block + 1] as number];
  return (high & 0x1fffff) * 2 ** 32 + (low >>> 0);
}

function conversationOf(
  name: string,
  tokens: Int32Array,
  planned: readonly Omit<Turn, 'number' | 'conversation'>[],
  nextNumber: () => number,
): Conversation {
  const keys = promptKeys({ modelKey: '', salt: ':', tokens });
  const conversation: Conversation = { name, tokens, keys, turns: [] };
  for (const turn of planned) conversation.turns.push({ ...turn, number: nextNumber(), conversation });
  return conversation;
}

function tokensOf(
  seed: Seed,
  conversation: number,
  length: number,
  group: number,
  shared: number,
): Int32Array {
  return Int32Array.from({ length }, (_, position) => {
    const row = position < shared ? 2 * group : 2 * conversation + 1;
    return mix(seed.low ^ Math.imul(row, 0x9e3779b1) ^ Math.imul(position, 0x85ebca6b)) % VOCABULARY;
  });
}

function mix(value: number): number {
  let bits = Math.imul(value ^ (value >>> 16), 0x7feb352d);
  bits = Math.imul(bits ^ (bits >>> 15), 0x846ca68b);
  return (bits ^ (bits >>> 16)) >>> 0;
}

function groupChooser({ groups, hot }: TrafficSettings): (uniform: number) => number {
  const ends: number[] = [];
  for (let n = 1; n <= groups; n++) ends.push((ends.at(-1) ?? 0) + 1 / n ** hot);
  const all = ends.at(-1) ?? 1;
  return (uniform) => {
    const group = ends.findIndex((end) => uniform * all < end);
    return group === -1 ? groups - 1 : group;
  };
}

function priorityOf(uniform: number, { highShare, lowShare }: TrafficSettings): Priority {
  if (uniform < highShare) return 0;
  return uniform < highShare + lowShare ? 2 : 1;
}

function counter(): () => number {
  let next = 0;
  return () => next++;
}

type Trace =
  | { readonly kind: 'trace'; readonly requests: readonly TracedRequest[] }
  | { readonly kind: 'mistake'; readonly line: number; readonly reason: string };

const wholeTokens = z.int().min(1).max(1_000_000);
const line = z.strictObject({
  arrivalMs: z.number().min(0),
  promptTokens: wholeTokens,
  answerTokens: wholeTokens,
  prefixGroup: z.int().min(0).default(0),
  prefixTokens: z.int().min(0).optional(),
  conversation: z.string().optional(),
});

/** `prefixTokens`: the default for lines without their own. */
export function readTrace(text: string, prefixTokens: number): Trace {
  const requests: TracedRequest[] = [];
  for (const [at, written] of text.split('\n').entries()) {
    if (written.trim() === '') continue;
    let value: unknown;
    try {
      value = JSON.parse(written);
    } catch {
      return { kind: 'mistake', line: at + 1, reason: 'is not JSON' };
    }
    const read = line.safeParse(value);
    if (!read.success) {
      const [issue] = read.error.issues;
      const where = issue?.path.join('.') ?? '';
      return { kind: 'mistake', line: at + 1, reason: `${where}: ${issue?.message}` };
    }
    requests.push({ ...read.data, prefixTokens: read.data.prefixTokens ?? prefixTokens });
  }
  if (requests.length === 0) return { kind: 'mistake', line: 1, reason: 'no request in the file' };
  return { kind: 'trace', requests };
}
