// What operators see and change in a fleet, at any gateway.

import type { Clock } from '../../runtime/clock.ts';
import { within } from '../../runtime/timers.ts';
import type { Membership } from '../membership.ts';
import type { Answer, ModelWork, NodeStatus, Question } from '../messages.ts';
import { type DesiredState, type Placement, placedOn } from '../placement.ts';
import type { TokensByTier } from '../routing/expected-prefix.ts';
import type { Dispatcher } from './dispatcher.ts';
import type { ModelContents } from './model-contents.ts';

const ASK_MS = 5000;
/** A scrape waits no longer for the message system. */
const FIGURES_MS = 1000;

interface PlacedModel extends Placement {
  /** As far as there are workers that can load it. */
  readonly placedOn: readonly string[];
}

export interface FleetView {
  readonly nodes: readonly NodeStatus[];
  readonly placements: readonly PlacedModel[];
  /** Workers that take nothing until they are resumed, there or not. */
  readonly drained: readonly string[];
}

/** What the scheduler of a worker does with a model. */
export interface WorkerWork extends ModelWork {
  readonly node: string;
  readonly model: string;
  readonly running: number;
  readonly waiting: number;
}

export interface FleetWork {
  /** Of all workers together, however many are listed. */
  readonly all: Omit<WorkerWork, 'node' | 'model'>;
  /** Workers with a model that is loaded. */
  readonly count: number;
  /** The busiest first. */
  readonly workers: readonly WorkerWork[];
}

type Refusal = string | undefined;

interface FleetControlOptions {
  readonly node: string;
  readonly membership: Membership;
  /** Undefined where the message system stores nothing. */
  readonly desired: DesiredState | undefined;
  readonly ask: (node: string, question: Question, timeoutMs: number) => Promise<Answer>;
  readonly contents: Pick<ModelContents, 'counts'>;
  /** How often requests changed workers, or were sent to theirs again. */
  readonly dispatched: Dispatcher['counts'];
  /** Undefined where nothing is archived. */
  readonly archiveBytes: (() => Promise<number>) | undefined;
  readonly nowMs: () => number;
  readonly clock: Clock;
}

interface MemberCount {
  readonly role: 'worker' | 'gateway';
  readonly state: 'serving' | 'draining';
  readonly count: number;
}

interface PlacementCount {
  readonly model: string;
  readonly wanted: number;
  readonly placed: number;
}

/** For metrics. What the message system does not say in time is absent. */
export interface FleetFigures {
  readonly members: readonly MemberCount[];
  readonly placements?: readonly PlacementCount[] | undefined;
  readonly contents: ReturnType<ModelContents['counts']>;
  readonly reassignments: number;
  readonly resends: number;
  readonly expectedTokens: TokensByTier;
  readonly oldestStatusMs: number;
  readonly archiveBytes?: number | undefined;
}

export class FleetControl {
  readonly #options: FleetControlOptions;
  /** By node: when its last status came. */
  readonly #heardMs = new Map<string, number>();

  constructor(options: FleetControlOptions) {
    this.#options = options;
    const { membership, nowMs } = options;
    membership.onStatus(({ node }) => this.#heardMs.set(node, nowMs()));
    membership.onChange((change, { node }) => {
      if (change === 'left') this.#heardMs.delete(node);
    });
  }

  async figures(): Promise<FleetFigures> {
    const { contents, membership, dispatched, archiveBytes, nowMs, clock } = this.#options;
    const inTime = <Value>(value: Promise<Value> | undefined) =>
      value && within(value, FIGURES_MS, clock).catch(() => undefined);
    const [placements, bytes] = await Promise.all([inTime(this.#placements()), inTime(archiveBytes?.())]);
    return {
      members: memberCounts(membership.all()),
      placements: placements?.map(({ model, replicas, placedOn: { length } }) => ({
        model,
        wanted: replicas,
        placed: length,
      })),
      contents: contents.counts(),
      ...dispatched,
      oldestStatusMs: Math.max(0, ...[...this.#heardMs.values()].map((heardMs) => nowMs() - heardMs)),
      archiveBytes: bytes,
    };
  }

  async view(): Promise<FleetView> {
    return {
      nodes: this.#options.membership.all().sort((a, b) => (a.node < b.node ? -1 : 1)),
      placements: await this.#placements(),
      drained: (await this.#options.desired?.drained()) ?? [],
    };
  }

  async #placements(): Promise<PlacedModel[]> {
    const { desired, membership } = this.#options;
    const placements = (await desired?.placements()) ?? [];
    const workers = membership.workers();
    return placements.map((one) => ({ ...one, placedOn: placedOn(one, workers) }));
  }

  /** `most`: how many are listed; the rest is in the sums alone, so that answers stay small in large fleets. */
  work(most: number): FleetWork {
    const workers = this.#options.membership.workers().flatMap(workOf);
    const load = ({ running, waiting }: WorkerWork) => running + waiting;
    workers.sort((a, b) => load(b) - load(a) || (a.node < b.node ? -1 : 1));
    return { all: sumOf(workers), count: workers.length, workers: workers.slice(0, most) };
  }

  async place(placement: Placement): Promise<Refusal> {
    if (this.#options.desired === undefined)
      return 'the message system keeps nothing: run NATS with JetStream';
    const workers = this.#options.membership.workers();
    if (!workers.some(({ models }) => models.some(({ name }) => name === placement.model))) {
      return `no worker has a model named ${placement.model}`;
    }
    const unknown = placement.nodes.find((node) => !workers.some((one) => one.node === node));
    if (unknown !== undefined) return `there is no worker named ${unknown}`;
    await this.#options.desired.place(placement);
    return undefined;
  }

  async drain(node: string, on: boolean): Promise<Refusal> {
    const { membership, desired, ask } = this.#options;
    const isThere = membership.get(node)?.roles.includes('worker') === true;
    // One that has left drains until it is resumed, however often it starts.
    const isKnown = isThere || (await desired?.drained())?.includes(node) === true;
    if (!isKnown) return `there is no worker named ${node}`;
    await desired?.drain(node, on);
    if (!isThere) return undefined;
    const answer = await ask(node, { kind: 'drain', on }, ASK_MS);
    return answer.kind === 'refused' ? answer.reason : undefined;
  }

  /** What this gateway may have of a number that is for all gateways together: shares differ by one at most, and add up. */
  share(total: number): number {
    const { node, membership } = this.#options;
    const names = new Set([node, ...membership.gateways().map((one) => one.node)]);
    const place = [...names].sort().indexOf(node);
    return Math.floor((total + names.size - 1 - place) / names.size);
  }
}

function memberCounts(nodes: readonly NodeStatus[]): MemberCount[] {
  const pairs = (['worker', 'gateway'] as const).flatMap((role) =>
    (['serving', 'draining'] as const).map((state) => ({ role, state })),
  );
  const isOf = ({ role, state }: Omit<MemberCount, 'count'>, { roles, draining }: NodeStatus) =>
    roles.includes(role) && draining === (state === 'draining');
  return pairs.map((pair) => ({ ...pair, count: nodes.filter((node) => isOf(pair, node)).length }));
}

/** An adapter's requests run in the engine of its model, which says the same of its steps and blocks. */
function workOf({ node, models }: NodeStatus): WorkerWork[] {
  return models.flatMap(({ name, adapterOf, load }) => {
    if (load?.work === undefined || adapterOf !== undefined) return [];
    const own = models.filter((one) => one.name === name || one.adapterOf === name);
    const total = (of: (waiting: readonly number[], running: number) => number) =>
      own.reduce((sum, one) => sum + (one.load ? of(one.load.waiting, one.load.running) : 0), 0);
    return [
      {
        ...load.work,
        node,
        model: name,
        running: total((_, running) => running),
        waiting: total((waiting) => waiting.reduce((sum, count) => sum + count, 0)),
      },
    ];
  });
}

/** Sizes of steps are means over all steps. */
function sumOf(workers: readonly WorkerWork[]): FleetWork['all'] {
  const sum = (of: (one: WorkerWork) => number) => workers.reduce((all, one) => all + of(one), 0);
  const stepsPerSecond = sum(({ steps }) => steps.stepsPerSecond);
  const mean = (of: (steps: ModelWork['steps']) => number) =>
    stepsPerSecond === 0 ? 0 : sum(({ steps }) => steps.stepsPerSecond * of(steps)) / stepsPerSecond;
  return {
    running: sum(({ running }) => running),
    waiting: sum(({ waiting }) => waiting),
    steps: {
      stepsPerSecond,
      tokensPerStep: mean(({ tokensPerStep }) => tokensPerStep),
      sequencesPerStep: mean(({ sequencesPerStep }) => sequencesPerStep),
    },
    blocks: {
      limit: sum(({ blocks }) => blocks.limit),
      used: sum(({ blocks }) => blocks.used),
      cached: sum(({ blocks }) => blocks.cached),
      shared: sum(({ blocks }) => blocks.shared),
    },
  };
}
