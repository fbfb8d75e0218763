// What a comparison is asked to measure, and whether the model can do it.

import { availableParallelism } from 'node:os';
import { type KvType, kvTypes } from '../../compute/backend.ts';
import { blocksFor } from '../../engine/cache/block-tables.ts';
import { OfflineError } from '../offline/offline-settings.ts';

/** As a person or a program gives it; what is left out has a default. */
export interface ComparisonOptions {
  /** Tokens of the prompts, one comparison each. Default: a short, a medium and a long one, 32, 128 and 512. */
  readonly prompts?: readonly number[] | undefined;
  /** How many requests are under way at once. Default 4, 8 and 16. */
  readonly concurrencies?: readonly number[] | undefined;
  /** Tokens of each answer. Default 32. */
  readonly tokens?: number | undefined;
  /** Requests of one trial. Default: twice as many as are under way at once. */
  readonly requests?: number | undefined;
  /** How often everything is measured; medians stand. Default 3. */
  readonly repeats?: number | undefined;
  /** Threads that compute. Default: all of the machine. */
  readonly threads?: number | undefined;
  /** How K and V are kept. Default f16. */
  readonly kvType?: KvType | undefined;
}

export interface ComparisonSettings {
  readonly prompts: readonly number[];
  readonly loads: readonly Load[];
  readonly tokens: number;
  readonly repeats: number;
  readonly threads: number;
  readonly kvType: KvType;
}

/** The next request is sent as soon as one ends. */
export interface Load {
  readonly concurrency: number;
  readonly requests: number;
}

const PROMPTS = [32, 128, 512];
const CONCURRENCIES = [4, 8, 16];
const TOKENS = 32;
const REPEATS = 3;
const REQUESTS_PER_CLIENT = 2;
const MOST_CONCURRENCY = 1024;

export function comparisonSettings(wanted: ComparisonOptions, contextLength: number): ComparisonSettings {
  const tokens = count('tokens', wanted.tokens ?? TOKENS);
  const concurrencies = counts('concurrencies', wanted.concurrencies ?? CONCURRENCIES, MOST_CONCURRENCY);
  const requests = wanted.requests === undefined ? undefined : count('requests', wanted.requests);
  const { kvType = 'f16' } = wanted;
  if (!kvTypes.includes(kvType)) throw new OfflineError(`give one of ${kvTypes.join(', ')}`, 'kvType');
  const prompts = counts('prompts', wanted.prompts ?? promptsWithin(contextLength - tokens));
  const longest = Math.max(...prompts);
  if (longest + tokens > contextLength) {
    throw new OfflineError(
      `${longest} tokens and answers of ${tokens} do not fit the model's context of ${contextLength}`,
      'prompts',
    );
  }
  return {
    prompts,
    loads: concurrencies.map((concurrency) => loadOf(concurrency, requests)),
    tokens,
    repeats: count('repeats', wanted.repeats ?? REPEATS),
    threads: count('threads', wanted.threads ?? availableParallelism()),
    kvType,
  };
}

export function comparisonBlocks({ prompts, loads, tokens }: ComparisonSettings): number {
  return mostAtOnce(loads) * blocksFor(Math.max(...prompts) + tokens);
}

export function mostAtOnce(loads: readonly Load[]): number {
  return Math.max(...loads.map(({ concurrency }) => concurrency));
}

/** A model with a short context is measured with what fits. */
function promptsWithin(most: number): number[] {
  const fitting = PROMPTS.filter((prompt) => prompt <= most);
  return fitting.length > 0 ? fitting : [Math.max(1, most)];
}

function loadOf(concurrency: number, requests = REQUESTS_PER_CLIENT * concurrency): Load {
  if (requests >= concurrency) return { concurrency, requests };
  throw new OfflineError(`${requests} cannot be ${concurrency} at once; give at least as many`, 'requests');
}

function counts(option: string, values: readonly number[], most?: number): readonly number[] {
  if (!Array.isArray(values) || values.length === 0) {
    throw new OfflineError('give a list of whole numbers', option);
  }
  return values.map((value) => count(option, value, most));
}

function count(option: string, value: number, most = Number.MAX_SAFE_INTEGER): number {
  if (Number.isInteger(value) && value >= 1 && value <= most) return value;
  const range = most === Number.MAX_SAFE_INTEGER ? 'from 1' : `from 1 to ${most}`;
  throw new OfflineError(`give whole numbers ${range}, not ${value}`, option);
}
