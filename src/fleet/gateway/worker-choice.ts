// Which worker gets a request: of those that have its model loaded, and compute the same bits where it has begun, the one that
// the router expects to finish it first.

import { BlockImages } from '../../engine/cache/block-images.ts';
import { type EngineRequest, isAnswered } from '../../engine/request.ts';
import type { Membership } from '../membership.ts';
import type { Answer, ModelStatus, NodeStatus, PrefixMessage, Question, StoredMessage } from '../messages.ts';
import { type ExpectedPrefix, NOTHING_FOUND, tokensByTier } from '../routing/expected-prefix.ts';
import { promptKeys } from '../routing/prefix-keys.ts';
import { type RoutedRequest, Router } from '../routing/router.ts';
import type { Assignment } from '../routing/worker-status.ts';
import type { Replica } from './model-replicas.ts';
import type { ModelTable } from './model-table.ts';
import type { ChosenWorker, OpenAnswer } from './open-answer.ts';
import { StoredPrefixes } from './stored-prefixes.ts';
import { WorkerHealth } from './worker-health.ts';

export interface WorkerChoice {
  readonly health: WorkerHealth;
  /** Whether a worker other than the present one can take it and is not avoided. */
  hasOther(open: OpenAnswer, nowMs: number): boolean;
  choose(open: OpenAnswer, nowMs: number): ChosenWorker | undefined;
  released(open: OpenAnswer): void;
}

const ASK_MS = 5000;
const UNKNOWN_TOKENS = 1024;
/** The gateway's own admission refuses what would wait too long; it knows the keys. */
const NEVER = Number.POSITIVE_INFINITY;

interface RoutedChoiceOptions {
  readonly node: string;
  readonly membership: Membership;
  readonly models: ModelTable;
  readonly ask: (node: string, question: Question, timeoutMs: number) => Promise<Answer>;
  readonly nowMs: () => number;
}

export class RoutedChoice implements WorkerChoice {
  readonly health = new WorkerHealth();
  readonly #options: RoutedChoiceOptions;
  readonly #router: Router;
  readonly #assignments = new Map<OpenAnswer, Assignment>();
  readonly #stored: StoredPrefixes;

  constructor(options: RoutedChoiceOptions) {
    this.#options = options;
    this.#router = new Router({ gateway: options.node, maxWaitMs: [NEVER, NEVER, NEVER] });
    this.#stored = new StoredPrefixes({
      router: this.#router,
      ask: options.ask,
      keyOf: (worker, model) => this.#keyOf(worker, model),
      nowMs: options.nowMs,
    });
    options.membership.onStatus((status) => this.#handleStatus(status));
    options.membership.onChange((change, { node }) => {
      if (change !== 'left') return;
      this.#router.remove(node);
      this.#stored.left(node);
      this.health.left(node);
    });
  }

  hasOther(open: OpenAnswer, nowMs: number): boolean {
    const avoided = this.#avoided(open, nowMs);
    for (const replica of this.#replicas(open)) {
      const { node } = replica.status;
      if (node !== open.worker?.node && !avoided.has(node) && this.#isAble(open, replica)) return true;
    }
    return false;
  }

  /** A worker that is avoided is better than none. */
  choose(open: OpenAnswer, nowMs: number): ChosenWorker | undefined {
    const unfit = this.#unfit(open);
    const avoided = this.#avoided(open, nowMs);
    const both = new Set([...unfit, ...avoided]);
    return this.#route(open, both, nowMs) ?? (avoided.size > 0 ? this.#route(open, unfit, nowMs) : undefined);
  }

  /** `excluded` grows by those that turn out to be unable: few, since the router knows who drains and who has what. */
  #route(open: OpenAnswer, excluded: Set<string>, nowMs: number): ChosenWorker | undefined {
    for (;;) {
      const routed = routedRequest(open, excluded, nowMs);
      const decision = this.#router.choose(routed, nowMs);
      // Any worker is better than none: its engine rejects what does not fit.
      const name = decision.kind === 'worker' ? decision.worker : this.#anyAble(open, excluded);
      if (name === undefined) return undefined;
      const replica = this.#options.models.content(open.model.name, open.model.key)?.get(name);
      if (replica === undefined || !this.#isAble(open, replica)) {
        excluded.add(name);
        continue;
      }
      const prefix = decision.kind === 'worker' ? decision.prefix : NOTHING_FOUND;
      return this.#give(open, replica, routed, prefix, nowMs);
    }
  }

  #give(
    open: OpenAnswer,
    { status, model }: Replica,
    routed: RoutedRequest,
    prefix: ExpectedPrefix,
    nowMs: number,
  ): ChosenWorker {
    this.health.chosen(status, nowMs);
    const assignment = this.#router.assign(status.node, routed, prefix);
    if (assignment !== undefined) this.#assignments.set(open, assignment);
    return {
      status,
      determinism: model.determinism,
      number: assignment?.number ?? 0,
      expected: tokensByTier(prefix),
    };
  }

  released(open: OpenAnswer): void {
    const assignment = this.#assignments.get(open);
    if (assignment === undefined) return;
    this.#assignments.delete(open);
    this.#router.ended(assignment);
  }

  handle(message: PrefixMessage | StoredMessage): void {
    if ('stored' in message) {
      this.#stored.handle(message);
      return;
    }
    const { worker, model, batch } = message;
    const key = this.#keyOf(worker, model);
    if (key === undefined) return;
    if (this.#router.cacheBatch(worker, key, batch) === 'missed') void this.#catchUp(worker, model);
  }

  #replicas({ model }: OpenAnswer): Iterable<Replica> {
    return this.#options.models.content(model.name, model.key)?.each() ?? [];
  }

  #isAble(open: OpenAnswer, { status, model }: Replica): boolean {
    const { determinism } = open;
    if (status.draining || model.state !== 'loaded' || !seesFor(open, model)) return false;
    // Of those whose leases have ended together, not all have been told of yet.
    if (this.#options.membership.get(status.node)?.start !== status.start) return false;
    return determinism === undefined || model.determinism === determinism;
  }

  #anyAble(open: OpenAnswer, excluded: ReadonlySet<string>): string | undefined {
    for (const replica of this.#replicas(open)) {
      const { node } = replica.status;
      if (!excluded.has(node) && this.#isAble(open, replica)) return node;
    }
    return undefined;
  }

  /** Workers that would compute other bits than it has begun with, or do not see what it shows. */
  #unfit(open: OpenAnswer): Set<string> {
    const unfit = new Set<string>();
    const { determinism, request } = open;
    if (determinism === undefined && request.pictures === undefined) return unfit;
    for (const { status, model } of this.#replicas(open)) {
      const isOther = determinism !== undefined && model.determinism !== determinism;
      if (isOther || !seesFor(open, model)) unfit.add(status.node);
    }
    return unfit;
  }

  #avoided(open: OpenAnswer, nowMs: number): Set<string> {
    return new Set([...open.avoided(nowMs), ...this.health.avoided(open.model.name, nowMs)]);
  }

  #handleStatus(status: NodeStatus): void {
    if (!status.roles.includes('worker')) return;
    this.health.handle(status, this.#options.nowMs());
    const { node, start, number, draining, models, heard } = status;
    const outcome = this.#router.heartbeat(
      {
        worker: node,
        epoch: start,
        number,
        draining,
        heard,
        models: models.flatMap(({ key, load }) => (load === undefined ? [] : [{ ...load, modelKey: key }])),
      },
      this.#options.nowMs(),
    );
    this.#stored.handleStatus(status);
    if (outcome !== 'joined' && outcome !== 'restarted') return;
    // Prefixes from before this gateway knew the worker.
    for (const { name, load } of models) if (load !== undefined) void this.#catchUp(node, name);
  }

  /** Where this fails, the next batch shows the gap and it is tried again. */
  async #catchUp(worker: string, model: string): Promise<void> {
    const answer = await this.#options
      .ask(worker, { kind: 'prefixes', model }, ASK_MS)
      .catch((): Answer => ({ kind: 'refused', reason: 'silent' }));
    const key = this.#keyOf(worker, model);
    if (answer.kind !== 'prefixes' || key === undefined) return;
    if (this.#router.cacheSnapshot(worker, key, answer.snapshot) === 'missed')
      await this.#catchUp(worker, model);
  }

  #keyOf(worker: string, model: string): string | undefined {
    return this.#options.membership.get(worker)?.models.find(({ name }) => name === model)?.key;
  }
}

/** Whether it reads the request's images, if there are any, as the gateway took it. */
function seesFor({ request, model: { vision } }: OpenAnswer, model: Pick<ModelStatus, 'vision'>): boolean {
  return request.pictures === undefined || (vision !== undefined && model.vision === vision);
}

function routedRequest(open: OpenAnswer, excluded: ReadonlySet<string>, nowMs: number): RoutedRequest {
  const { model, request, tokens } = open;
  const all = new Int32Array(request.prompt.length + tokens.length);
  all.set(request.prompt);
  all.set(tokens, request.prompt.length);
  // The engine's salt without an adapter; requests with one match nothing and are routed by load.
  // So do prompts with images of a prefix LM, whose blocks are of one prompt alone.
  const images = request.pictures && new BlockImages(request.pictures.images);
  const keys = promptKeys({ modelKey: '', salt: `:${request.salt}`, tokens: all, images });
  const maxTokens = mostTokens(request);
  return {
    modelKey: model.key,
    keys,
    conversation: `${request.salt} ${keys.length === 0 ? request.id : keys.subarray(0, 2).join(' ')}`,
    excluded,
    priority: request.priority,
    ageMs: open.ageMs(nowMs),
    promptTokens: all.length,
    expectedTokens: Math.min(maxTokens, UNKNOWN_TOKENS),
    maxTokens,
  };
}

function mostTokens(request: EngineRequest): number {
  if (!isAnswered(request)) return 1;
  return Math.max(1, request.parameters.maxTokens ?? UNKNOWN_TOKENS);
}
